"""From a table to judgements: before and after calibration, by field, and on what was selected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.core.sampling import sampling_shift
from monocal.core.spaces import Floats, ScoreSpace, sigmoid, to_logits
from monocal.judging.evaluate import evaluate
from monocal.judging.field_table import FieldTable, field_table
from monocal.judging.judgement import Judgement, headline_metrics
from monocal.judging.product import Product, ProductCheck, check_products
from monocal.judging.report import Report
from monocal.judging.selection import Selection, ranks_within, selection
from monocal.judging.table_rows import RowColumns, TableRows, TaskColumns, read_rows
from monocal.models.model import Model
from monocal.tables.stream import Table

BEFORE, AFTER = "before", "after"


@final
@dataclass(frozen=True, eq=False)
class TaskEvaluation:
    """One task of a table.

    Attributes:
        judgement: Metrics before and after calibration.
        by: Field to its tables, by stage ("before", "after").
        selections: The selected rows, by stage; empty if all rows count.
    """

    judgement: Judgement
    by: dict[str, dict[str, FieldTable]] = field(default_factory=dict)
    selections: dict[str, Selection] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {
            **self.judgement.as_dict(),
            "by": {name: {stage: one.as_dict() for stage, one in tables.items()} for name, tables in self.by.items()},
            "selection": {stage: one.as_dict() for stage, one in self.selections.items()},
        }


@final
@dataclass(frozen=True, eq=False)
class TableEvaluation:
    """All tasks of a table.

    Attributes:
        n_rows: Rows that were read.
        tasks: Task to what was found.
        products: Whether products of probabilities agree, where their columns are there.
    """

    n_rows: int
    tasks: dict[str, TaskEvaluation]
    products: list[ProductCheck]

    def as_dict(self) -> dict[str, Any]:
        return {
            "n_rows": self.n_rows,
            "tasks": {name: one.as_dict() for name, one in self.tasks.items()},
            "products": [one.as_dict() for one in self.products],
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
    top_k: int | None = None,
    winners: str | None = None,
    sampling_rate: float | str | None = None,
    scores_are: ScoreSpace = "probability",
    metrics: Sequence[str] | None = None,
    products: Sequence[Product] = (),
    n_bootstrap: int = 200,
    seed: int = 0,
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
        top_k: Only the k rows of each group that the forecast itself puts on top.
        winners: Only rows where this 0/1 column is 1.
        sampling_rate: A number or a column; None means the model's.
        scores_are: The space of the scores, without a model.
        metrics: Names; None means the headline ones.
        products: Scores that must multiply to another, beside pctr, pcvr and pctcvr.
        n_bootstrap: Replicates behind an interval.
        seed: Seed of resampling.

    Example:
        >>> from monocal.lab.simulator import simulate_log
        >>> log = simulate_log(20_000, world="affine").table()
        >>> click = evaluate_table(log, score="pctr", label="click", by=["device"], group="user_id").tasks["click"]
        >>> round(click.judgement.before.value("pcoc"), 1), len(click.by["device"]["before"])
        (2.0, 5)
    """
    columns = RowColumns(
        tasks=_tasks(model, score, label, tasks),
        fields=list(dict.fromkeys([*_fields(model, fields), *by])),
        group=group,
        weight=weight,
        winners=winners,
        time=time,
        sampling_rate=model.sampling_rate if sampling_rate is None and model is not None else sampling_rate,
        scores_are=scores_are if model is None else model.scores_are,
    )
    if top_k is not None and (group is None or top_k < 1):
        raise InvalidInput.of(
            "top_k", f"{top_k} with group {group}", "a number ≥ 1 and a group column", "add --group user_id"
        )
    rows = read_rows(table, columns, model=model, since=since, until=until)
    options: dict[str, Any] = {"n_bootstrap": n_bootstrap, "seed": seed}
    found = {name: _judge_task(rows, name, by, top_k, metrics, options) for name in columns.tasks}
    return TableEvaluation(rows.n_rows, found, _products(rows, columns, products))


