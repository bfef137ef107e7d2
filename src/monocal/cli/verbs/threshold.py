"""monocal threshold."""

from __future__ import annotations

import textwrap
from itertools import islice
from typing import Annotated

import typer

from monocal.cli import arguments
from monocal.cli.options import Debug, Json, Label, ModelArgument, TableArgument
from monocal.cli.output import print_json

EXAMPLES = """
monocal threshold model/ validation.parquet --precision 0.9
monocal threshold model/ validation.parquet --recall 0.8 --by language --confidence 0.99
"""


_SHOWN = 20


def threshold(
    model: ModelArgument,
    tables: TableArgument,
    precision: Annotated[
        float | None, typer.Option("--precision", help="Share of positives among the rows taken, at least.")
    ] = None,
    recall: Annotated[
        float | None, typer.Option("--recall", help="Share of the positives that are taken, at least.")
    ] = None,
    false_positive_rate: Annotated[
        float | None,
        typer.Option("--false-positive-rate", help="Share of the negatives that are taken, at most."),
    ] = None,
    confidence: Annotated[
        float, typer.Option("--confidence", help="Probability with which all that is promised holds.")
    ] = 0.95,
    by: Annotated[
        str | None, typer.Option("--by", metavar="COLUMN", help="Every value of this column gets its own cut-off.")
    ] = None,
    task: Annotated[str | None, typer.Option("--for", metavar="TASK", help="Which task of several.")] = None,
    label: Label = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Chooses a cut-off whose precision is promised.

    Or the recall, or the false-positive rate. The promise holds with the stated probability for rows drawn as these
    were; the model must not have been fitted on them. With --by all promises hold together.
    """
    table = arguments.table(tables)
    from monocal.models import load_model

    given = {"precision": precision, "recall": recall, "false_positive_rate": false_positive_rate}
    wanted = {name: value for name, value in given.items() if value is not None}
    found = load_model(model).threshold(table, task=task, label=label, by=by, confidence=confidence, **wanted)
    if as_json:
        print_json(found.as_dict())
        return
    typer.echo(f"{found.told_promise}: take rows with p >=")
    if found.by:
        each = (1.0 - found.confidence) / len(found.by)
        _echo(
            f"  {len(found.by):,} values of {by}, each tested at {each:.3g} = {1.0 - found.confidence:.3g}/"
            f"{len(found.by):,}, so that all of them hold together"
        )
    cuts = {"all rows": found.overall, **found.by} if found.overall is not None else found.by
    for value, cut in islice(cuts.items(), _SHOWN):
        if cut.value is None:
            _echo(f"  {value[:24]:<24}  none: {cut.reason}", indent=34)
        else:
            taken = f"takes {cut.n_taken:,} of {cut.n_rows:,}, observed {cut.observed:.4f}"
            typer.echo(f"  {value[:24]:<24}  {cut.value:.6f}  {taken}")
    if len(cuts) > _SHOWN:
        rest = list(cuts.values())[_SHOWN:]
        with_cut = sum(cut.value is not None for cut in rest)
        typer.echo(f"  … and {len(rest):,} rarer values, {with_cut:,} of them with a cut-off; --json has all")


def _echo(line: str, indent: int = 2) -> None:
    """Writes a line that may be too long for 80 columns."""
    typer.echo(textwrap.fill(line, 79, subsequent_indent=" " * indent))
