"""monocal fit."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monocal.cli import arguments
from monocal.cli.engines import (
    FIT_ENGINES,
    Conf,
    FitEngine,
    Master,
    NShards,
    Workers,
    is_spark,
    joined_team,
)
from monocal.cli.option_groups import FitSettings, LateLabels, ScoredColumns
from monocal.cli.options import Debug, Fields, Json, Method, Out, Set, TableArgument, Tasks
from monocal.cli.output import print_json, print_lines, print_table, remark
from monocal.cli.prose import folded
from monocal.cli.spark_tables import spark_table
from monocal.cli.spelling import carry_as_option
from monocal.core.errors import InvalidInput

if TYPE_CHECKING:
    from monocal.calibrators import Calibrator
    from monocal.tables.checks import ProposedField

EXAMPLES = """
monocal fit log.parquet --score pctr --label click --fields site_id,app_id --method umc --out model/
monocal fit log.parquet --score pctr --label click --fields auto --time timestamp --out model/
monocal fit log.parquet --score pctr --label click --fields site_id --numeric price,age --method umc --out model/
monocal fit log.csv --score logit --logits --label click --method platt --set guard=true --out model/
monocal fit log.parquet --score pctr --label click --fields site_id --method per_segment --set method=isotonic --out m/
monocal fit videos.parquet --task click:pctr --task long_view:plv --fields video_id,tag --out model/
monocal fit log.parquet --score pctr --label click --fields site_id --sampling-rate 0.1 --out model/
monocal fit log.parquet --score pcvr --label buy --method platt --event-time ts --label-time paid --window 7d --out m/
monocal fit log.parquet --score pctr --label click --fields ad_id,advertiser,site --out model/
monocal fit ranked/ --method umc --out model/
monocal fit hdfs:///log/ --score pctr --label click --method platt --out model/ --engine spark --master yarn
"""


def fit(
    tables: TableArgument,
    out: Out,
    *,
    columns: ScoredColumns,
    task: Tasks = None,
    fields: Fields = None,
    method: Method = "umc",
    options: Set = None,
    fitting: FitSettings,
    refit: Annotated[
        bool, typer.Option("--refit", help="After judging, fit once more on all rows and save that model.")
    ] = False,
    engine: FitEngine = "local",
    n_shards: NShards = None,
    workers: Workers = 2,
    master: Master = None,
    conf: Conf = None,
    late: LateLabels,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Fits a calibrator on a table with scores and saves the model.

    The most recent rows are kept from the fit and judge it; the split is by --time if given, else by row order.
    Without --fields the categorical columns found are proposed; --fields auto takes them, --fields none goes without.
    TABLE may also be the folder of a ranked log: then its calibration part is fitted and its test part judges.
    With torchrun every process reads its part of a prepared log:
    torchrun --nproc-per-node 2 -m monocal fit ranked/ --method umc --engine torchrun --out model/
    On Spark all rows are fitted and none is held out; `monocal evaluate --engine spark` judges the model on others.
    """
    from monocal.calibrators import calibrator
    from monocal.evaluation.table import fit_and_evaluate
    from monocal.models.artefact import MODEL_FOLDER

    chosen = calibrator(method, **arguments.settings(options))
    MODEL_FOLDER.check_target(out)
    table = arguments.table(tables)
    not_on_spark: dict[str, Any] = {"--refit": refit, "--group": columns.group, "--shards": n_shards}
    not_on_spark |= {
        "--label-time": late.label_time,
        "--numeric": fitting.numeric,
    }
    scored = columns.arguments()
    if is_spark(engine, master, conf, not_on_spark, FIT_ENGINES):
        from monocal.spark import fit as fit_on_spark

        model = fit_on_spark(
            spark_table(table, master, conf),
            method=chosen,
            fields=arguments.names_or_none(fields),
            tasks=arguments.tasks(task),
            time=fitting.time,
            min_count=fitting.min_count,
            max_size=fitting.max_size,
            workers=workers,
            **{name: value for name, value in scored.items() if name != "group"},
        )
        model.save(out)
        if as_json:
            print_json({"out": out, "fields": model.field_names, "n_rows": model.info["n_rows"]})
            return
        remark(f"fitted {model.info['n_rows']:,} rows and saved the model to {out}")
        return
    tasks, numbers = arguments.tasks(task), arguments.names(fitting.numeric)
    if numbers and not fields:
        fields = ["none"]
    taken = {"tasks": tasks, "time": fitting.time, "numeric": numbers}
    taken |= {**scored, **late.arguments()}
    with joined_team(engine, table) as team:
        judged = fit_and_evaluate(
            table,
            method=chosen,
            fields=_fields(table, fields, chosen, taken),
            tasks=tasks,
            refit=refit,
            team=team,
            n_shards=n_shards,
            **scored,
            **fitting.arguments(),
            **late.arguments(),
        )
    if team is not None and team.rank > 0:
        return
    remark(judged.holdout.explanation)
    if judged.evaluation.late_labels is not None:
        remark(str(judged.evaluation.late_labels))
    judged.model.save(out)
    if as_json:
        print_json({"out": out, "fields": judged.model.field_names, **judged.as_dict()})
        return
    from monocal.cli.tables import print_evaluation

    for name, evaluation in judged.tasks.items():
        print_evaluation(f"{name}: {method} on held-out rows", evaluation)
    for name in judged.model.task_names:
        carried = judged.model.carried(name)
        if carried:
            print_lines(folded(carry_as_option("\n".join([f"{name}: what is carried forward", *carried]))))
    remark(f"saved the model{' (fitted again on all rows)' if refit and judged.tasks else ''} to {out}")


def _fields(table: str | list[str], given: list[str] | None, method: Calibrator, taken: dict[str, Any]) -> list[str]:
    """Returns the fields to use; proposes some and stops if nothing was said and the method could use them."""
    from monocal.logs.log_folders import is_any_log_folder
    from monocal.tables.checks import propose_fields, usable_fields
    from monocal.tables.roles import Roles

    if arguments.names(given) or not method.class_tags.uses_features or is_any_log_folder(table):
        return arguments.fields_to_use(table, given, taken)
    proposed = propose_fields(table, Roles.of(**taken))
    usable = usable_fields(proposed)
    _print_proposal(proposed)
    remark(f"monocal {shlex.join([*sys.argv[1:], '--fields', ','.join(usable)])}")
    raise InvalidInput.of(
        "--fields",
        None,
        f"the fields that {method.name!r} may use",
        "take the line above without columns that are measured after the fact, or --fields auto, or --fields none",
    )


def _print_proposal(proposed: list[ProposedField]) -> None:
    rows: list[list[Any]] = [
        [field.name, f"{field.n_values:,}", f"{field.most_common} ({field.most_common_share:.0%})", field.objection]
        for field in proposed
    ]
    print_table("Categorical columns", ["column", "values", "most common", "objection"], rows, left=4, is_result=False)
