"""The verbs that make a model and use it: fit, apply, export."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from monocal.cli import arguments
from monocal.cli.engines import (
    Engine,
    check_new_folder,
    folder_is_there,
    joined_team,
)
from monocal.cli.exits import REFUSED
from monocal.cli.options import (
    ENGINE,
    LATE,
    SCORED,
    SIZES,
    Count,
    Limits,
    Names,
    Pairs,
    Range,
    Settings,
    takes,
)
from monocal.cli.output import folded, print_json, print_lines, remark
from monocal.core.numbers import significant

if TYPE_CHECKING:
    from monocal.models.model import Model


@takes(*SCORED, "fields", "numeric", "time", *LATE, *SIZES, "holdout", "seed")
def calibrate(
    table: list[str],
    *,
    out: str,
    methods: Names = None,
    pcoc: Limits = None,
    mfrce: Annotated[float, Range(0.0)] = 0.1,
    as_json: bool = False,
    **given: Any,
) -> None:
    """Says whether a calibrated forecast may ship, and makes the model.

    Candidates are fitted on the older rows and judged on the newest, by --time, else in the order of the rows; fields
    are proposed unless --fields names them. Exit code 0: SHIP, the simplest of the best is fitted again on all rows.
    Exit code 3: DO NOT SHIP or NOT ENOUGH DATA, with the check that failed.

    Arguments:
        out (FOLDER): What to write: verdict.json, report.html and, if it ships, model.
        methods (NAMES): Candidates from the simplest on; by default none,platt,wide_logistic,umc.

    Examples:
        monocal calibrate log.parquet --score pctr --label click --out box/
        monocal calibrate log.csv --score p --label y --time ts --fields site --out box/
        monocal calibrate log.csv --score p --label y --methods isotonic,umc --out box/
        monocal calibrate log.csv --score p --label y --pcoc 0.95,1.05 --out box/ --json
    """
    from monocal.cli.tables import print_comparison, print_verdict
    from monocal.reports.calibrate import BOX
    from monocal.reports.calibrate import calibrate as calibrate_table

    box, rows = BOX.check_target(out), arguments.table(table)
    limits: dict[str, Any] = {"mfrce": mfrce} | ({} if pcoc is None else {"pcoc": pcoc})
    found = calibrate_table(rows, methods=methods, **limits, **given)
    found.save(box, command=shlex.join(["monocal", *sys.argv[1:]]))
    remark(*found.table.said, found.table.late_labels)
    if as_json:
        print_json(found.as_dict())
    else:
        print_comparison(found.table)
        print_verdict(found.verdict)
    if found.has_report:
        remark(f"wrote {box / 'report.html'}")
    elif found.judged.features is None:
        remark("no report: pip install 'monocal[report]'")
    if found.model is None:
        raise typer.Exit(REFUSED)
    remark(
        f"wrote {box / 'model'}, fitted on all {found.model.info['n_rows']:,} rows. Next:",
        f"  monocal apply {box / 'model'} new.parquet --out scored.parquet",
        f"  monocal serve {box / 'model'}",
        f"  monocal refresh {box / 'model'} new.parquet --out next/ --gate",
    )


@takes(*SCORED, "tasks", "fields", "numeric", "time", *LATE, *SIZES, "master", "conf")
def fit(
    table: list[str],
    *,
    out: str,
    method: str = "auto",
    settings: Settings = None,
    engine: Literal["local", "spark", "torchrun"] = "local",
    n_shards: Count | None = None,
    workers: Count = 2,
    as_json: bool = False,
    **given: Any,
) -> None:
    """Fits a calibrator on all rows of a table and saves the model.

    Nothing is held out: monocal calibrate judges candidates on the newest rows first. --fields auto takes the
    categorical columns that a look at the table proposes. TABLE may also be the folder of a ranked log, whose rows
    are fitted that the ranker was not trained on. With torchrun every process reads its part of a prepared log:
    torchrun --nproc-per-node 2 -m monocal fit ranked/ --method umc --engine torchrun --out model/

    Arguments:
        engine (local|spark|torchrun): Where the work is done: here, on Spark, or by the processes that torchrun
            started.
        n_shards: Parts that a fit is summed up by, by default one per process; the same number gives the same bits.
        workers: With --engine spark: tasks that fit one model together, one slot each.

    Examples:
        monocal fit log.parquet --score pctr --label click --fields site_id,app_id --method umc --out model/
        monocal fit log.parquet --score pctr --label click --fields auto --time timestamp --out model/
        monocal fit log.parquet --score pctr --label click --fields site_id --numeric price,age --method umc --out m/
        monocal fit log.csv --score logit --scores-are logit --label click --method platt --set guard=true --out model/
        monocal fit log.csv --score p --label y --fields site --method per_segment --set method=isotonic --out m/
        monocal fit videos.parquet --tasks click:pctr,long_view:plv --fields video_id,tag --out model/
        monocal fit log.parquet --score pctr --label click --fields site_id --sampling-rate 0.1 --out model/
        monocal fit log.csv --score p --label buy --method platt --event-time ts --label-time paid --window 7d --out m/
        monocal fit log.parquet --score pctr --label click --fields ad_id,advertiser,site --out model/
        monocal fit ranked/ --method umc --out model/
        monocal fit hdfs:///log/ --score pctr --label click --method platt --out model/ --engine spark --master yarn
    """
    from monocal.calibrators import calibrator
    from monocal.models.artefact import MODEL_FOLDER
    from monocal.models.fit import fit_log, rows_to_fit
    from monocal.tables.checks import with_auto_fields

    chosen = calibrator(method, **(settings or {}))
    MODEL_FOLDER.check_target(out)
    rows = arguments.table(table)
    where = Engine(engine, given.pop("master"), given.pop("conf"))
    sizes = {name: given.pop(name) for name in SIZES}
    on_one_machine = ("group", "label_time", "numeric")
    if where.is_spark({"n_shards": n_shards, **{name: given[name] for name in on_one_machine}}):
        from monocal.spark import fit as fit_on_spark

        columns = {name: value for name, value in given.items() if name not in (*on_one_machine, *LATE)}
        model = fit_on_spark(where.opened(rows), method=chosen, workers=workers, **sizes, **columns)
    else:
        columns = {name: value for name, value in given.items() if value is not None}
        columns, lines = with_auto_fields(rows, columns, uses_fields=chosen.class_tags.uses_features)
        remark(*lines)
        with joined_team(engine, rows) as team:
            model = fit_log(rows_to_fit(rows, columns).encoded(**sizes), chosen, team=team, n_shards=n_shards)
        if team is not None and team.rank > 0:
            return
    model.save(out)
    if as_json:
        print_json({"out": out, "fields": model.field_names, "n_rows": model.info["n_rows"]})
        return
    for name in model.task_names:
        if carried := model.carried(name):
            print_lines(folded("\n".join([f"{name}: what is carried forward", *carried])))
    if late := model.info.get("late_labels"):
        remark(f"late labels: {late['mature_share']:.1%} of the rows are older than the window")
    if chosen.class_tags.uses_features and not model.field_names:
        remark("no fields: the score alone was calibrated; --fields auto takes what the table proposes")
    remark(f"fitted {model.info['n_rows']:,} rows and saved the model to {out}")


@takes("sampling_rate", *ENGINE)
def apply(
    model: str,
    table: list[str],
    *,
    out: str,
    column: Pairs = None,
    interval: float | None = None,
    n_threads: Count = 2,
    as_json: bool = False,
    **given: Any,
) -> None:
    """Adds calibrated probabilities to a table of any size.

    All other columns are kept, memory is bounded, and the output appears whole or not at all. On Spark the output is a
    folder of Parquet files that must not be there yet; it is whole when it holds _SUCCESS.

    Arguments:
        model (MODEL): The folder of a saved model, or its URI.
        column (NAME|TASK=NAME): The column to add, by default the score's name with _calibrated behind it.
        interval (LEVEL): Add columns _lower and _upper: where the true probability lies so often, such as 0.9.
        n_threads: Threads that score; reading has its own.

    Examples:
        monocal apply model/ new.parquet --out scored.parquet
        monocal apply model/ "logs/2024-05-*.csv.gz" --out scored.csv --column p_click
        monocal apply model/ videos.parquet --out scored.parquet --column click=p_click --column long_view=p_long
        monocal apply model/ new.parquet --out scored.parquet --interval 0.9
        monocal apply s3://models/ctr s3a://log/ --out s3a://scored/ --engine spark --master yarn
    """
    rows, engine = arguments.table(table), Engine.out_of(given)
    from monocal.models import load_model
    from monocal.models.apply import apply_model

    loaded, rate = load_model(model), given["sampling_rate"]  # refuses before a session starts
    if rate is not None:
        loaded = replace(loaded, sampling_rate=rate)
    if engine.is_spark():
        df = engine.opened(rows)
        # workers read a model that is too large to travel from its place, where it has the rate that it was saved with
        added = _apply_on_spark(model if rate is None else loaded, df, out, column, interval)
        if as_json:
            print_json({"out": out, "columns": added})
        else:
            remark(f"wrote {', '.join(added)} to {out}")
        return
    done = apply_model(loaded, rows, out, column=column, n_threads=n_threads, interval=interval)
    if as_json:
        print_json(done.as_dict())
        return
    remark(f"wrote {done.n_rows:,} rows to {done.out} in {done.seconds:.1f} s ({done.rows_per_second:,.0f} rows/s)")
    for task in loaded.tasks:
        remark(
            f"  {done.columns[task.name]}: mean {significant(done.mean_calibrated[task.name], 4)}, "
            f"{task.score} had {significant(done.mean_score[task.name], 4)}"
        )


def _apply_on_spark(model: Model | str, df: Any, out: str, column: Any, interval: float | None) -> list[str]:
    """Writes the scored table and returns the names of the columns that were added."""
    from monocal.spark import apply, check_rows
    from monocal.spark.workers import refusals_of_workers

    check_new_folder(df, out)
    scored = apply(df, model, column=column, interval=interval)
    # a bad row would fail its task four times over before the job ends
    check_rows(df, model)
    try:
        with refusals_of_workers():
            scored.write.mode("errorifexists").parquet(out)
    except Exception as error:
        if "PATH_ALREADY_EXISTS" not in str(error):
            raise
        raise folder_is_there(out) from None
    added: list[str] = scored.columns[len(df.columns) :]
    return added


def export(
    model: Path,
    *,
    out: str,
    to: Literal["onnx"] = "onnx",
    inputs: Literal["values", "ids"] = "values",
    tolerance: Annotated[float, Range(0.0)] | None = None,
    n_nodes: Count = 128,
    as_json: bool = False,
) -> None:
    """Writes a model as ONNX and proves that it agrees.

    The graph is run on thousands of rows beside the model; beyond the tolerance nothing is written.

    Arguments:
        to: The format.
        inputs: Whether the graph takes raw field values or ids of the model's vocabulary.
        tolerance: Largest difference to predict that is accepted; 1e-6 if not given, 1e-4 with fixed nodes.
        n_nodes: Nodes of an integral that ONNX cannot express (umc_concat).

    Examples:
        monocal export model/ --to onnx --out model.onnx
        monocal export model/ --out model.onnx --inputs ids
        monocal export model/ --out model.onnx --tolerance 1e-5 --n-nodes 400
    """
    from monocal.core.files import check_output, output_file
    from monocal.models import load_model
    from monocal.models.onnx import export_onnx

    target = output_file(out)
    check_output(target, [model])
    done = export_onnx(load_model(model), target, inputs=inputs, tolerance=tolerance, n_nodes=n_nodes)
    if as_json:
        print_json({"to": to, **asdict(done)})
        return
    remark(f"wrote {done.path}")
    remark(
        f"  largest difference to predict: {done.largest_difference:.1e} on {done.n_rows:,} rows "
        f"(accepted: {done.tolerance:.0e})"
    )
    if done.n_nodes is not None:
        remark(f"  its integral is taken at {done.n_nodes} nodes, not in closed form")
    remark(f"  inputs: {', '.join(done.inputs)}")
    remark(f"  outputs: {', '.join(done.outputs)}")
