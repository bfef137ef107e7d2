"""From a table with raw values to a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators import Calibrator, calibrator
from monocal.calibrators.registry import AUTO
from monocal.carry_over.shrinkage import carry_by_position
from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput
from monocal.core.process import trim_heap
from monocal.core.reduce import Local, Partition, Reducer
from monocal.core.scores import Floats
from monocal.models.facts import canary_of, count_values, fit_facts, row_sample, rows_fact
from monocal.models.model import Model, TaskModel
from monocal.tables.checks import with_auto_fields
from monocal.tables.roles import Columns, Roles, columns_of
from monocal.tables.source import TableLike
from monocal.tables.table import Table, rows_of_fit

DEFAULT_METHOD = AUTO


def fit(
    table: TableLike,
    roles: Roles | None = None,
    *,
    method: str | Calibrator = DEFAULT_METHOD,
    min_count: int = 1,
    max_size: int | None = None,
    frozen_embeddings: Sequence[NDArray[np.float32]] | None = None,
    **columns: Unpack[Columns],
) -> Model:
    """Fits one calibrator per task on all rows of a table and returns a model that can be saved and served.

    Of a ranked log these are all rows that its ranker was not trained on.

    Arguments:
        table: A Parquet or CSV path, a data frame with the Arrow C stream interface, or the folder of a ranked log,
            whose ranker's embeddings are handed over as well.
        roles: Which column is what; or the same by name, see `columns`.
        method: A name of `monocal.methods()`, or a method with its arguments, such as `monocal.Umc(seed=5)`. "auto" is
            `umc`, and `wide_logistic` where torch is not installed.
        min_count: Field values with fewer rows count as unseen.
        max_size: The most values a field may have; rarer ones count as unseen.
        frozen_embeddings: A ranker's table per field, for methods that can use it.
        columns: In place of roles, by the names of `monocal.Roles`: `score`, `label`, `fields`, `time` and others.

    Example:
        >>> log = {"pctr": [0.1, 0.3, 0.2, 0.4] * 50, "click": [0, 1, 0, 0] * 50, "site": ["a", "b"] * 100}
        >>> model = fit(log, method="platt", score="pctr", label="click", fields=["site"])
        >>> round(float(model.predict(log).mean()), 3)
        0.25
    """
    chosen = calibrator(method)
    given = columns_of(fit, roles, columns, chosen)
    given, _ = with_auto_fields(table, given, uses_fields=chosen.class_tags.uses_features)
    rows = rows_to_fit(table, given).encoded(min_count=min_count, max_size=max_size)
    return fit_log(rows, chosen, embeddings=frozen_embeddings)


def rows_to_fit(table: TableLike, columns: Mapping[str, Any]) -> Table:
    """Returns all rows of a table; of a ranked log those that its ranker was not trained on."""
    rows = rows_of_fit(table, columns)
    if {"calibration", "test"} <= set(rows.parts):
        return rows.take(slice(rows.parts["calibration"][0], rows.parts["test"][1]))
    return rows


def fit_log(
    rows: Table,
    method: Calibrator,
    *,
    embeddings: Sequence[NDArray[np.float32]] | None = None,
    team: Reducer | None = None,
    n_shards: int | None = None,
    has_whole_log: bool = True,
) -> Model:
    """Fits one calibrator per task on encoded rows.

    Arguments:
        rows: Encoded rows with scores, in time order.
        method: How to fit: a calibrator, which stays unfitted.
        embeddings: A ranker's table per field, for methods that can use it; None means those of the log, if any.
        team: Who fits together; each member reads its own shards of the rows and ends with the same model.
        n_shards: Into how many shards the rows are dealt; by default one per member. The same number gives the same
            bits whatever the team.
        has_whole_log: Whether every member was given all rows; else each brings its own, one shard per member.
    """
    team = team or Local()
    n_shards = n_shards or team.size
    if rows.maturity is not None:
        check_late_method(method.name)
    if not rows.scores:
        raise InvalidInput.of("table", "an encoded log without scores", "a score column per task", "rank the log first")
    if isinstance(carry := vars(method).get("carry"), Mapping):
        method = method.cloned().set_params(carry=carry_by_position(carry, rows.field_names))
    features, vocabulary = rows.encoding
    embeddings = rows.embeddings if embeddings is None else embeddings
    trim_heap()  # what reading and encoding left behind

    tasks = []
    for task in rows.scores:
        own, data = _rows_of_task(rows, task, method, team, n_shards, has_whole_log=has_whole_log)
        given: dict[str, Any] = {
            "scores_are": rows.roles.scores_are,
            "sampling_rate": own.rates,
            "embeddings": embeddings,
        }
        if own.maturity is None:
            fitted = copy(method).fit_data(data, vocabulary.numeric_knots, **given)
        else:
            fit_again = partial(_fit_and_predict, method, data, vocabulary.numeric_knots, **given)
            fitted = fit_late(fit_again, own, task, data.partition)
        del own, data
        tasks.append(TaskModel(task, rows.roles.scores.get(task, task), rows.roles.labels[task], fitted))
    trim_heap()
    own, partition = rows.local(n_shards, team, has_whole_log=has_whole_log)
    lean = replace(own, fields={}, groups=None, features=None)  # rows of a task are taken without copies of all ids
    learned = rows_fact(lean, team)
    model = Model(
        tasks=tuple(tasks),
        vocabulary=vocabulary,
        scores_are=rows.roles.scores_are,
        sampling_rate=rows.roles.sampling_rate,
        info={
            "n_rows": learned["n_rows"],
            "tasks": fit_facts(lean, partition),
            "time_column": None if rows.times is None else rows.roles.time,
            "learned_from": [learned],
            "row_sample": row_sample(lean, own.encoding[0], shards=partition),
            **({"soft_labels": True} if rows.roles.soft_labels else {}),
            **({} if rows.late_labels is None else {"late_labels": rows.late_labels.as_dict()}),
        },
        value_counts=count_values(own.encoding[0], vocabulary.sizes, team=team),
    )
    return replace(model, canary=canary_of(model, features, rows))


def _rows_of_task(
    rows: Table, task: str, method: Calibrator, team: Reducer, n_shards: int, *, has_whole_log: bool
) -> tuple[Table, Dataset]:
    """Returns this member's rows with a known label of the task, and what of them the method looks at."""
    is_alone = n_shards == 1 and team.size == 1
    # times and places in the log cost eight bytes a row each
    seen = rows if method.looks_at_time or is_alone else replace(rows, times=None)
    own, partition = seen.local(n_shards, team, task, has_whole_log=has_whole_log)
    if not method.looks_at_time:
        partition = replace(partition, order=None)
    return own, own.dataset(task, None if is_alone else partition)


