"""Scores to logits with as few steps as a request of one candidate can bear."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.core.spaces import LOGIT_LIMIT, SCORE_EPSILON, Floats, ScoreSpace, to_logits
from monocal.serving.engine.range_checks import RangeChecks, range_checks

_NUMBERS = {float, int}
_BY_NUMPY = range_checks(is_compiled=False)


def quick_logits(scores: Any, scores_are: ScoreSpace, task: str, checks: RangeChecks = _BY_NUMPY) -> Floats:
    """Returns the numbers of `core.spaces.to_logits`, to the last bit, in a fifth of its time for one row.

    Whatever looks wrong is handed to `to_logits`, which knows what to say about it.

    Example:
        >>> scores = [0.0, 0.2, 1.0]
        >>> bool((quick_logits(scores, "probability", "click") == to_logits(scores, "probability")).all())
        True
        >>> quick_logits([0.2, float("nan")], "probability", "click")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: scores of 'click': got nan at row 1 (1 such rows); expected finite...
    """
    if type(scores) is list:
        if len(scores) == 1 and type(scores[0]) is float:
            quick = _logit(scores[0], scores_are)
            if quick is not None:
                return quick
        if not _NUMBERS.issuperset(map(type, scores)):
            _refuse_other_types(scores, task)
        values = np.array(scores, dtype=np.float64)
    elif isinstance(scores, np.ndarray) and scores.dtype.kind in "fiu":
        values = scores.astype(np.float64, copy=False)
        if not values.flags.carray:
            values = values.copy()  # compiled loops would be compiled anew for a strided or a read-only column
    elif isinstance(scores, Sequence | np.ndarray) and not isinstance(scores, str | bytes):
        return quick_logits(list(scores), scores_are, task, checks)
    else:
        raise InvalidInput.of(
            f"scores of {task!r}", f"a {type(scores).__name__}", "a list of numbers", "send one number per candidate"
        )
    if values.ndim != 1 or values.shape[0] == 0:
        return to_logits(values, scores_are, f"scores of {task!r}")
    found = _logits_in_range(values, scores_are, checks)
    if found is not None:
        return found
    if scores_are == "logit":
        return to_logits(values, scores_are, f"scores of {task!r}")
    return to_logits(values, scores_are, f"scores of {task!r}", "send probabilities, on which the model was fitted")


def joint_logits(columns: Collection[Any], scores_are: ScoreSpace, checks: RangeChecks = _BY_NUMPY) -> Floats | None:
    """Returns the logits of several tasks `(tasks, rows)`, each row that of `quick_logits`, to the last bit.

    None where `quick_logits` has to look at one task after the other: columns of other types, of different lengths or
    without a row, and numbers out of range.

    Example:
        >>> joint_logits([[0.5, 0.2], np.array([0.8, 0.5])], "probability").round(4).tolist()
        [[0.0, -1.3863], [1.3863, 0.0]]
        >>> joint_logits([[0.5, 0.2], [0.8]], "probability") is None
        True
    """
    values: Floats = np.empty(0)
    n_rows = 0
    for place, column in enumerate(columns):
        if type(column) is np.ndarray:
            if column.ndim != 1 or column.dtype.kind not in "fiu":
                return None
        elif type(column) is not list or not _NUMBERS.issuperset(map(type, column)):
            return None
        if place == 0:
            n_rows = len(column)
            values = np.empty(len(columns) * n_rows)
        elif len(column) != n_rows:
            return None
        values[place * n_rows : (place + 1) * n_rows] = column
    found = _logits_in_range(values, scores_are, checks) if n_rows else None
    return None if found is None else found.reshape(len(columns), n_rows)


def _logits_in_range(values: Floats, scores_are: ScoreSpace, checks: RangeChecks) -> Floats | None:
    """Returns logits; None if numbers are not finite or out of the range of their space."""
    if scores_are == "logit":
        return values if checks.all_within(values, -LOGIT_LIMIT, LOGIT_LIMIT) else None
    if not checks.all_within(values, SCORE_EPSILON, 1.0 - SCORE_EPSILON):
        if not checks.all_within(values, 0.0, 1.0):
            return None
        values = np.minimum(np.maximum(values, SCORE_EPSILON), 1.0 - SCORE_EPSILON)
    result: Floats = np.log(values)
    result -= np.log1p(-values)
    return result


def _logit(score: float, scores_are: ScoreSpace) -> Floats | None:
    """Returns the logit of one number by the functions that take arrays, at a fifth of their time; None if it is none
    or needs to be bounded."""
    if scores_are == "logit":
        return np.array([score]) if -LOGIT_LIMIT <= score <= LOGIT_LIMIT else None
    if not SCORE_EPSILON <= score <= 1.0 - SCORE_EPSILON:
        return None
    result = np.empty(1)
    result[0] = np.log(score) - np.log1p(-score)
    return result


def _refuse_other_types(scores: list[Any], task: str) -> None:
    for row, value in enumerate(scores):
        if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
            shown = "null" if value is None else f"a {type(value).__name__}"
            raise InvalidInput.of(
                f"scores of {task!r}", f"{shown} at row {row}", "numbers", "send one number per candidate"
            )