def _judge_task(
    rows: TableRows,
    name: str,
    by: Sequence[str],
    top_k: int | None,
    metrics: Sequence[str] | None,
    options: Mapping[str, Any],
) -> TaskEvaluation:
    observed = np.flatnonzero(rows.labels[name] >= 0)
    if not observed.size:
        raise InvalidInput.of(f"labels of task {name!r}", "only nulls", "some labels", "check the label column")
    if observed.size < rows.n_rows:
        rows = rows.take(observed)
    stages = {BEFORE: _full_traffic(rows, name)}
    if rows.calibrated:
        stages[AFTER] = rows.calibrated[name]
    selections: dict[str, Selection] = {}
    reports: dict[str, Report] = {}
    tables: dict[str, dict[str, FieldTable]] = {one: {} for one in by}
    for stage, p in stages.items():
        chosen, ranks = _chosen(rows, p, top_k)
        if chosen is not None:
            selections[stage] = selection(
                rows.labels[name], p, chosen, ranks=ranks, weights=rows.weights, groups=rows.groups, **options
            )
        part, q = (rows, p) if chosen is None else (rows.take(np.flatnonzero(chosen)), p[chosen])
        reports[stage] = _report(part, name, q, metrics, options)
        for one in by:
            values = part.fields[one]
            column = values.ids if values.values is None else values.values.take(values.ids)
            tables[one][stage] = field_table(part.labels[name], q, column, name=one, weights=part.weights)
    judgement = Judgement(reports[BEFORE], reports.get(AFTER), same_rows=top_k is None)
    return TaskEvaluation(judgement, tables, selections)


def _report(rows: TableRows, name: str, p: Floats, metrics: Sequence[str] | None, options: Mapping[str, Any]) -> Report:
    return evaluate(
        rows.labels[name],
        p,
        fields={one: column.ids for one, column in rows.fields.items()},
        groups=rows.groups,
        weights=rows.weights,
        metrics=metrics or headline_metrics(has_fields=bool(rows.fields), has_groups=rows.groups is not None),
        **options,
    )


def _chosen(rows: TableRows, p: Floats, top_k: int | None) -> tuple[Any, Any]:
    if top_k is None or rows.groups is None:
        return rows.winners, None
    ranks = ranks_within(p, rows.groups)
    on_top = ranks <= top_k
    return (on_top if rows.winners is None else rows.winners & on_top), ranks


def _full_traffic(rows: TableRows, name: str) -> Floats:
    logits = to_logits(rows.scores[name], rows.scores_are, "scores")
    return sigmoid(logits + sampling_shift(rows.rates, rows.n_rows))


def _tasks(
    model: Model | None, score: str | None, label: str | None, tasks: Mapping[str, tuple[str, str]] | None
) -> dict[str, TaskColumns]:
    if tasks is not None:
        if score is not None or label is not None:
            raise InvalidInput.of("tasks", "tasks and score or label", "one of the two", "put every task into tasks")
        return {name: TaskColumns(*columns) for name, columns in tasks.items()}
    if model is not None:
        if score is not None:
            raise InvalidInput.of("score", repr(score), "the model's own score columns", "leave score out")
        if label is not None:
            one = model.task()
            return {one.name: TaskColumns(label, one.score)}
        return {one.name: TaskColumns(one.label, one.score) for one in model.tasks}
    if score is None or label is None:
        missing = "score" if score is None else "label"
        raise InvalidInput.of(missing, None, f"the name of the {missing} column", f"name it, --{missing} …")
    return {label: TaskColumns(label, score)}


def _fields(model: Model | None, fields: Sequence[str] | None) -> Sequence[str]:
    if fields is None:
        return () if model is None else model.field_names
    return fields


def _products(rows: TableRows, columns: RowColumns, products: Sequence[Product]) -> list[ProductCheck]:
    if len(columns.tasks) < 3:
        return []
    stages: dict[str, dict[str, Floats]] = {
        "score": {one.score: _full_traffic(rows, name) for name, one in columns.tasks.items()}
    }
    if rows.calibrated:
        stages["calibrated"] = {one.score: rows.calibrated[name] for name, one in columns.tasks.items()}
    labels = {one.score: rows.labels[name] for name, one in columns.tasks.items()}
    return check_products(stages, products=products, labels=labels, weights=rows.weights)
