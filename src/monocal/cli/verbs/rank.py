"""monocal rank."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from monocal.cli import arguments
from monocal.cli.options import Debug, Json, Out, Set
from monocal.cli.output import print_json, remark
from monocal.cli.prose import folded

EXAMPLES = """
monocal rank prepared/ --out ranked/
monocal rank prepared/ --ranker deepfm --set hidden=[64,32] --out ranked/
monocal rank prepared/ --ranker deepfm --negative-rate 0.1 --out ranked/
monocal rank prepared/ --ranker precomputed --out ranked/
monocal rank prepared/ --loss jrc --group user_id --out ranked/
"""


def rank(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="A prepared log.", show_default=False)],
    out: Out,
    ranker: Annotated[
        str | None,
        typer.Option(
            "--ranker",
            metavar="NAME",
            help="precomputed, hashed_logistic, deepfm, multitask_deepfm or qin; by default hashed_logistic, "
            "with --loss deepfm.",
        ),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="What a network minimises: log_loss, jrc, rcr, calsoftmax, clid, sbcr or bbp."
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMNS",
            help="Fields whose values make a list, for losses that compare rows of a list; for bbp user and item.",
        ),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(metavar="RANKED", help="Another ranker's scores of the same rows, for clid and sbcr."),
    ] = None,
    negative_rate: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Learn from this share of the negatives; scores are corrected for it."),
    ] = None,
    options: Set = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Trains a ranker on a prepared log and scores all of it.

    It learns from the part called train. Killed work goes on from its last checkpoint; finished work is not repeated.
    """
    from monocal.core.errors import InvalidInput
    from monocal.lab.rankers import RANKERS, ScoredLog, rank_log
    from monocal.lab.rankers import ranker as make_ranker
    from monocal.logs.encoded_log import EncodedLog

    if ranker is None:
        ranker = "hashed_logistic" if loss is None else "deepfm"
    settings = arguments.settings(options)
    given = {"loss": loss, "group": arguments.names(group) or None, "negative_rate": negative_rate}
    for name, value in given.items():
        if value is not None:
            if ranker in RANKERS and name not in RANKERS[ranker]().get_params(deep=False):
                option = f"--{name.replace('_', '-')}"
                raise InvalidInput.of(option, value, f"no {option} with {ranker}", "add --ranker deepfm")
            settings[name] = value
    teacher = None if reference is None else ScoredLog.open(reference)
    scored = rank_log(EncodedLog.open(log), make_ranker(ranker, **settings), out, reference=teacher)
    if as_json:
        facts = {"out": out, "ranker": ranker, "n_rows": scored.n_rows, "tasks": scored.tasks, "notes": scored.notes}
        print_json({**facts, "fingerprint": scored.fingerprint})
        return
    remark(f"scored {scored.n_rows:,} rows with {ranker} for {', '.join(scored.tasks)} in {out}")
    for note in scored.notes:
        remark(folded(f"  {note}"))
