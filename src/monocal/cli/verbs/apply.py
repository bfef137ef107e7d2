"""monocal apply."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monocal.cli import arguments
from monocal.cli.engines import Conf, Engine, Master, is_spark
from monocal.cli.options import Debug, Json, ModelPlace, Out, SamplingRate, TableArgument
from monocal.cli.output import print_json, remark
from monocal.cli.spark_tables import check_new_folder, folder_is_there, spark_table
from monocal.core.numbers import significant

if TYPE_CHECKING:
    from monocal.models.model import Model

EXAMPLES = """
monocal apply model/ new.parquet --out scored.parquet
monocal apply model/ "logs/2024-05-*.csv.gz" --out scored.csv --column p_click
monocal apply model/ videos.parquet --out scored.parquet --column click=p_click --column long_view=p_long
monocal apply model/ new.parquet --out scored.parquet --interval 0.9
monocal apply s3://models/ctr s3a://log/ --out s3a://scored/ --engine spark --master yarn
"""


def apply(
    model: ModelPlace,
    tables: TableArgument,
    out: Out,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="NAME|TASK=NAME",
            help="The column to add, by default the score's name with _calibrated behind it.",
        ),
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(
            "--interval",
            metavar="LEVEL",
            help="Add columns _lower and _upper: where the true probability lies so often, such as 0.9.",
        ),
    ] = None,
    rate: SamplingRate = None,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads that score; reading has its own.")] = 2,
    engine: Engine = "local",
    master: Master = None,
    conf: Conf = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Adds calibrated probabilities to a table of any size.

    All other columns are kept, memory is bounded, and the output appears whole or not at all. On Spark the output is a
    folder of Parquet files that must not be there yet; it is whole when it holds _SUCCESS.
    """
    table = arguments.table(tables)
    from monocal.models import load_model
    from monocal.models.apply import apply_model

    loaded = load_model(model)  # refuses before a session starts
    if rate is not None:
        loaded = replace(loaded, sampling_rate=arguments.sampling_rate(rate))
    columns = arguments.pairs("--column", column)
    if is_spark(engine, master, conf, {}):
        df = spark_table(table, master, conf)
        # workers read a model that is too large to travel from its place, where it has the rate that it was saved with
        _apply_on_spark(model if rate is None else loaded, df, out, columns, interval, as_json)
        return
    done = apply_model(loaded, table, out, column=columns, n_threads=threads, interval=interval)
    if as_json:
        print_json(done.as_dict())
        return
    remark(f"wrote {done.n_rows:,} rows to {done.out} in {done.seconds:.1f} s ({done.rows_per_second:,.0f} rows/s)")
    for task in loaded.tasks:
        remark(
            f"  {done.columns[task.name]}: mean {significant(done.mean_calibrated[task.name], 4)}, "
            f"{task.score} had {significant(done.mean_score[task.name], 4)}"
        )


def _apply_on_spark(
    model: Model | str,
    df: Any,
    out: str,
    columns: dict[str, str] | str | None,
    interval: float | None,
    as_json: bool,
) -> None:
    from monocal.spark import apply, check_rows
    from monocal.spark.collecting import refusals_of_workers

    check_new_folder(df, out)
    scored = apply(df, model, column=columns, interval=interval)
    # a bad row would fail its task four times over before the job ends
    check_rows(df, model)
    try:
        with refusals_of_workers():
            scored.write.mode("errorifexists").parquet(out)
    except Exception as error:
        if "PATH_ALREADY_EXISTS" not in str(error):
            raise
        raise folder_is_there(out) from None
    added = scored.columns[len(df.columns) :]
    if as_json:
        print_json({"out": out, "columns": added})
        return
    remark(f"wrote {', '.join(added)} to {out}")
