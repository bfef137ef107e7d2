"""From a model and a table to the numbers of a report."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from monocal.calibrators import CALIBRATORS
from monocal.core.errors import InvalidInput
from monocal.core.samples import Ids
from monocal.evaluation.table import check_fields
from monocal.findings.carried_forward import carried_forward
from monocal.findings.drift import drift
from monocal.findings.fields import field_results
from monocal.findings.headline import headline
from monocal.findings.learned_curves import learned_curves
from monocal.findings.metric_table import metric_table
from monocal.findings.new_values import new_and_rare_values, rows_seen
from monocal.findings.numeric_effects import numeric_effects
from monocal.findings.provenance import provenance
from monocal.findings.reliability import reliability
from monocal.findings.report_data import ReportData, TaskReport
from monocal.findings.rows import TaskRows, field_columns, model_ids, sample_contexts
from monocal.models.artefact import load_model
from monocal.models.late import known_delays
from monocal.models.model import Model
from monocal.tables.roles import Roles
from monocal.tables.source import TableLike, open_table
from monocal.tables.table import Table
from monocal.tables.vocabulary import binned


def build_report(
    model: Model | str | Path,
    table: TableLike,
    *,
    label: str | Mapping[str, str] | None = None,
    time: str | None = None,
    value: str | None = None,
    group: str | None = None,
    weight: str | None = None,
    fields: Sequence[str] | None = None,
    since: str | None = None,
    until: str | None = None,
    title: str | None = None,
    command: str | None = None,
    confidence: float = 0.95,
    n_bootstrap: int = 200,
    n_floor: int = 100,
    seed: int = 0,
    event_time: str | None = None,
    label_time: str | None = None,
    window: str | None = None,
) -> ReportData:
    """Measures a model on rows it has not seen, before and after calibration, section by section.

    "Before" is the ranker's score, brought back to full traffic if the model knows a sampling rate: what the forecast
    would be without the calibrator.

    Arguments:
        model: A model or the folder of a saved one.
        table: Rows with the model's columns and labels: a path or a data frame.
        label: Label column, or one per task; None means the columns the model was fitted on.
        time: Column that says when a row happened; without it rows are taken to be in time order.
        value: Column with what one positive is worth (a bid, a margin); adds the largest error in money to the summary.
        group: Column of users or requests: adds GAUC, and intervals resample groups.
        weight: Column that says how often a row counts.
        fields: Columns to slice by; None means the model's fields.
        since: Rows before this moment are left out.
        until: Rows at or after it are left out.
        title: Title of the page.
        command: The shell command that makes this report, if it came from one.
        confidence: Coverage of intervals; 1 − confidence is the false discovery rate.
        n_bootstrap: Replicates behind intervals.
        n_floor: Label redraws behind noise floors.
        seed: Seed of all sampling.
        event_time: Column that says when a row happened, where its label may still come. Forecasts are then those of
            labels that have come, the probability times the share that has come by the row's age.
        label_time: Column that says when a positive label came; null where none has.
        window: How long after its event a label counts.

    Example:
        >>> import monocal
        >>> log = monocal.simulate_log(6_000, seed=1)
        >>> model = monocal.fit(log.take(slice(0, 3_000)).table(), method="platt", score="pctr", label="click")
        >>> data = build_report(model, log.take(slice(3_000, None)).table(), fields=["device"], n_bootstrap=20)
        >>> bias = data.task().metrics.row("pcoc")
        >>> abs(bias.values.after - 1) < abs(bias.values.before - 1)
        True
    """
    # nothing else is local yet: these are the arguments as they came, for the lines that make the report again
    given = {name: value for name, value in locals().items() if name not in ("model", "table", "command")}
    loaded = model if isinstance(model, Model) else load_model(model)
    sliced = _fields(loaded, fields)
    stream = open_table(table)
    loaded.check_columns(stream.column_names)
    check_fields(sliced, stream.column_names)
    moments: dict[str, Any] = {"time": time, "event_time": event_time, "label_time": label_time, "window": window}
    roles = loaded.roles(label, group=group, weight=weight, value=value, slices=sliced, **moments)
    rows = Table.read(stream, roles, since=since, until=until, delays=known_delays(loaded))
    labels = rows.late_labels
    answers = loaded.predict_rows(rows)
    known = model_ids(rows, loaded.vocabulary)
    columns = field_columns(binned(rows, loaded.vocabulary), sliced, known)
    seen = rows_seen(loaded, known)
    contexts = sample_contexts(list(known.values()), rows.n_rows)
    measuring = {"confidence": confidence, "n_bootstrap": n_bootstrap, "n_floor": n_floor, "seed": seed}
    tasks = tuple(
        _task(loaded, name, TaskRows.of(rows, name, answers[name], columns, seen), roles, contexts, measuring)
        for name in roles.tasks
    )
    return ReportData(
        title or "Calibration report",
        tasks,
        provenance(
            loaded,
            model_name="" if isinstance(model, Model) else str(model),
            table_name=str(table) if isinstance(table, str | Path) else "",
            rows=rows,
            labels=labels,
            fields=columns,
            seed=seed,
            reproduce=_python(model, table, given) if command is None else command,
            language="python" if command is None else "shell",
        ),
        confidence,
    )


def _task(
    model: Model, name: str, rows: TaskRows, roles: Roles, contexts: Ids, measuring: Mapping[str, Any]
) -> TaskReport:
    task = model.task(name)
    calibrator, confidence = task.calibrator, measuring["confidence"]
    metrics = metric_table(rows, **measuring)
    results = field_results(rows, confidence=confidence)
    fit_facts = dict(model.info.get("tasks", {})).get(name)
    return TaskReport(
        name=name,
        method=calibrator.name,
        method_summary=_summary(calibrator.name),
        score=task.score,
        label=roles.labels[name],
        weight=rows.total_weight,
        observed=rows.n_positive,
        fell_back=bool(calibrator.fell_back_),
        groups=roles.group,
        value=roles.value,
        headline=headline(metrics, results),
        metrics=metrics,
        reliability=reliability(rows, confidence),
        fields=results,
        drift=drift(rows, fit_facts=fit_facts, confidence=confidence),
        curves=learned_curves(calibrator, model.vocabulary, rows.logits, contexts),
        numeric=numeric_effects(calibrator, model.vocabulary, rows.logits, contexts),
        carried=carried_forward(calibrator, model.field_names),
        seen=new_and_rare_values(rows),
    )


def _summary(method: str) -> str:
    return (CALIBRATORS[method].__doc__ or "").strip().splitlines()[0]


def _fields(model: Model, fields: Sequence[str] | None) -> tuple[str, ...]:
    if isinstance(fields, str):
        raise InvalidInput.of("fields", repr(fields), "a list of columns", f"write [{fields!r}]")
    return tuple(dict.fromkeys(model.field_names if fields is None else fields))


def _python(model: Any, table: Any, given: Mapping[str, Any]) -> str:
    usual = {name: parameter.default for name, parameter in inspect.signature(build_report).parameters.items()}
    arguments = [
        "model" if isinstance(model, Model) else repr(str(model)),
        repr(str(table)) if isinstance(table, str | Path) else "table",
        "'report.html'",
        *(f"{name}={value!r}" for name, value in given.items() if value != usual[name]),
    ]
    call = "\n".join(["write_report(", *(f"    {argument}," for argument in arguments), ")"])
    return f"from monocal.report import write_report\n\n{call}"
