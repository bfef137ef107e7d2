"""From a table to evaluations of each task, before and after calibration; and a fit that is evaluated on later rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators import Calibrator
from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.spaces import Floats, ScoreSpace
from monocal.core.team import Team
from monocal.evaluation.compare import Comparison, compare
from monocal.evaluation.evaluate import Report, evaluate
from monocal.evaluation.fields import FieldTable, SeenBand, by_times_seen, field_tables
from monocal.logs.encoded_log import EncodedLog
from monocal.logs.held_out import hold_out
from monocal.logs.scored_input import ScoredInput, scored_input
from monocal.models.facts import times_seen
from monocal.models.fit import DEFAULT_METHOD, FitOptions, fit_log, method_and_arguments, rows_to_fit
from monocal.models.late import known_delays, with_late_labels
from monocal.models.learned_rows import warn_about_fitted
from monocal.models.model import Model
from monocal.tables.late_labels import LateLabels, read_mature
from monocal.tables.result import Tabular
from monocal.tables.roles import Roles
from monocal.tables.source import Table, open_table
from monocal.tables.split import DEFAULT_SHARE, Holdout
from monocal.tables.table import Rows
from monocal.tables.vocabulary import binned

HEADLINE_METRICS = ("log_loss", "auc", "gauc", "pcoc", "ece", "frce", "mfrce")
"""What is shown unless other metrics are asked for: discrimination, global bias, calibration, calibration by field."""


@final
@dataclass(frozen=True, eq=False)
class Judgement:
    """What a calibration did to one task.

    Attributes:
        before: Report of the ranker's own score (after the sampling correction, if there is a rate).
        after: Report of the calibrated probability; None if there is no calibrator to judge.
    """

    before: Report
    after: Report | None = None

    @property
    def last(self) -> Report:
        """The calibrated report if there is one, else the uncalibrated."""
        return self.before if self.after is None else self.after

    @cached_property
    def change(self) -> Comparison | None:
        """Paired differences, calibrated minus uncalibrated; None if there is one report only."""
        if self.after is None:
            return None
        return compare(self.before, self.after)

    def as_dict(self) -> dict[str, Any]:
        """Returns both reports and their comparison as plain numbers."""
        found: dict[str, Any] = {"before": self.before.as_dict()}
        if self.after is not None:
            found["after"] = self.after.as_dict()
        if self.change is not None:
            found["change"] = self.change.as_dict()
        return found


def judgement_columns(tasks: Mapping[str, Judgement]) -> dict[str, list[Any]]:
    """Returns the metrics of several tasks as columns: before, after, and their difference with its verdict.

    Arguments:
        tasks: Task to its judgement.
    """
    keys = ("task", "metric", "before", "after", "difference", "low", "high", "verdict")
    rows = []
    for task, judgement in tasks.items():
        changes = {} if judgement.change is None else judgement.change.as_dict()
        for name in judgement.before.names:
            change = changes.get(name, {})
            low, high = change.get("interval", (None, None))
            after = None if judgement.after is None else judgement.after.value(name)
            difference = (change.get("difference"), low, high, change.get("verdict"))
            rows.append((task, name, judgement.before.value(name), after, *difference))
    return {key: list(column) for key, column in zip(keys, zip(*rows, strict=True), strict=True)} if rows else {}


def headline_metrics(*, has_fields: bool, has_groups: bool) -> list[str]:
    """Returns the headline metrics that can be computed.

    Example:
        >>> headline_metrics(has_fields=False, has_groups=False)
        ['log_loss', 'auc', 'pcoc', 'ece']
    """
    needs = {"gauc": has_groups, "frce": has_fields, "mfrce": has_fields}
    return [name for name in HEADLINE_METRICS if needs.get(name, True)]


def evaluation_roles(
    model: Model | None,
    available: Sequence[str],
    *,
    score: str | None,
    label: str | None,
    tasks: Mapping[str, tuple[str, str]] | None,
    sampling_rate: float | str | None,
    scores_are: ScoreSpace,
    soft_labels: bool | None,
    fields: Sequence[str] | None = None,
    by: Sequence[str] = (),
    **others: Any,
) -> Roles:
    """Returns the roles of a table on which a score, or a model beside its own score, is judged.

    Arguments:
        model: Brings its tasks, fields, score space and sampling rate along; None judges a score column.
        available: The columns of the table; one that the model needs and that is missing is refused.
        score: The score column, without a model.
        label: The 0/1 column; with a model the one it was fitted on unless said otherwise.
        tasks: Several tasks: name to (label column, score column).
        sampling_rate: A number or a column; None means the model's.
        scores_are: The space of the scores, without a model.
        soft_labels: Whether labels may be any numbers in [0, 1]; None means as at the model's fit.
        fields: Columns for field-wise metrics; None means the model's.
        by: Columns of which every value is judged.
        others: The other roles, by name.

    Example:
        >>> asked = {"label": "click", "tasks": None, "sampling_rate": 0.5, "scores_are": "logit", "soft_labels": None}
        >>> roles = evaluation_roles(None, ["z", "click"], score="z", **asked)
        >>> roles.scores, roles.scores_are, roles.sampling_rate
        ({'click': 'z'}, 'logit', 0.5)
    """
    asked: dict[str, Any] = {"tasks": tasks, "sampling_rate": sampling_rate, "slices": [*(fields or ()), *by]}
    if model is None:
        asked |= {"scores_are": scores_are, "soft_labels": bool(soft_labels)}
        roles = Roles.of(score=score, label=label, **asked, **others)
    else:
        if score is not None:
            raise InvalidInput.of("score", repr(score), "the model's own score columns", "leave score= out")
        model.check_columns(list(available))
        roles = model.roles(label, soft_labels=soft_labels, **asked, **others)
    check_fields(fields or (), available)
    return roles


def check_fields(fields: Sequence[str], available: Sequence[str]) -> None:
    """Refuses a missing column by the argument that named it: fields of a judgement are read as slices.

    Example:
        >>> check_fields(["sites"], ["site", "click"])
        Traceback (most recent call last):
        ...
        monocal.core.errors.UnknownName: fields: got 'sites'; expected one of site, click. Hint: did you mean 'site'?
    """
    for name in fields:
        if name not in available:
            raise UnknownName.among("fields", name, available)


BEFORE, AFTER = "before", "after"


@final
@dataclass(frozen=True, eq=False)
class TaskEvaluation:
    """One task of a table.

    Attributes:
        judgement: Metrics before and after calibration.
        by: Field to its tables, by stage ("before", "after").
        seen: Field to errors by how often values were seen in the fit; empty if nobody knows.
    """

    judgement: Judgement
    by: dict[str, dict[str, FieldTable]] = field(default_factory=dict)
    seen: dict[str, list[SeenBand]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {
            **self.judgement.as_dict(),
            "by": {
                name: {stage: table.as_dict() for stage, table in tables.items()} for name, tables in self.by.items()
            },
            "new_and_rare_values": {name: [band.as_dict() for band in bands] for name, bands in self.seen.items()},
        }


@final
@dataclass(frozen=True)
class EvaluationOptions:
    """How rows are judged.

    Attributes:
        metrics: Names; None means the headline ones.
        by: Fields of which every value is judged.
        n_bootstrap: Replicates behind an interval.
        seed: Seed of resampling.
        times_seen: Field to the number of rows of the fit that had each row's value.
    """

    metrics: Sequence[str] | None = None
    by: Sequence[str] = ()
    n_bootstrap: int = 200
    seed: int = 0
    times_seen: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    @property
    def resampling(self) -> dict[str, Any]:
        return {"n_bootstrap": self.n_bootstrap, "seed": self.seed}


def evaluate_rows(
    rows: Rows, calibrated: Mapping[str, Floats] | None = None, judging: EvaluationOptions | None = None
) -> dict[str, TaskEvaluation]:
    """Judges every task of rows that were read.

    Arguments:
        rows: The rows.
        calibrated: Task to a model's probabilities of all rows; None judges the scores alone.
        judging: How; by default headline metrics on all rows.

    Example:
        >>> from monocal.tables.roles import Roles
        >>> from monocal.tables.table import read
        >>> rows = read({"y": [0, 1] * 50, "p": [0.4, 0.8] * 50}, Roles.of(score="p", label="y"))
        >>> round(evaluate_rows(rows)["y"].judgement.before.value("pcoc"), 2)
        1.2
    """
    return {
        task: _judge_task(rows, task, None if calibrated is None else calibrated[task], judging or EvaluationOptions())
        for task in rows.scores
    }


def _judge_task(rows: Rows, task: str, calibrated: Floats | None, judging: EvaluationOptions) -> TaskEvaluation:
    known = rows.labels[task] >= 0
    if not known.any():
        raise InvalidInput.of(f"labels of task {task!r}", "only nulls", "some labels", "check the label column")
    rows = rows.observed(task)
    stages = {BEFORE: rows.arrived(rows.uncalibrated(task))}
    if calibrated is not None:
        stages[AFTER] = rows.arrived(calibrated if len(calibrated) == rows.n_rows else calibrated[known])
    labels = rows.labels[task]
    reports: dict[str, Report] = {}
    tables: dict[str, dict[str, FieldTable]] = {name: {} for name in judging.by}
    for stage, p in stages.items():
        reports[stage] = _report(rows, task, p, judging)
        found = field_tables(
            labels.astype(np.float64),
            p,
            {name: rows.fields[name] for name in judging.by},
            groups=rows.groups,
            weights=None if rows.weights is None else rows.weights.astype(np.float64),
            noise_of=stages.get(AFTER, p),
        )
        for name, table in found.items():
            tables[name][stage] = table
    judgement = Judgement(reports[BEFORE], reports.get(AFTER))
    seen = {
        name: by_times_seen(counts[known], labels, stages, rows.weights) for name, counts in judging.times_seen.items()
    }
    return TaskEvaluation(judgement, tables, seen)


def _report(rows: Rows, task: str, p: Floats, judging: EvaluationOptions) -> Report:
    has = {"has_fields": bool(rows.fields), "has_groups": rows.groups is not None}
    return evaluate(
        rows.labels[task],
        p,
        fields={name: column.ids for name, column in rows.fields.items()},
        groups=rows.groups,
        units=rows.units,
        weights=rows.weights,
        metrics=judging.metrics or headline_metrics(**has),
        **judging.resampling,
    )


@final
@dataclass(frozen=True, eq=False)
class TableEvaluation(Tabular):
    """All tasks of a table.

    Attributes:
        n_rows: Rows that were read.
        tasks: Task to what was found.
        late_labels: How mature the rows are, if labels may still come.
    """

    n_rows: int
    tasks: dict[str, TaskEvaluation]
    late_labels: LateLabels | None = None

    def __repr__(self) -> str:
        return f"TableEvaluation of {', '.join(self.tasks)} on {self.n_rows:,} rows"

    def _columns(self) -> dict[str, list[Any]]:
        return judgement_columns({name: judged.judgement for name, judged in self.tasks.items()})

    def as_dict(self) -> dict[str, Any]:
        return {
            **({} if self.late_labels is None else {"late_labels": self.late_labels.as_dict()}),
            "n_rows": self.n_rows,
            "tasks": {name: judged.as_dict() for name, judged in self.tasks.items()},
        }


def evaluate_table(
    table: Table,
    *,
    model: Model | None = None,
    score: str | None = None,
    label: str | None = None,
    tasks: Mapping[str, tuple[str, str]] | None = None,
    fields: Sequence[str] | None = None,
    by: Sequence[str] = (),
    group: str | None = None,
    weight: str | None = None,
    time: str | None = None,
    since: str | None = None,
    until: str | None = None,
    sampling_rate: float | str | None = None,
    scores_are: ScoreSpace = "probability",
    soft_labels: bool = False,
    metrics: Sequence[str] | None = None,
    n_bootstrap: int = 200,
    seed: int = 0,
    event_time: str | None = None,
    label_time: str | None = None,
    window: str | None = None,
) -> TableEvaluation:
    """Measures a score column, or a model beside the score it calibrates, on a table.

    Arguments:
        table: Anything `open_table` takes.
        model: Judged beside its own score; it brings its tasks, fields, score space and sampling rate along.
        score: The score column, without a model.
        label: The 0/1 column; with a model the one it was fitted on unless said otherwise.
        tasks: Several tasks: name to (label column, score column).
        fields: Categorical columns for field-wise metrics; None means the model's.
        by: Fields of which every value is judged.
        group: Users, queries or sessions.
        weight: How often each row counts.
        time: Needed for since and until.
        since: Rows before this moment are left out.
        until: Rows at or after it are left out.
        sampling_rate: A number or a column; None means the model's.
        scores_are: The space of the scores, without a model.
        soft_labels: Labels may be any numbers in [0, 1]: q stands for q positives and 1 − q negatives. So they
            are anyway for a model that was fitted on such labels.
        metrics: Names; None means the headline ones.
        n_bootstrap: Replicates behind an interval.
        seed: Seed of resampling.
        event_time: Column that says when a row happened, where its label may still come. Every metric is then that of
            the forecast of labels that have come, the probability times the share that has come by the row's age.
        label_time: Column that says when a positive label came; null where none has.
        window: How long after its event a label counts.

    Example:
        >>> from monocal.lab.simulator import simulate_log
        >>> log = simulate_log(20_000, world="affine").table()
        >>> click = evaluate_table(log, score="pctr", label="click", by=["device"], group="user_id").tasks["click"]
        >>> round(click.judgement.before.value("pcoc"), 1), len(click.by["device"]["before"])
        (2.0, 5)
    """
    columns: dict[str, Any] = {"score": score, "label": label, "tasks": tasks, "scores_are": scores_are}
    columns |= {"sampling_rate": sampling_rate, "soft_labels": soft_labels or None}
    columns |= {"time": time, "group": group, "weight": weight, "fields": fields, "by": by}
    columns |= {"event_time": event_time, "label_time": label_time, "window": window}
    stream = open_table(table)
    roles = evaluation_roles(model, stream.column_names, **columns)
    delays = None if model is None else known_delays(model)
    rows, labels = read_mature(stream, roles, since=since, until=until, curve=delays)
    if model is not None:
        warn_about_fitted(model.info, model.vocabulary, rows)
    calibrated = None if model is None else model.predict_rows(rows)
    judged = rows if fields is None else rows.with_fields([*fields, *by])
    judged = judged if model is None else binned(judged, model.vocabulary)
    judging = EvaluationOptions(metrics, by, n_bootstrap, seed, {} if model is None else _times_seen(model, rows))
    found = evaluate_rows(judged, calibrated, judging)
    return TableEvaluation(rows.n_table_rows, found, labels)


def _times_seen(model: Model, rows: Rows) -> dict[str, NDArray[np.int64]]:
    if not model.value_counts:
        return {}
    ids = model.vocabulary.encode_columns(rows.fields, rows.n_rows)
    found = dict(zip(model.field_names, times_seen(model.value_counts, ids), strict=True))
    return {name: found[name] for name in model.vocabulary.category_names}


@final
@dataclass(frozen=True, eq=False)
class FitResult(Tabular):
    """A model with the evidence for it.

    Attributes:
        model: The model; its `info["holdout"]` keeps the headline numbers.
        holdout: How rows were split, in words and numbers.
        tasks: Task to its judgement on the held-out rows; empty if nothing was held out.
        late_labels: How mature the rows are, if labels may still come.
    """

    model: Model
    holdout: Holdout
    tasks: dict[str, Judgement]
    late_labels: LateLabels | None = None

    def __repr__(self) -> str:
        return f"FitResult of {self.model!r}: {self.holdout.explanation}"

    def _columns(self) -> dict[str, list[Any]]:
        return judgement_columns(self.tasks)

    def as_dict(self) -> dict[str, Any]:
        return {
            **({} if self.late_labels is None else {"late_labels": self.late_labels.as_dict()}),
            "holdout": self.holdout.as_dict(),
            "tasks": {name: judged.as_dict() for name, judged in self.tasks.items()},
        }


def fit_and_evaluate(
    table: ScoredInput,
    *,
    method: str | Calibrator = DEFAULT_METHOD,
    score: str | None = None,
    label: str | None = None,
    fields: Sequence[str] = (),
    numeric: Sequence[str] = (),
    tasks: Mapping[str, tuple[str, str]] | None = None,
    weight: str | None = None,
    time: str | None = None,
    group: str | None = None,
    sampling_rate: float | str | None = None,
    scores_are: ScoreSpace = "probability",
    soft_labels: bool = False,
    min_count: int = 1,
    max_size: int | None = None,
    holdout: float = DEFAULT_SHARE,
    refit: bool = False,
    n_bootstrap: int = 200,
    seed: int = 0,
    team: Team | None = None,
    n_shards: int | None = None,
    event_time: str | None = None,
    label_time: str | None = None,
    window: str | None = None,
    **arguments: Any,
) -> FitResult:
    """Fits on the older rows and judges on the most recent ones, which the fit has not seen.

    Arguments:
        table: A table with scores, or a prepared log with scores or its folder. A log that knows its parts is fitted
            on "calibration" and judged on "test".
        method: Name of the calibrator, or one with its arguments, as in `monocal.fit`.
        score: As in `monocal.fit`, like the following columns.
        label: The 0/1 column.
        fields: Categorical columns.
        numeric: Columns of numbers, as in `monocal.fit`.
        tasks: For several tasks: name to (label column, score column).
        weight: Column that says how often a row counts.
        time: Column that orders rows.
        group: Column of users, so that intervals resample users.
        sampling_rate: A number or a column.
        scores_are: The space of the scores.
        soft_labels: Labels may be any numbers in [0, 1]: q stands for q positives and 1 − q negatives.
        min_count: Field values with fewer rows count as unseen.
        max_size: The most values a field may have.
        holdout: The most recent share of rows that judges; 0 fits on all rows and judges nothing.
        refit: Whether to fit once more on all rows afterwards. The numbers then belong to the first fit.
        n_bootstrap: Replicates behind an interval.
        seed: Seed of resampling; a network's own is given as `method=monocal.calibrator("umc", seed=5)`.
        team: Who fits together, see `fit_log`; only the first member judges.
        n_shards: Into how many shards the rows are dealt.
        event_time: Where labels may still come, as in `monocal.fit`; metrics are those of the labels that have come.
        label_time: When a positive label came.
        window: How long labels count.
        arguments: Constructor arguments of the calibrator, where `method` is a name.

    Example:
        >>> from monocal.lab.simulator import simulate_log
        >>> log = simulate_log(20_000, world="affine").table()
        >>> judged = fit_and_evaluate(log, method="platt", score="pctr", label="click", time="timestamp")
        >>> judged.tasks["click"].change.verdict("log_loss"), judged.holdout.n_test
        ('better', 4000)
    """
    chosen, arguments = method_and_arguments(fit_and_evaluate, method, arguments, min_count=min_count, seed=seed)
    columns: dict[str, Any] = {"score": score, "label": label, "tasks": tasks, "fields": fields, "numeric": numeric}
    columns |= {"group": group, "weight": weight, "time": time}
    columns |= {"sampling_rate": sampling_rate, "scores_are": scores_are}
    columns |= {"soft_labels": soft_labels, "event_time": event_time, "label_time": label_time, "window": window}
    asked = FitOptions(chosen, arguments, min_count, max_size)
    table, roles = scored_input(table, columns)
    given, asked, labels = rows_to_fit(table, roles, asked)
    maturity = given.maturity if isinstance(given, Rows) else None
    rows = hold_out(given, holdout, **asked.limits, keep_all=refit)
    del given  # the parts above have its ids; a second copy of all of them would stay during the fit

    def learn(log: EncodedLog) -> Model:
        mature = None if maturity is None else maturity[: log.n_rows]
        return fit_log(log, asked, team=team, n_shards=n_shards, maturity=mature)

    model = learn(rows.fit)
    if not rows.holdout.n_test or (team is not None and team.rank > 0 and not refit):
        return FitResult(model if labels is None else with_late_labels(model, labels), rows.holdout, {}, labels)
    calibrated = model.predict_ids(rows.features, rows.test.scores, rows.test.rates)
    found = evaluate_rows(rows.test, calibrated, EvaluationOptions(n_bootstrap=n_bootstrap, seed=seed))
    judged = {task: task_judged.judgement for task, task_judged in found.items()}
    if rows.all_rows is not None and refit:
        model = learn(rows.all_rows())
    facts = {**rows.holdout.as_dict(), "refitted": refit, "metrics": _headline(judged)}
    model = replace(model, info={**model.info, "holdout": facts})
    model = model if labels is None else with_late_labels(model, labels)
    return FitResult(model, rows.holdout, judged, labels)


def _headline(judged: Mapping[str, Judgement]) -> dict[str, Any]:
    return {
        task: {
            name: {"before": judgement.before.value(name), "after": judgement.last.value(name)}
            for name in judgement.before.names
            if not judgement.before.reason(name)
        }
        for task, judgement in judged.items()
    }