def _fit_and_predict(
    method: Calibrator, data: Dataset, numeric_knots: Sequence[int] | None, weights: Floats, **given: Any
) -> tuple[Calibrator, Floats]:
    fitted = copy(method).fit_data(replace(data, w=weights), numeric_knots, **given)
    return fitted, fitted.predict_data(Dataset(data.z, ids=data.ids, partition=data.partition))


LATE_METHODS = ("none", "platt", "temperature", "beta", "isotonic", "histogram", "wide_logistic", "umc")
"""Methods that maximise a weighted likelihood of the labels."""

_MOST_FITS = 8
_CLOSE = 1e-3


def check_late_method(method: str) -> None:
    """Refuses a method that cannot use labels that may still come."""
    if method not in LATE_METHODS:
        raise InvalidInput.of(
            "method",
            f"{method!r} with labels that may still come",
            f"one that maximises a weighted likelihood: {', '.join(LATE_METHODS)}",
            "choose one of these, or leave out rows that are younger than the window",
        )


def fit_late(
    fit: Callable[[Floats], tuple[Calibrator, Floats]],
    rows: Table,
    task: str,
    partition: Partition | None = None,
    forecast: Floats | None = None,
) -> Calibrator:
    r"""Fits with the weights of the late likelihood until they stay, by the same step for all members of a team.

    What is seen of a row with maturity F is Bernoulli(:math:`pF`). For any model of the logit of p the gradient of that
    likelihood is the gradient of the usual one with positives counted once and negatives with the weight

    .. math:: \omega = \frac{F (1 - p)}{1 - p F},

    the chance that a row without a label is a negative whose label would have come. So a method that maximises a
    weighted likelihood is fitted with these weights, and again with those of its own p until they stay: a fixed point
    is a stationary point of the late likelihood. Where p is small :math:`\omega \approx F`, and one repetition is
    enough.

    Arguments:
        fit: Takes weights; returns a fitted calibrator and its probabilities of the same rows.
        rows: Rows whose labels are those that have arrived, with the maturity of each row.
        task: Whose labels.
        partition: How the rows are cut and with whom they are added up; all of them at once if not given.
        forecast: A first guess of the probabilities; by default that of the ranker.

    Example:
        The mean as a model: ten positives have arrived where half of them are expected to have.

        >>> from dataclasses import replace
        >>> from monocal.calibrators import calibrator
        >>> from monocal.tables.roles import Roles
        >>> labels, logits = np.repeat([1, 0], [10, 90]).astype(np.int8), np.zeros(100)
        >>> def fit(weights):
        ...     fitted = calibrator("platt").fit(logits, labels, weights=weights, scores_are="logit")
        ...     return fitted, fitted.predict(logits)
        >>> rows = Table.read({"y": labels, "p": np.full(100, 0.1)}, Roles(score="p", label="y"))
        >>> found = fit_late(fit, replace(rows, maturity=np.full(100, 0.5)), "y")
        >>> round(float(found.predict([0.0])[0]), 2)
        0.2
    """
    assert rows.maturity is not None
    labels, maturity = rows.labels[task], rows.maturity
    counts = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    partition = partition or Partition.whole(rows.n_rows)
    share = _late_weights(labels, maturity, rows.uncalibrated(task) if forecast is None else forecast)
    for _ in range(_MOST_FITS):
        fitted, found = fit(counts * share)
        earlier, share = share, _late_weights(labels, maturity, found)
        moved = np.abs(share - earlier) * counts
        sums = [[float(moved[part].sum()), float(counts[part].sum())] for part in partition.parts]
        change, weight = partition.add(sums)
        if change / weight < _CLOSE:
            break
    return fitted


def _late_weights(labels: NDArray[np.int8], maturity: Floats, p: Floats) -> Floats:
    p = np.minimum(p, 1.0 - 1e-9)
    return np.where(labels == 1, 1.0, maturity * (1.0 - p) / (1.0 - p * maturity))
