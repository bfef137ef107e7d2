"""The verbs that measure and explain: evaluate, compare, report, inspect, methods, metrics."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from inspect import cleandoc
from pathlib import Path
from textwrap import wrap
from typing import Any

from monocal.cli import arguments
from monocal.cli.engines import Engine
from monocal.cli.options import (
    ENGINE,
    LATE,
    PERIOD,
    SCORED,
    SIZES,
    Names,
    Pairs,
    SettingsByMethod,
    takes,
)
from monocal.cli.output import first_line, folded, print_json, print_lines, print_table, remark, wrapped


@takes(*SCORED, "tasks", "fields", "time", *LATE, *PERIOD, "seed", *ENGINE)
def evaluate(
    paths: list[str],
    *,
    by: Names = None,
    metrics: Names = None,
    as_json: bool = False,
    **given: Any,
) -> None:
    """Measures a model or a score column against its noise floor.

    With a model every metric is shown before and after calibration, and whether the difference is more than noise.
    On Spark metrics are sums over rows: those that need all rows in one place say so, and none has an interval.

    Arguments:
        paths ([MODEL] TABLE): A model and a table, or a table with a score.

    Examples:
        monocal evaluate model/ test.parquet
        monocal evaluate model/ test.parquet --by site_id --group user_id
        monocal evaluate scored.parquet --score pctr_calibrated --label click --fields site_id,app_id
        monocal evaluate model/ bids.parquet --time ts --since 2024-05-01 --json
        monocal evaluate model/ hdfs:///log/ --engine spark --master yarn
    """
    from monocal.evaluation.table import evaluate_table
    from monocal.metrics import METRICS
    from monocal.models import load_model

    place, table = arguments.model_and_table(paths)
    # refuses before a session starts
    model = None if place is None else load_model(place)
    chosen = list(METRICS) if metrics == ["all"] else metrics
    engine, on_one_machine = Engine.out_of(given), (*LATE, "soft_labels", "group")
    if engine.is_spark({"by": by, **{name: given[name] for name in on_one_machine}}):
        from monocal.spark import evaluate as evaluate_on_spark

        there = {name: value for name, value in given.items() if name not in (*on_one_machine, "seed")}
        found = evaluate_on_spark(engine.opened(table), model=place, metrics=chosen, **there)
    else:
        found = evaluate_table(table, model=model, by=by or [], metrics=chosen, **given)
    if as_json:
        print_json(found.as_dict())
        return
    from monocal.cli.tables import print_evaluation

    remark(found.late_labels)
    for name, evaluation in found.tasks.items():
        print_evaluation(name, evaluation)


@takes(*SCORED, "fields", "numeric", "time", *LATE, *SIZES, "holdout", "seed")
def compare(
    table: list[str],
    *,
    methods: Names = None,
    settings: SettingsByMethod = None,
    metric: str = "log_loss",
    as_json: bool = False,
    **given: Any,
) -> None:
    """Fits several methods and says which win and which tie.

    The older rows are fitted, the most recent evaluate, by log-loss. Methods are fitted as `monocal fit` fits them;
    --set changes one, and --fields auto takes the categorical columns found. TABLE may be the folder of a ranked log;
    --label then chooses one of its tasks.

    Arguments:
        methods (NAMES): Which methods, with commas; by default those that take seconds, with all every one.
        settings (METHOD.NAME=VALUE): An argument of one method, as TOML or JSON.
        metric (NAME): What to sort by, and to call the best.

    Examples:
        monocal compare log.parquet --score pctr --label click --fields site_id,app_id --time timestamp
        monocal compare log.parquet --score pctr --label click --fields site_id --methods platt,wide_logistic,umc
        monocal compare log.csv --score pctr --label click --methods histogram --set histogram.n_bins=20 --metric ece
        monocal compare log.parquet --score pctr --label click --fields ad_id,advertiser --numeric price
        monocal compare log.parquet --score pctr --label click --fields auto --methods all
        monocal compare ranked/ --label long_view --methods wide_logistic,umc
    """
    rows = arguments.table(table)
    from monocal.evaluation.compare import compare

    found = compare(rows, methods=methods, metric=metric, arguments=settings, **given)
    remark(*found.said, found.late_labels)
    if as_json:
        print_json(found.as_dict())
        return
    from monocal.cli.tables import print_comparison

    print_comparison(found)
    best = found.best.method
    remark(f"Next: {_fit_line(table, {**given, 'method': best}, (settings or {}).get(best, {}))}")


def _fit_line(table: list[str], options: dict[str, Any], settings: Mapping[str, Any]) -> str:
    """The command that fits a method on all rows as it was compared."""
    words = ["monocal", "fit", *table]
    for name, value in options.items():
        if value is None or value is False or name in ("holdout", "seed") or (name, value) == ("min_count", 1):
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(",".join(value) or "none" if isinstance(value, list) else str(value))
    for name, value in settings.items():
        words += ["--set", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    return shlex.join([*words, "--out", "model/"])


@takes("fields", "time", "group", "weight", "value", "sampling_rate", *LATE, *PERIOD, "seed")
def report(
    model: Path,
    table: list[str],
    *,
    out: str,
    label: Pairs = None,
    title: str | None = None,
    as_json: bool = False,
    **given: Any,
) -> None:
    """Writes one HTML page on what calibration changed.

    Before and after on every section, with intervals and noise floors. The file needs no network and can be forwarded.

    Arguments:
        title (TEXT): The headline of the page.

    Examples:
        monocal report model/ test.parquet --out report.html
        monocal report model/ test.parquet --time timestamp --group user_id --out report.html
        monocal report model/ test.parquet --value bid --fields site_id,country --title "May" --out report.html
    """
    from monocal.models import load_model
    from monocal.reports import report as write_report

    rate = given.pop("sampling_rate")
    written = write_report(
        model if rate is None else replace(load_model(model), sampling_rate=rate),
        arguments.table(table),
        out,
        label=label,
        title=title,
        command=shlex.join(["monocal", *sys.argv[1:]]),
        **given,
    )
    n_bytes = written.stat().st_size
    if as_json:
        print_json({"out": written, "n_bytes": n_bytes})
    else:
        remark(f"wrote {written} ({n_bytes / 1e6:.1f} MB); open it in a browser")


def inspect(folder: Path, *, history: bool = False, as_json: bool = False) -> None:
    """Says what is in a model, a log or a registry.

    Arguments:
        folder (FOLDER): A saved model, a prepared log, or a registry.
        history: The generations of a model: where it came from and what moved.

    Examples:
        monocal inspect model/
        monocal inspect model/ --json | jq .tasks
        monocal inspect model/ --history
        monocal inspect registry/
    """
    from monocal.models.inspect import inspect_folder, inspect_history
    from monocal.monitoring.registry import inspect_registry, is_registry

    if history and not is_registry(folder):
        found = inspect_history(folder)
    else:
        found = inspect_registry(folder) if is_registry(folder) else inspect_folder(folder)
    if as_json:
        print_json(found.facts)
    else:
        print_lines(folded(found.text))


def methods(name: str | None = None, *, as_json: bool = False) -> None:
    """Lists the calibration methods and their guarantees.

    With a name, explains one method and its arguments.

    Arguments:
        name (NAME): Explain one method and its arguments.

    Examples:
        monocal methods
        monocal methods umc
        monocal methods --json
    """
    from monocal.calibrators import methods as every_method

    if name is not None:
        _explain_method(name, as_json)
        return
    found = every_method()
    if as_json:
        print_json({method.name: {"summary": method.summary, "tags": method.tags.as_dict()} for method in found})
        return
    rows = [
        (each.name, each.summary, each.tags.monotone, each.tags.features, "yes" if each.tags.keeps_mean else "")
        for each in found
    ]
    notes = [
        "monotone: a higher score never gets a lower probability for the same features (weak: ties are allowed).",
        "keeps mean: on the fitting rows the mean prediction equals the observed rate.",
        "Arguments of a method: monocal methods NAME.",
    ]
    print_table("Methods", ["method", "what it does", "monotone", "features", "keeps mean"], rows, notes, left=5)


def _explain_method(name: str, as_json: bool) -> None:
    from monocal.calibrators import calibrator
    from monocal.calibrators.contract import arguments_of

    method = calibrator(name)
    text = cleandoc(type(method).__doc__ or "")
    known = arguments_of(type(method))
    if as_json:
        facts = {"name": name, "tags": method.tags.as_dict(), "options": method.get_params(deep=False)}
        print_json({**facts, "meanings": {argument.name: argument.meaning for argument in known}, "text": text})
        return
    # the arguments are listed below, those of the base classes with them; examples are python, for the docs
    about = text.partition("\nArguments:\n")[0].partition("\nExample:\n")[0]
    tags = ", ".join(f"{key} {value}" for key, value in method.tags.as_dict().items())
    lines = [wrapped(f"{name}: {about.rstrip()}"), "", *wrap(f"Promises: {tags}", 80), ""]
    lines += ["Arguments (--set name=value):"]
    for argument in known:
        possible = f" Possible: {argument.expected}." if argument.expected else ""
        lines += [f"  {argument.name} = {argument.default!r}"]
        lines += wrap(argument.meaning + possible, 80, initial_indent="      ", subsequent_indent="      ")
    print_lines("\n".join(lines))


def metrics(name: str | None = None, *, as_json: bool = False) -> None:
    """Lists the metrics and what they want.

    With a name, explains one.

    Arguments:
        name (NAME): Explain one metric.

    Examples:
        monocal metrics
        monocal metrics frce
        monocal metrics --json
    """
    from monocal.metrics import METRICS, metric

    goals = {
        key: f"toward {kind.goal.target:g}" if kind.goal.kind == "toward" else kind.goal.kind
        for key, kind in METRICS.items()
    }
    if name is not None:
        text = cleandoc(type(metric(name)).__doc__ or "")
        if as_json:
            print_json({"name": name, "goal": goals[name], "text": text})
        else:
            print_lines(wrapped(f"{name}: {text}\n\nGoal: {goals[name]}"))
        return
    summaries = {key: first_line(kind.__doc__) for key, kind in METRICS.items()}
    if as_json:
        print_json({key: {"summary": summary, "goal": goals[key]} for key, summary in summaries.items()})
        return
    notes = [
        "frce and fece refer to the first field given, mfrce and mfece to all of them, gauc to --group.",
        "A metric in full: monocal metrics NAME.",
    ]
    rows = [(key, summary, goals[key]) for key, summary in summaries.items()]
    print_table("Metrics", ["metric", "what it measures", "goal"], rows, notes, left=3)
