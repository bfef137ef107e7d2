"""From a model and a table to every number and every verdict of a report; nothing here knows how they are drawn."""

from __future__ import annotations

import inspect
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators import CALIBRATORS
from monocal.carry_over.describe import RetainedEffects
from monocal.core import __version__
from monocal.core.errors import InvalidInput
from monocal.core.fields import Ids
from monocal.core.folder import fingerprint
from monocal.core.numbers import value_text
from monocal.evaluation.fields import FieldErrors, SeenBand
from monocal.evaluation.result import Evaluation, EvaluationOptions
from monocal.evaluation.table import check_fields, evaluate_rows, rows_seen
from monocal.evaluation.verdict import DEFAULT_LIMITS, Check, Limits, quality_checks
from monocal.metrics import METRICS
from monocal.metrics.drift import shift_since_fit
from monocal.models.artefact import load_model
from monocal.models.facts import known_delays, warn_about_fitted
from monocal.models.model import Model
from monocal.reports.curves import LearnedCurves, NumericEffect, learned_curves, numeric_effects, sample_contexts
from monocal.reports.drift import Drift, drift
from monocal.reports.reliability import Reliability, reliability
from monocal.reports.verdict import Headline, headline
from monocal.tables.roles import Columns, Roles, columns_of
from monocal.tables.source import TableLike, open_table
from monocal.tables.split import binned
from monocal.tables.table import Table


@final
@dataclass(frozen=True, eq=False)
class FieldResult:
    """All values of one field, most frequent first.

    Attributes:
        name: The field.
        values: Its values.
        unseen_share: Share of rows whose value was not in the fit; NaN if it does not know the field.
        errors: Estimates before and after calibration.
        shown: Places of the values worth a row in a table: in turn the worst and the largest.
    """

    name: str
    values: tuple[str, ...]
    unseen_share: float
    errors: dict[str, FieldErrors]
    shown: NDArray[np.intp]


def field_results(
    metrics: Evaluation, unseen: Mapping[str, float] | None = None, n_shown: int = 40
) -> tuple[FieldResult, ...]:
    """Returns every field whose values were evaluated.

    Arguments:
        metrics: An evaluation before and after calibration, with errors by value.
        unseen: Field to the share of rows whose value was not in the fit.
        n_shown: How many values per field are worth a row in a table.
    """
    found = []
    for name, table in metrics.by.items():
        errors = {stage: side.by[name].errors for stage, side in metrics.stages.items()}
        impact = np.maximum(*(np.abs(side.excess) for side in errors.values()))
        largest = np.argsort(-table["weight"], kind="stable")
        in_turn = np.stack([np.argsort(-impact, kind="stable"), largest], axis=1).ravel()
        shown = in_turn[np.sort(np.unique(in_turn, return_index=True)[1])][:n_shown]
        values = tuple(map(value_text, table.values))
        found.append(FieldResult(name, values, (unseen or {}).get(name, math.nan), errors, shown))
    return tuple(found)


@final
@dataclass(frozen=True)
class Provenance:
    """What exactly was measured, and how to do it again.

    Attributes:
        facts: Pairs of name and value, in reading order.
        reproduce: The command or the lines of Python that make this report again.
        n_rows: Rows that were measured.
        table_name: What the rows are called; empty for a table in memory.
        late_labels: How mature the labels are, in words; empty if none may still arrive.
        note: How these rows were chosen; empty if the caller chose them.
    """

    facts: tuple[tuple[str, str], ...]
    reproduce: str
    n_rows: int
    table_name: str
    late_labels: str = ""
    note: str = ""


@final
@dataclass(frozen=True, eq=False)
class TaskReport:
    """One task, before and after calibration.

    Attributes:
        name: The task.
        method: Name of the calibrator.
        method_summary: One line about it.
        score: The score's column.
        label: The label's column.
        weight: Rows, counted with their weights.
        observed: Positives, likewise.
        fell_back: Whether the calibrator gave the score back unchanged because its fit was harmful.
        value: The value column; None if none was named.
        headline: The few numbers that come first.
        metrics: Every metric of the calibrated forecast; its `before` is the score's, its `change` compares both.
        failing: Checks beside that on log-loss which speak against shipping it.
        reliability: Predicted against observed rates.
        fields: Errors by field and value.
        drift: Errors over time.
        retained: What the fit retains of each effect; nothing for a method that shrinks nothing by later rows.
        curves: What the calibrator does to the score.
        numeric: The effect of every numeric field.
    """

    name: str
    method: str
    method_summary: str
    score: str
    label: str
    weight: float
    observed: float
    fell_back: bool
    value: str | None
    headline: Headline
    metrics: Evaluation
    failing: tuple[Check, ...]
    reliability: Reliability
    fields: tuple[FieldResult, ...]
    drift: Drift
    retained: RetainedEffects
    curves: LearnedCurves
    numeric: tuple[NumericEffect, ...]

    @property
    def seen(self) -> dict[str, list[SeenBand]]:
        """Field to errors by how often its values were seen in the fit, where some were seen less often."""
        return {name: bands for name, bands in self.metrics.times_seen.items() if len(bands) > 1}


