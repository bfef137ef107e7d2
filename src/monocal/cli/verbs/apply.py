"""monocal apply."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from monocal.cli.arguments import pairs, sampling_rate
from monocal.cli.options import Debug, Json, ModelArgument, Out, SamplingRate, TableArgument
from monocal.cli.output import number, print_json, remark

EXAMPLES = """
monocal apply model/ new.parquet --out scored.parquet
monocal apply model/ "logs/2024-05-*.csv.gz" --out scored.csv --column p_click
monocal apply model/ videos.parquet --out scored.parquet --column click=p_click --column long_view=p_long
"""


def apply(
    model: ModelArgument,
    table: TableArgument,
    out: Out,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="NAME|TASK=NAME",
            help="The column to add, by default the score's name with _calibrated behind it.",
        ),
    ] = None,
    rate: SamplingRate = None,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads that score; reading has its own.")] = 2,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Adds calibrated probabilities to a table of any size.

    All other columns are kept, memory is bounded, and the output appears whole or not at all.
    """
    from monocal.models import load_model
    from monocal.models.apply import apply_model

    loaded = load_model(model)
    if rate is not None:
        loaded = replace(loaded, sampling_rate=sampling_rate(rate))
    done = apply_model(loaded, table, out, column=pairs("--column", column), n_threads=threads)
    if as_json:
        print_json(done.as_dict())
        return
    remark(f"wrote {done.n_rows:,} rows to {done.out} in {done.seconds:.1f} s ({done.rows_per_second:,.0f} rows/s)")
    for task in loaded.tasks:
        remark(
            f"  {done.columns[task.name]}: mean {number(done.mean_calibrated[task.name])}, "
            f"{task.score} had {number(done.mean_score[task.name])}"
        )
