"""Field errors of many answers to the same rows, with what they share counted once."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from monocal.core.spaces import Floats

N_FLOOR = 3
"""Redraws of the labels behind a floor."""


@final
class FieldErrors:
    """MFRCE of many answers to the same rows, with everything that they share counted once.

    Equal to the metric `mfrce` of `evaluate`, which keeps sums for intervals as well and is slower for it.

    Arguments:
        labels: 0 or 1 of every row.
        features: Ids, one column per field.

    Example:
        >>> errors = FieldErrors(np.array([1.0, 0.0, 1.0, 1.0]), np.array([[1], [1], [2], [2]]))
        >>> errors.of(np.array([0.25, 0.25, 0.5, 0.5])).tolist()
        [0.5]
    """

    def __init__(self, labels: Any, features: Any) -> None:
        self.labels = labels
        self.values = [np.ascontiguousarray(features[:, place]) for place in range(features.shape[1])]
        self.n_rows = [np.bincount(values) for values in self.values]

    def of(self, answers: Floats, labels: Any = None) -> Floats:
        """Returns the error of every field; MFRCE is their mean."""
        labels = self.labels if labels is None else labels
        errors = []
        for values, n_rows in zip(self.values, self.n_rows, strict=True):
            positive = np.bincount(values, labels)
            kept = positive > 0
            gaps = np.abs(np.bincount(values, answers)[kept] - positive[kept]) / positive[kept]
            errors.append(float(np.average(gaps, weights=n_rows[kept])))
        return np.array(errors)

    def floor(self, answers: Floats) -> Floats:
        """Returns what perfect answers would have: labels are drawn from the answers themselves."""
        rng = np.random.default_rng(0)
        draws = [(rng.random(len(answers)) < answers).astype(np.float64) for _ in range(N_FLOOR)]
        floor: Floats = np.mean([self.of(answers, drawn) for drawn in draws], axis=0)
        return floor

    def excess(self, answers: Floats) -> float:
        """Returns MFRCE beyond its floor."""
        return float((self.of(answers) - self.floor(answers)).mean())