@final
@dataclass(frozen=True, eq=False)
class ReportData:
    """A whole report, as numbers.

    Attributes:
        title: What the page is called.
        tasks: One part per task.
        provenance: Fingerprints and how to do it again.
        confidence: Coverage of intervals.
    """

    title: str
    tasks: tuple[TaskReport, ...]
    provenance: Provenance
    confidence: float

    def task(self, name: str | None = None) -> TaskReport:
        """Returns a task by name; without a name, the first."""
        return next(task for task in self.tasks if name is None or task.name == name)


_SHOWN = ("since", "until", "title", "confidence", "n_bootstrap", "n_floor", "seed")
"""Arguments that belong to the lines of Python that make a report again."""


def build_report(
    model: Model | str | Path,
    table: TableLike | Table,
    roles: Roles | None = None,
    *,
    since: str | None = None,
    until: str | None = None,
    title: str | None = None,
    command: str | None = None,
    confidence: float = 0.95,
    n_bootstrap: int = 200,
    n_floor: int = 100,
    seed: int = 0,
    limits: Limits = DEFAULT_LIMITS,
    note: str = "",
    **columns: Unpack[Columns],
) -> ReportData:
    """Measures a model on rows it has not seen, before and after calibration, section by section.

    "Before" is the ranker's score, brought back to full traffic if the model knows a sampling rate: what the forecast
    would be without the calibrator.

    Arguments:
        model: A model or the folder of a saved one.
        table: Rows with the model's columns and labels: a path or a data frame; or rows that were read for a fit.
        roles: Which column is what, or the same by name; scores, label and what is not named are those of the fit.
        since: Rows before this moment are left out.
        until: Rows at or after it are left out.
        title: Title of the page.
        command: The shell command that makes this report, if it came from one.
        confidence: Coverage of intervals; 1 − confidence is the false discovery rate.
        n_bootstrap: Replicates behind intervals.
        n_floor: Label redraws behind noise floors.
        seed: Seed of all sampling.
        limits: What a forecast must keep to.
        note: How the rows were chosen.
        columns: In place of roles: `fields` (to slice by; by default the model's), `time`, `value` (adds the largest
            error in money to the summary), `group` (adds GAUC, and intervals resample groups), `weight` and others.
            With `event_time`, `label_time` and `window` forecasts are those of labels that have arrived: the
            probability times the share that has arrived by the row's age.

    Example:
        >>> import monocal
        >>> log = monocal.simulate_log(6_000, seed=1)
        >>> model = monocal.fit(log.take(slice(0, 3_000)).table(), method="platt", score="pctr", label="click")
        >>> data = build_report(model, log.take(slice(3_000, None)).table(), fields=["device"], n_bootstrap=20)
        >>> metrics = data.task().metrics
        >>> abs(metrics.value("pcoc") - 1) < abs(metrics.before.value("pcoc") - 1)
        True
    """
    # nothing else is local yet: these are the arguments as they came, for the lines that make the report again
    given: dict[str, Any] = {name: value for name, value in locals().items() if name in _SHOWN}
    named = columns_of(build_report, roles, columns)
    given |= named
    loaded = model if isinstance(model, Model) else load_model(model)
    fields = named.pop("fields", loaded.field_names)
    if isinstance(fields, str):
        raise InvalidInput.of("fields", repr(fields), "a list of columns", f"write [{fields!r}]")
    sliced = tuple(dict.fromkeys(fields))
    if isinstance(table, Table):
        rows = table
    else:
        stream = open_table(table)
        loaded.check_columns(stream.column_names)
        check_fields(sliced, stream.column_names)
        parts = loaded.roles(**named, slices=sliced)
        rows = Table.read(stream, parts, since=since, until=until, delays=known_delays(loaded))
    late = "" if rows.late_labels is None else str(rows.late_labels)
    ids = loaded.vocabulary.encode_columns(rows.fields, rows.n_rows)
    shown = binned(rows, loaded.vocabulary).with_fields(sliced)
    options = EvaluationOptions(tuple(METRICS), sliced, confidence, n_bootstrap, n_floor, seed)
    found = evaluate_rows(shown, loaded.predict_rows(rows), options, rows_seen(loaded, ids))
    contexts = sample_contexts(ids)
    unseen = dict(zip(loaded.field_names, np.mean(ids == 0, axis=0).tolist(), strict=True))
    tasks = tuple(
        _task(loaded, name, shown.observed(name), found[name], contexts, unseen, limits) for name in rows.roles.tasks
    )
    names = ("" if isinstance(model, Model) else str(model), str(table) if isinstance(table, str | Path) else "")
    facts = _facts(loaded, names, rows, sliced, seed)
    reproduce = _python(model, table, given) if command is None else command
    facts += [("How the rows were split", note)] if note else []
    provenance = Provenance(tuple(facts), reproduce, rows.n_table_rows, names[1], late, note)
    return ReportData(title or "Calibration report", tasks, provenance, confidence)


