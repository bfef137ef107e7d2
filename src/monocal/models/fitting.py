"""From a table with raw values to a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators import Calibrator, calibrator
from monocal.calibrators.statistical.carry_over import carry_by_position
from monocal.core.errors import InvalidInput
from monocal.core.freed_memory import give_back_freed_memory
from monocal.core.roles import Roles
from monocal.core.samples import Samples
from monocal.core.spaces import Floats, ScoreSpace
from monocal.core.team import Alone, Team
from monocal.logs.encoded_log import EncodedLog
from monocal.logs.row_log import log_of_rows
from monocal.logs.scored_input import ScoredInput, scored_input
from monocal.models.canary import canary_of
from monocal.models.fit_facts import fit_facts
from monocal.models.fit_options import FitOptions, method_and_arguments, rows_to_fit
from monocal.models.late_fit import check_late_method, fit_late, with_late_labels
from monocal.models.learned_rows import rows_fact
from monocal.models.model import Model, TaskModel
from monocal.models.own_rows import OwnRows, dealt_rows, own_rows
from monocal.models.row_sample import row_sample
from monocal.models.value_counts import count_values
from monocal.tables.rows import Rows

DEFAULT_METHOD = "umc"


def fit(
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
    sampling_rate: float | str | None = None,
    scores_are: ScoreSpace = "probability",
    soft_labels: bool = False,
    min_count: int = 1,
    max_size: int | None = None,
    frozen_embeddings: Sequence[NDArray[np.float32]] | None = None,
    event_time: str | None = None,
    label_time: str | None = None,
    window: str | None = None,
    **arguments: Any,
) -> Model:
    """Fits one calibrator per task on a table with raw values and returns a model that can be saved and served.

    Arguments:
        table: A Parquet or CSV path, a data frame with the Arrow C stream interface, an `EncodedLog` with scores, or a
            `ScoredLog` (or its folder), whose ranker's embeddings are handed over as well.
        method: Name of the calibrator, see `monocal.methods()`; or one with its arguments, made by
            `monocal.calibrator`: where a name of an argument below is one of the method, too, only that tells which is
            meant.
        score: Column of the ranker's score.
        label: Column of the 0/1 label.
        fields: Categorical columns.
        numeric: Columns of numbers, such as a price: each gets a smooth shift, and nulls are a value of their own.
        tasks: For several tasks: name to (label column, score column); null labels are rows without that task.
        weight: Column that says how often a row counts.
        time: Column that orders rows; without it they are taken to be in time order.
        sampling_rate: Share of negatives the ranker was trained on: a number or a column.
        scores_are: The space of the score columns.
        soft_labels: Labels may be any numbers in [0, 1]: q stands for q positives and 1 − q negatives.
        min_count: Field values with fewer rows count as unseen.
        max_size: The most values a field may have; rarer ones count as unseen.
        frozen_embeddings: A ranker's table per field, for methods that can use it.
        event_time: Column that says when a row happened, where its label may still come; it orders rows, too.
        label_time: Column that says when a positive label came; null where none has.
        window: How long after its event a label counts: "7d", or a number if the columns hold numbers.
        arguments: Constructor arguments of the calibrator, where `method` is a name.

    Example:
        >>> log = {"pctr": [0.1, 0.3, 0.2, 0.4] * 50, "click": [0, 1, 0, 0] * 50, "site": ["a", "b"] * 100}
        >>> model = fit(log, method="platt", score="pctr", label="click", fields=["site"])
        >>> round(float(model.predict(log).mean()), 3)
        0.25
    """
    chosen, arguments = method_and_arguments(fit, method, arguments, min_count=min_count)
    columns: dict[str, Any] = {"score": score, "label": label, "tasks": tasks, "fields": fields, "numeric": numeric}
    columns |= {"weight": weight, "time": time, "sampling_rate": sampling_rate, "scores_are": scores_are}
    columns |= {"soft_labels": soft_labels, "event_time": event_time, "label_time": label_time, "window": window}
    asked = FitOptions(chosen, arguments, min_count, max_size, embeddings=frozen_embeddings)
    return fit_table(*scored_input(table, columns), asked)


def fit_table(table: ScoredInput, roles: Roles, asked: FitOptions) -> Model:
    """Fits one calibrator per task on all rows, see `fit`.

    Arguments:
        table: A table, or a log with scores.
        roles: Which column plays which part.
        asked: How to fit.
    """
    rows, asked, labels = rows_to_fit(table, roles, asked)
    maturity = rows.maturity if isinstance(rows, Rows) else None
    log = log_of_rows(rows, **asked.limits) if isinstance(rows, Rows) else rows
    if isinstance(rows, Rows):
        rows = rows.with_fields(())  # the log has their ids; a second copy of all of them would stay during the fit
    model = fit_log(log, asked, maturity=maturity)
    return model if labels is None else with_late_labels(model, labels)


def fit_log(
    log: EncodedLog,
    asked: FitOptions,
    *,
    team: Team | None = None,
    n_shards: int | None = None,
    maturity: Floats | None = None,
) -> Model:
    """Fits one calibrator per task on encoded rows.

    Arguments:
        log: Rows with scores, in time order.
        asked: How to fit.
        team: Who fits together; each member reads its own shards of the log and ends with the same model.
        n_shards: Into how many shards the log is dealt; by default one per member. The same number gives the same bits
            whatever the team.
        maturity: The share of positives of each row's age whose label has come; None means all.
    """
    method, arguments = asked.method, asked.arguments
    team = team or Alone()
    n_shards = n_shards or team.size
    if maturity is not None:
        check_late_method(method)
    if not log.scores:
        raise InvalidInput.of("table", "an encoded log without scores", "a score column per task", "rank the log first")
    if isinstance(arguments.get("carry"), Mapping):
        arguments = {**arguments, "carry": carry_by_position(arguments["carry"], log.field_names)}
    rows = log.rows()
    give_back_freed_memory()  # what reading and encoding left behind

    def make() -> Calibrator:
        return calibrator(method, **arguments)

    tasks = []
    for task in rows.scores:
        fitted = _fit_task(
            # without a name here, so that they are gone after the fit
            own_rows(log, rows, task, n_shards, team, maturity, looks_at_time=make().looks_at_time),
            task,
            make,
            asked.embeddings,
            log.vocabulary.numeric_knots,
        )
        tasks.append(TaskModel(task, log.roles.score_columns.get(task, task), log.roles.labels[task], fitted))
    give_back_freed_memory()
    part = dealt_rows(log, rows, n_shards, team)
    model = Model(
        tasks=tuple(tasks),
        vocabulary=log.vocabulary,
        scores_are=log.roles.scores_are,
        sampling_rate=log.roles.sampling_rate,
        info={
            "n_rows": log.n_rows,
            "log_fingerprint": log.fingerprint,
            "tasks": fit_facts(part.rows, part.shards),
            "time_column": None if rows.times is None else rows.roles.time,
            "learned_from": [rows_fact(part.rows, team)],
            "row_sample": row_sample(part.rows, part.features, shards=part.shards),
            **({"soft_labels": True} if log.roles.soft_labels else {}),
        },
        value_counts=count_values(part.features, log.field_sizes, team=team),
    )
    return replace(model, canary=canary_of(model, log.features, rows))


def _fit_task(
    own: OwnRows,
    task: str,
    make: Callable[[], Calibrator],
    embeddings: Sequence[NDArray[np.float32]] | None,
    n_knots: Sequence[int] | None,
) -> Calibrator:
    rows = own.rows
    scores, labels = rows.scores[task], rows.labels[task]

    def fit(weights: Any) -> Calibrator:
        return make().fit(
            scores,
            labels,
            features=own.features,
            weights=weights,
            times=rows.times,  # a log is in time order, and so is every shard of it
            scores_are=rows.roles.scores_are,
            sampling_rate=rows.rates,
            embeddings=embeddings,
            shards=own.shards,
            numeric_knots=n_knots,
        )

    def fit_and_predict(weights: Floats) -> tuple[Calibrator, Floats]:
        fitted = fit(weights)
        return fitted, fitted.predict_samples(Samples(rows.logits(task), features=own.features, shards=own.shards))

    if own.maturity is None:
        return fit(rows.weights)
    return fit_late(fit_and_predict, labels, own.maturity, rows.uncalibrated(task), rows.weights, own.shards)
