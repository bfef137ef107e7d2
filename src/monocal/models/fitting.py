"""From a table with raw values to a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators import calibrator
from monocal.calibrators.statistical.carry_over import carry_by_position
from monocal.core.errors import InvalidInput
from monocal.core.spaces import ScoreSpace
from monocal.core.team import Alone, Shards, Team
from monocal.logs.encoded_log import EncodedLog
from monocal.logs.row_log import log_of_rows
from monocal.logs.scored_input import ScoredInput, scored_input
from monocal.models.canary import canary_of
from monocal.models.fit_facts import fit_facts
from monocal.models.learned_rows import rows_fact
from monocal.models.model import Model, TaskModel
from monocal.models.row_sample import row_sample
from monocal.tables.rows import Rows

DEFAULT_METHOD = "umc"


def fit(
    table: ScoredInput,
    *,
    method: str = DEFAULT_METHOD,
    score: str | None = None,
    label: str | None = None,
    fields: Sequence[str] = (),
    tasks: Mapping[str, tuple[str, str]] | None = None,
    weight: str | None = None,
    time: str | None = None,
    sampling_rate: float | str | None = None,
    scores_are: ScoreSpace = "probability",
    min_count: int = 1,
    max_size: int | None = None,
    frozen_embeddings: Sequence[NDArray[np.float32]] | None = None,
    **arguments: Any,
) -> Model:
    """Fits one calibrator per task on a table with raw values and returns a model that can be saved and served.

    Arguments:
        table: A Parquet or CSV path, a data frame with the Arrow C stream interface, an `EncodedLog` with scores, or a
            `ScoredLog` (or its folder), whose ranker's embeddings are handed over as well.
        method: Name of the calibrator, see `monocal.methods()`.
        score: Column of the ranker's score.
        label: Column of the 0/1 label.
        fields: Categorical columns.
        tasks: For several tasks: name to (label column, score column); null labels are rows without that task.
        weight: Column that says how often a row counts.
        time: Column that orders rows; without it they are taken to be in time order.
        sampling_rate: Share of negatives the ranker was trained on: a number or a column.
        scores_are: The space of the score columns.
        min_count: Field values with fewer rows count as unseen.
        max_size: The most values a field may have; rarer ones count as unseen.
        frozen_embeddings: A ranker's table per field, for methods that can use it.
        arguments: Constructor arguments of the calibrator.

    Example:
        >>> log = {"pctr": [0.1, 0.3, 0.2, 0.4] * 50, "click": [0, 1, 0, 0] * 50, "site": ["a", "b"] * 100}
        >>> model = fit(log, method="platt", score="pctr", label="click", fields=["site"])
        >>> round(float(model.predict(log).mean()), 3)
        0.25
    """
    calibrator(method, **arguments)  # refuses unknown names and arguments before anything is read
    rows, embeddings = scored_input(
        table,
        score=score,
        label=label,
        tasks=tasks,
        fields=fields,
        weight=weight,
        time=time,
        sampling_rate=sampling_rate,
        scores_are=scores_are,
    )
    if isinstance(rows, Rows):
        rows = log_of_rows(rows.in_time_order(), min_count=min_count, max_size=max_size)
    return fit_log(rows, method, arguments, embeddings if frozen_embeddings is None else frozen_embeddings)


def fit_log(
    log: EncodedLog,
    method: str,
    arguments: Mapping[str, Any],
    frozen_embeddings: Sequence[NDArray[np.float32]] | None = None,
    team: Team | None = None,
    n_shards: int | None = None,
) -> Model:
    """Fits one calibrator per task on encoded rows.

    Arguments:
        log: Rows with scores, in time order.
        method: Name of the calibrator.
        arguments: Constructor arguments of the calibrator.
        frozen_embeddings: A ranker's table per field, for methods that can use it.
        team: Who fits together; each member reads its own shards of the log and ends with the same model.
        n_shards: Into how many shards the log is dealt; by default one per member. The same number gives the same bits
            whatever the team.
    """
    team = team or Alone()
    n_shards = n_shards or team.size
    if not log.scores:
        raise InvalidInput.of("table", "an encoded log without scores", "a score column per task", "rank the log first")
    if isinstance(arguments.get("carry"), Mapping):
        arguments = {**arguments, "carry": carry_by_position(arguments["carry"], log.field_names)}
    rows = log.rows()
    tasks = []
    for task in rows.scores:
        known = rows.labels[task] >= 0
        whole, shards = bool(known.all()), None
        mine: slice | NDArray[np.int64] = slice(None) if whole else np.flatnonzero(known)
        if n_shards > 1:
            mine, shards = Shards.deal(np.flatnonzero(known), n_shards, team)
        # fields are taken as ids below; shards need no times
        needed = replace(rows, fields={}, groups=None, times=rows.times if shards is None else None)
        observed = rows if whole and shards is None else needed.take(mine)
        fitted = calibrator(method, **arguments)
        fitted.fit(
            observed.scores[task],
            observed.labels[task],
            features=log.features[mine] if log.n_fields else None,
            weights=observed.weights,
            # a log is in time order, and so is every shard of it
            times=observed.times if shards is None else None,
            scores_are=log.roles.scores_are,
            sampling_rate=observed.rates,
            embeddings=frozen_embeddings,
            shards=shards,
        )
        tasks.append(TaskModel(task, log.roles.score_columns.get(task, task), log.roles.labels[task], fitted))
    model = Model(
        tasks=tuple(tasks),
        vocabulary=log.vocabulary,
        scores_are=log.roles.scores_are,
        sampling_rate=log.roles.sampling_rate,
        info={
            "n_rows": log.n_rows,
            "log_fingerprint": log.fingerprint,
            "tasks": fit_facts(rows),
            "time_column": None if rows.times is None else rows.roles.time,
            "learned_from": [rows_fact(rows)],
            "row_sample": row_sample(rows, log.features.T),
        },
    )
    return replace(model, canary=canary_of(model, log.features, rows))
