"""monocal evaluate."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from monocal.cli import arguments
from monocal.cli.engines import Conf, Engine, Master, is_spark
from monocal.cli.option_groups import LateLabels, Period, ScoredColumns
from monocal.cli.options import Debug, Fields, Json, MetricNames, Seed, Tasks
from monocal.cli.output import print_json, remark
from monocal.cli.spark_tables import spark_table

EXAMPLES = """
monocal evaluate model/ test.parquet
monocal evaluate model/ test.parquet --by site_id --group user_id
monocal evaluate scored.parquet --score pctr_calibrated --label click --fields site_id,app_id
monocal evaluate model/ bids.parquet --time ts --since 2024-05-01 --json
monocal evaluate model/ hdfs:///log/ --group user_id --engine spark --master yarn
monocal evaluate model/ hdfs:///log/ --group user_id --engine spark --intervals
"""


def evaluate(
    paths: Annotated[
        list[str], typer.Argument(metavar="[MODEL] TABLE", help="A model to judge on a table, or a table with a score.")
    ],
    *,
    columns: ScoredColumns,
    task: Tasks = None,
    fields: Fields = None,
    by: Annotated[
        list[str] | None, typer.Option("--by", metavar="COLUMNS", help="Judge every value of these columns.")
    ] = None,
    period: Period,
    metrics: MetricNames = None,
    seed: Seed = 0,
    exact: Annotated[
        bool, typer.Option("--exact", help="With --engine spark: AUC from all rows instead of a sketch.")
    ] = False,
    intervals: Annotated[
        bool,
        typer.Option("--intervals", help="With --engine spark: intervals and floors, too, of metrics that are sums."),
    ] = False,
    engine: Engine = "local",
    master: Master = None,
    conf: Conf = None,
    late: LateLabels,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Measures a model or a score column against its noise floor.

    With a model every metric is shown before and after calibration, and whether the difference is more than noise.
    On Spark intervals and floors are shown if asked for, and only of metrics that are sums or means over groups.
    """
    from monocal.evaluation.table import evaluate_table
    from monocal.metrics import METRICS
    from monocal.models import load_model

    names = arguments.names(metrics)
    asked: dict[str, Any] = {
        **columns.arguments(),
        **period.arguments(),
        "tasks": arguments.tasks(task),
        "fields": None if fields is None else arguments.names_or_none(fields),
        "metrics": list(METRICS) if names == ["all"] else names or None,
    }
    not_on_spark = {"--by": by, "--label-time": late.label_time}
    if is_spark(engine, master, conf, {**not_on_spark, "--soft-labels": asked.pop("soft_labels")}):
        from monocal.cli.tables import print_evaluation
        from monocal.spark import evaluate as evaluate_on_spark

        place, tables = arguments.model_and_table(paths)
        if place is not None:
            load_model(place)  # refuses before a session starts
        rows = spark_table(tables, master, conf)
        measured = evaluate_on_spark(rows, model=place, exact=exact, intervals=intervals, seed=seed, **asked)
        if as_json:
            print_json(measured.as_dict())
            return
        for name, evaluation in measured.tasks.items():
            print_evaluation(name, evaluation)
        return
    model, table = arguments.model_and_table(paths)
    found = evaluate_table(
        table,
        model=None if model is None else load_model(model),
        by=arguments.names(by),
        seed=seed,
        soft_labels=columns.soft_labels,
        **late.arguments(),
        **asked,
    )
    if as_json:
        print_json(found.as_dict())
        return
    from monocal.cli.tables import print_task

    if found.late_labels is not None:
        remark(str(found.late_labels))
    for name, judged in found.tasks.items():
        print_task(name, judged)