def data_fingerprint(rows: Table, fields: Sequence[str]) -> str:
    """Changes whenever a label, a score, a value of the fields, or a weight, time, value or group changes."""
    columns: dict[str, Any] = {f"label {task}": column for task, column in rows.labels.items()}
    columns |= {f"score {task}": column for task, column in rows.scores.items()}
    for name in fields:
        column = rows.fields[name]
        columns |= {f"field {name}": column.ids, f"values {name}": column.known_values.to_pylist()}
    columns |= {"weights": rows.weights, "times": rows.times, "value": rows.values, "groups": rows.groups}
    return fingerprint(*[part for name, column in columns.items() for part in (name, column)])


def _task(
    model: Model,
    name: str,
    rows: Table,
    metrics: Evaluation,
    contexts: Ids,
    unseen: Mapping[str, float],
    limits: Limits,
) -> TaskReport:
    task = model.task(name)
    calibrator, logits = task.calibrator, rows.logits(name)
    for side in metrics.stages.values():
        side.compute_intervals()
    metrics.compute_floors()
    fields = field_results(metrics, unseen)
    checks = quality_checks(metrics, limits)
    failed = tuple(check for check in checks if check.result == "failed" and check.name != "not_better")
    fit_facts = dict(model.info.get("tasks", {})).get(name) or {}
    return TaskReport(
        name=name,
        method=calibrator.name,
        method_summary=(CALIBRATORS[calibrator.name].__doc__ or "").strip().splitlines()[0],
        score=task.score,
        label=rows.roles.labels[name],
        weight=metrics.rows.total_weight,
        observed=metrics.rows.n_positive,
        fell_back=bool(calibrator.fell_back_),
        value=rows.roles.value,
        headline=headline(metrics, fields, failed=bool(failed)),
        metrics=metrics,
        failing=failed,
        reliability=reliability(metrics),
        fields=fields,
        drift=drift(rows, metrics, shift_since_fit(fit_facts, logits, metrics.rows.weights)),
        retained=RetainedEffects.of(calibrator, model.field_names),
        curves=learned_curves(calibrator, model.vocabulary, logits, contexts),
        numeric=numeric_effects(calibrator, model.vocabulary, logits, contexts),
    )


def _facts(
    model: Model, names: tuple[str, str], rows: Table, fields: Sequence[str], seed: int
) -> list[tuple[str, str]]:
    info, (model_name, table_name) = model.info, names
    facts = [
        ("Model", model_name or "in memory"),
        ("Model fingerprint", model.fingerprint),
        ("Data", table_name or "in memory"),
        ("Data fingerprint", data_fingerprint(rows, fields)),
        ("Rows measured", f"{rows.n_table_rows:,}"),
    ]
    if rows.late_labels is not None:
        facts.append(("Labels", str(rows.late_labels)))
    if "n_rows" in info:
        facts.append(("Rows the model was fitted on", f"{int(info['n_rows']):,}"))
    share = warn_about_fitted(model, rows)
    if share >= 0.01:
        facts.append(("Rows measured that it was fitted on", f"about {share:.0%}: the model has seen their labels"))
    if info.get("learned_from"):
        facts.append(("Fingerprint of the rows of the fit", str(info["learned_from"][0]["rows"])))
    if model.sampling_rate is not None:
        facts.append(("Sampling rate", f"{model.sampling_rate}"))
    facts += [(f"Method for {task.name}", repr(task.calibrator)) for task in model.tasks]
    versions = f"monocal {__version__}, Python {platform.python_version()}, numpy {np.__version__}"
    return [*facts, ("Seed", str(seed)), ("Versions", versions)]


def _python(model: Any, table: Any, given: Mapping[str, Any]) -> str:
    usual = {name: parameter.default for name, parameter in inspect.signature(build_report).parameters.items()}
    arguments = [
        "model" if isinstance(model, Model) else repr(str(model)),
        repr(str(table)) if isinstance(table, str | Path) else "table",
        "'report.html'",
        *(f"{name}={value!r}" for name, value in given.items() if value != usual.get(name)),
    ]
    call = "\n".join(["report(", *(f"    {argument}," for argument in arguments), ")"])
    return f"from monocal.reports import report\n\n{call}"
