"""monocal rank."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from monocal.cli import arguments
from monocal.cli.options import Debug, Json, Out, Set
from monocal.cli.output import print_json, remark

EXAMPLES = """
monocal rank prepared/ --out ranked/
monocal rank prepared/ --ranker deepfm --set hidden=[64,32] --out ranked/
monocal rank prepared/ --ranker precomputed --out ranked/
"""


def rank(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="A prepared log.", show_default=False)],
    out: Out,
    ranker: Annotated[
        str,
        typer.Option("--ranker", metavar="NAME", help="precomputed, hashed_logistic, deepfm or multitask_deepfm."),
    ] = "hashed_logistic",
    options: Set = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Trains a ranker on a prepared log and scores all of it.

    It learns from the part called train. Killed work goes on from its last checkpoint; finished work is not repeated.
    """
    from monocal.lab.rankers import rank_log
    from monocal.lab.rankers import ranker as make_ranker
    from monocal.logs.encoded_log import EncodedLog

    chosen = make_ranker(ranker, **arguments.settings(options))
    scored = rank_log(EncodedLog.open(log), chosen, out)
    if as_json:
        facts = {"out": out, "ranker": ranker, "n_rows": scored.n_rows, "tasks": scored.tasks, "notes": scored.notes}
        print_json({**facts, "fingerprint": scored.fingerprint})
        return
    remark(f"scored {scored.n_rows:,} rows with {ranker} for {', '.join(scored.tasks)} in {out}")
    for note in scored.notes:
        remark(f"  {note}")
