"""A model goes on with newer rows: vocabularies grow, calibrators move, and the model remembers where it came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from monocal.calibrators import Calibrator
from monocal.calibrators.refusals import no_refresh_of_numbers
from monocal.core.errors import InvalidInput
from monocal.core.samples import Ids
from monocal.core.spaces import Floats, ScoreSpace
from monocal.models.canary import canary_of
from monocal.models.fit_facts import fit_facts
from monocal.models.late_fit import check_late_method, fit_late, known_delays
from monocal.models.learned_rows import MOST_REMEMBERED, check_unseen, rows_fact
from monocal.models.model import Model, TaskModel
from monocal.models.products import given_earlier_parts
from monocal.models.value_counts import count_values
from monocal.tables.late_labels import LateLabels, check_late_columns, mature
from monocal.tables.read import read
from monocal.tables.rows import Rows
from monocal.tables.stream import Table, open_table
from monocal.vocabulary.vocabulary import FieldVocabulary, NumericField, Vocabulary

EXPECTED_FOR_ZEROS = 20.0
"""So many expected positives and none observed: the labels are missing, not the positives."""

LEAST_FAMILIAR = 0.02
"""Nine rows in ten lay between the outer twentieths of the fit's scores. Where fewer than this do, the score is another
one."""


def refresh_model(
    model: Model,
    table: Table,
    *,
    label: str | None = None,
    weight: str | None = None,
    time: str | None = None,
    since: str | None = None,
    until: str | None = None,
    scores_are: ScoreSpace | None = None,
    event_time: str | None = None,
    label_time: str | None = None,
    window: str | None = None,
) -> Model:
    """Returns the next generation of a model; the model itself stays as it is.

    Every task's calibrator goes on with the rows (`Calibrator.refresh`). Field values that were not there before get an
    id and a shift. The new model knows its parent's fingerprint, its own generation number, and what moved.

    Arguments:
        model: The model to go on from.
        table: Labelled rows that are newer than those it learned from.
        label: Another label column than that of the fit.
        weight: How often each row counts.
        time: Orders rows; by default the column that the model was fitted with, if it is there.
        since: Rows before this moment are left out.
        until: Rows at or after it are left out.
        scores_are: The space of the scores; another one than the model's is refused.
        event_time: Column that says when a row happened, where its label may still come.
        label_time: Column that says when a positive label came; null where none has.
        window: How long after its event a label counts.

    Example:
        >>> import monocal
        >>> log = monocal.simulate_log(20_000, world="affine").table()
        >>> model = monocal.fit(log.slice(0, 10_000), method="platt", score="pctr", label="click")
        >>> following = refresh_model(model, log.slice(10_000))
        >>> following.info["generation"], following.info["parent"] == model.fingerprint
        (2, True)
    """
    late = event_time, label_time, window
    rows, labels = rows_to_learn(model, table, label, weight, time, since, until, scores_are, late)
    return refresh_rows(model, rows, labels)


def rows_to_learn(
    model: Model,
    table: Table,
    label: str | None,
    weight: str | None,
    time: str | None,
    since: str | None,
    until: str | None,
    scores_are: ScoreSpace | None,
    late: tuple[str | None, str | None, str | None] = (None, None, None),
    slices: Sequence[str] = (),
) -> tuple[Rows, LateLabels | None]:
    """Reads rows for a refresh, in time order, and refuses those that a model cannot go on with.

    Arguments as for `refresh_model`; `late` is event time, label time and window, `slices` are columns that rows will
    be judged by. What is known about labels that may still come is returned as well.
    """
    if scores_are is not None and scores_are != model.scores_are:
        raise InvalidInput.of(
            "scores_are", repr(scores_are), f"the model's score space, {model.scores_are!r}", "convert the column"
        )
    stream = open_table(table)
    model.check_columns(stream.column_names)
    known = model.info.get("time_column")
    moment = known if time is None and known in stream.column_names else time or late[0]
    others: dict[str, Any] = {"event_time": late[0], "label_time": late[1]} if check_late_columns(*late) else {}
    roles = model.roles(label, weight=weight, time=moment, slices=list(slices), **others)
    rows, labels = read(stream, roles, since=since, until=until).in_time_order(), None
    rows = given_earlier_parts(rows, model.products)
    check_unseen(model.info, rows, "the model")
    if others:
        for one in model.tasks:
            check_late_method(one.calibrator.name)
        rows, labels = mature(rows, str(late[2]), known_delays(model))
    for task in rows.scores:
        _check_labels(rows, task)
        _check_scores(model, rows, task)
    return rows, labels


def refresh_rows(model: Model, rows: Rows, labels: LateLabels | None = None) -> Model:
    """Returns the next generation after rows that were read and checked, and what is known about late labels."""
    if model.vocabulary.numeric_names:
        raise no_refresh_of_numbers(model.tasks[0].calibrator.name)
    vocabulary = _grown(model.vocabulary, rows)
    features = vocabulary.encode_columns(rows.fields, rows.n_rows)
    tasks = []
    wholes = [one.whole for one in model.products]
    for one in model.tasks:
        if one.name in wholes:
            tasks.append(one)
            continue
        known = np.flatnonzero(rows.labels[one.name] >= 0)
        following = _refresh_task(one, rows.take(known), features[known] if vocabulary.names else None)
        tasks.append(replace(one, calibrator=following))
    generation = int(model.info.get("generation", 1)) + 1
    fact = rows_fact(rows)
    entry: dict[str, Any] = {"generation": generation, "parent": model.fingerprint, **fact}
    entry["new_values"] = {
        new.name: new.size - old.size for new, old in zip(vocabulary.fields, model.vocabulary.fields, strict=True)
    }
    entry["tasks"] = {one.name: _moved(one, vocabulary) for one in tasks}
    info = {
        **model.info,
        "generation": generation,
        "parent": model.fingerprint,
        "tasks": fit_facts(rows),
        "time_column": rows.roles.time or model.info.get("time_column"),
        "learned_from": [*model.info.get("learned_from", ()), fact][-MOST_REMEMBERED:],
        "history": [*model.info.get("history", ()), entry][-MOST_REMEMBERED:],
    }
    counts = count_values(features, vocabulary.sizes, model.value_counts) if model.value_counts else ()
    if labels is not None:
        info["late_labels"] = labels.as_dict()
    following_model = replace(model, tasks=tuple(tasks), vocabulary=vocabulary, info=info, value_counts=counts)
    return replace(following_model, canary=canary_of(following_model, features, rows))


def _refresh_task(one: TaskModel, rows: Rows, features: Ids | None) -> Calibrator:
    scores, labels = rows.scores[one.name], rows.labels[one.name]
    inputs: dict[str, Any] = {
        "features": features,
        "scores_are": rows.roles.scores_are,
        "sampling_rate": rows.rates,
    }

    def refresh(weights: Any) -> Calibrator:
        return one.calibrator.refresh(scores, labels, weights=weights, times=rows.times, **inputs)

    def refresh_and_predict(weights: Floats) -> tuple[Calibrator, Floats]:
        following = refresh(weights)
        return following, following.predict(scores, **inputs)

    if rows.maturity is None:
        return refresh(rows.weights)
    forecast = one.calibrator.predict(scores, **inputs)
    return fit_late(refresh_and_predict, labels, rows.maturity, forecast, rows.weights)


def _moved(one: TaskModel, vocabulary: Vocabulary) -> dict[str, Any]:
    """What moved in a task, with fields and values by name."""
    facts: dict[str, Any] = dict(vars(one.calibrator).get("moved_", {}))
    places = vars(one.calibrator).get("carry_", {}).get("field", range(len(facts.get("fields", ()))))
    named = {}
    for place, entry in zip(places, facts.pop("fields", ()), strict=False):
        field = vocabulary.fields[int(place)]
        largest = entry["largest"]
        value = field.values[largest - 1].as_py() if field.n_buckets is None and largest > 0 else f"id {largest}"
        named[field.name] = {**entry, "largest": str(value)}
    return {**facts, "fields": named}


def _grown(vocabulary: Vocabulary, rows: Rows) -> Vocabulary:
    """Appends values that are new; ids of the others stay."""
    seen = Vocabulary.of_columns({name: rows.fields[name] for name in vocabulary.names})
    fields: list[FieldVocabulary | NumericField] = []
    for old, new in zip(vocabulary.fields, seen.fields, strict=True):
        if isinstance(old, NumericField) or old.n_buckets is not None:
            fields.append(old)
            continue
        strangers = new.values.filter(pa.array(old.encode(new.values) == 0))
        values = pa.concat_arrays([old.values, strangers.cast(old.values.type)]) if len(strangers) else old.values
        fields.append(FieldVocabulary(old.name, values, None, old.text_rule))
    return Vocabulary(tuple(fields))


def _check_labels(rows: Rows, task: str) -> None:
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


def _check_scores(model: Model, rows: Rows, task: str) -> None:
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
