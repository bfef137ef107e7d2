"""A model goes on with newer rows: vocabularies grow, calibrators move, and the model remembers where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from monocal.calibrators import Calibrator
from monocal.core.errors import InvalidInput
from monocal.core.fields import Ids
from monocal.core.scores import Floats
from monocal.models.facts import (
    MOST_REMEMBERED,
    canary_of,
    check_unseen,
    count_values,
    fit_facts,
    known_delays,
    row_sample,
    rows_fact,
    time_of_fit,
)
from monocal.models.fit import check_late_method, fit_late
from monocal.models.model import Model, TaskModel
from monocal.tables.late_labels import LateLabels
from monocal.tables.roles import Columns, Roles, columns_of
from monocal.tables.source import TableLike, TableStream, open_table
from monocal.tables.table import Table
from monocal.tables.vocabulary import FieldVocabulary, NumericField, Vocabulary

EXPECTED_FOR_ZEROS = 20.0
"""So many expected positives and none observed: the labels are missing, not the positives."""

LEAST_FAMILIAR = 0.02
"""Nine rows in ten lay between the outer twentieths of the fit's scores. Where fewer than this do, the score is another
one."""


def refresh_model(
    model: Model,
    table: TableLike,
    roles: Roles | None = None,
    *,
    since: str | None = None,
    until: str | None = None,
    **columns: Unpack[Columns],
) -> Model:
    """Returns the next generation of a model; the model itself stays as it is.

    Every task's calibrator goes on with the rows (`Calibrator.refresh`). Field values that were not there before get an
    id and a shift. The new model knows its parent's fingerprint, its own generation number, and what moved.

    Arguments:
        model: The model to go on from.
        table: Labelled rows that are newer than those it learned from.
        roles: Which column is what, or the same by name; scores, fields and what is not named are those of the fit.
        since: Rows before this moment are left out.
        until: Rows at or after it are left out.
        columns: In place of roles: `label`, `weight`, `time` and others.

    Example:
        >>> import monocal
        >>> log = monocal.simulate_log(20_000, world="affine").table()
        >>> model = monocal.fit(log.slice(0, 10_000), method="platt", score="pctr", label="click")
        >>> following = refresh_model(model, log.slice(10_000))
        >>> following.info["generation"], following.info["parent"] == model.fingerprint
        (2, True)
    """
    given = columns_of(refresh_model, roles, columns)
    rows, labels = rows_to_learn(model, open_table(table), given, since=since, until=until)
    return refresh_rows(model, rows, labels)


def rows_to_learn(
    model: Model,
    stream: TableStream,
    columns: Mapping[str, Any],
    *,
    since: str | None = None,
    until: str | None = None,
) -> tuple[Table, LateLabels | None]:
    """Reads rows for a refresh, in time order, and refuses those that a model cannot go on with.

    Rows are in the order of the column that the model was fitted with, if it is there and no other is named. What is
    known about labels that may still come is returned as well.

    Arguments:
        model: The model to go on from.
        stream: Labelled rows.
        columns: What was named; scores, fields and what is not named are those of the fit.
        since: Rows before this moment are left out.
        until: Rows at or after it are left out.
    """
    model.check_columns(stream.column_names)
    time = columns.get("time") or time_of_fit(model.info, stream.column_names)
    roles = model.roles(**{**columns, "time": time})
    if roles.has_late_labels:
        for task in model.tasks:
            check_late_method(task.calibrator.name)
    rows = Table.read(stream, roles, since=since, until=until, delays=known_delays(model))
    labels = rows.late_labels
    rows = rows.in_time_order()
    check_unseen(model, rows, "the model")
    for name in rows.scores:
        _check_labels(rows, name)
        _check_scores(model, rows, name)
    return rows, labels


def refresh_rows(model: Model, rows: Table, labels: LateLabels | None = None) -> Model:
    """Returns the next generation after rows that were read and checked, and what is known about late labels."""
    vocabulary = _grown(model.vocabulary, rows)
    features = vocabulary.encode_columns(rows.fields, rows.n_rows)
    tasks = []
    for task in model.tasks:
        known = np.flatnonzero(rows.labels[task.name] >= 0)
        following = _refresh_task(task, rows.take(known), features[known] if vocabulary.names else None)
        tasks.append(replace(task, calibrator=following))
    generation = int(model.info.get("generation", 1)) + 1
    fact = rows_fact(rows)
    entry: dict[str, Any] = {"generation": generation, "parent": model.fingerprint, **fact}
    entry["new_values"] = {
        new.name: new.size - old.size for new, old in zip(vocabulary.fields, model.vocabulary.fields, strict=True)
    }
    entry["tasks"] = {task.name: _moved(task, vocabulary) for task in tasks}
    info = {
        **model.info,
        "generation": generation,
        "parent": model.fingerprint,
        "tasks": fit_facts(rows),
        "time_column": rows.roles.time or model.info.get("time_column"),
        "learned_from": [*model.info.get("learned_from", ()), fact][-MOST_REMEMBERED:],
        "row_sample": row_sample(rows, features, model.info.get("row_sample")),
        "history": [*model.info.get("history", ()), entry][-MOST_REMEMBERED:],
    }
    counts = count_values(features, vocabulary.sizes, model.value_counts) if model.value_counts else ()
    if labels is not None:
        info["late_labels"] = labels.as_dict()
    following_model = replace(model, tasks=tuple(tasks), vocabulary=vocabulary, info=info, value_counts=counts)
    return replace(following_model, canary=canary_of(following_model, features, rows))


def _refresh_task(task: TaskModel, rows: Table, features: Ids | None) -> Calibrator:
    scores, labels = rows.scores[task.name], rows.labels[task.name]
    inputs: dict[str, Any] = {
        "features": features,
        "scores_are": rows.roles.scores_are,
        "sampling_rate": rows.rates,
    }

    def refresh(weights: Any) -> Calibrator:
        return task.calibrator.refresh(scores, labels, weights=weights, times=rows.times, **inputs)

    def refresh_and_predict(weights: Floats) -> tuple[Calibrator, Floats]:
        following = refresh(weights)
        return following, following.predict(scores, **inputs)

    if rows.maturity is None:
        return refresh(rows.weights)
    return fit_late(refresh_and_predict, rows, task.name, forecast=task.calibrator.predict(scores, **inputs))


def _moved(task: TaskModel, vocabulary: Vocabulary) -> dict[str, Any]:
    """What moved in a task, with fields and values by name."""
    facts: dict[str, Any] = dict(vars(task.calibrator).get("last_update_", {}))
    places = vars(task.calibrator).get("carry_", {}).get("field", range(len(facts.get("fields", ()))))
    named = {}
    for place, entry in zip(places, facts.pop("fields", ()), strict=False):
        field = vocabulary.fields[int(place)]
        if isinstance(field, NumericField):
            continue  # its curve stays
        largest = entry["largest"]
        value = field.values[largest - 1].as_py() if field.n_buckets is None and largest > 0 else f"id {largest}"
        named[field.name] = {**entry, "largest": str(value)}
    return {**facts, "fields": named}


def _grown(vocabulary: Vocabulary, rows: Table) -> Vocabulary:
    """Appends values that are new; ids of the others stay."""
    seen = Vocabulary.of_columns({name: rows.fields[name] for name in vocabulary.category_names})
    fields: list[FieldVocabulary | NumericField] = []
    for old in vocabulary.fields:
        if isinstance(old, NumericField) or old.n_buckets is not None:
            fields.append(old)
            continue
        new = seen[old.name]
        assert isinstance(new, FieldVocabulary)
        added = new.values.filter(pa.array(old.encode(new.values) == 0))
        values = pa.concat_arrays([old.values, added.cast(old.values.type)]) if len(added) else old.values
        fields.append(FieldVocabulary(old.name, values))
    return Vocabulary(tuple(fields))


def _check_labels(rows: Table, task: str) -> None:
    labels = rows.labels[task]
    known = labels >= 0
    if not known.any():
        raise InvalidInput.of(f"labels of task {task!r}", "only nulls", "some labels", "check the label column")
    expected = float(rows.arrived(rows.uncalibrated(task))[known].sum())
    if not labels[known].any() and expected >= EXPECTED_FOR_ZEROS:
        raise InvalidInput.of(
            f"labels of task {task!r}",
            f"0 positives in {int(known.sum()):,} rows, for which the scores expect {expected:,.0f}",
            "labels that have arrived",
            "check the join that brought them (an empty one gives zeros); the model stays as it is",
        )


def _check_scores(model: Model, rows: Table, task: str) -> None:
    edges = np.asarray(model.info.get("tasks", {}).get(task, {}).get("score_edges_logit", ()), dtype=np.float64)
    if edges.size < 2:
        return
    logits = rows.logits(task)
    inside = float(np.mean((logits >= edges[0]) & (logits <= edges[-1])))
    if inside < LEAST_FAMILIAR:
        raise InvalidInput.of(
            f"score column {model.task(task).score!r}",
            f"{inside:.1%} of the rows between the outer twentieths of the scores that the model learned from",
            f"scores of the same ranker, as {model.scores_are}s",
            "check whether the column holds probabilities or logits; after a change of the ranker fit anew",
        )
