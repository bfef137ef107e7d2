"""Isotonic regression."""

from __future__ import annotations

from typing import final

import numpy as np

from monocal.calibrators.base import Calibrator
from monocal.calibrators.statistical.refreshing import kept_or_refused
from monocal.calibrators.statistical.refreshing.merged_curves import merge_day, weights_of_knots
from monocal.calibrators.tags import Tags
from monocal.core.samples import Samples
from monocal.core.spaces import Floats, logit, sigmoid
from monocal.ops.numpy_ops import NUMPY
from monocal.ops.operations import Ops, Values


@final
class IsotonicCalibrator(Calibrator):
    r"""Fits the non-decreasing function of the score that is closest to the labels.

    .. math:: \min_{g\ \text{non-decreasing}} \sum_i w_i (y_i - g(s_i))^2

    Solved by pooling adjacent violators; between the block ends the map is linear, outside the fitted range
    constant. Flat pieces make ties. The mean prediction equals the observed rate on the fitting rows.

    References:
        Zadrozny, Elkan. Transforming classifier scores into accurate multiclass probability estimates. 2002.

    Example:
        >>> calibrator = IsotonicCalibrator().fit([0.2, 0.2, 0.4, 0.6], [1, 0, 0, 1])
        >>> calibrator.predict([0.2, 0.4, 0.5, 0.6]).round(4).tolist()
        [0.3333, 0.3333, 0.6667, 1.0]
    """

    name = "isotonic"
    class_tags = Tags(monotone="weak", keeps_mean=True)

    def _fit(self, samples: Samples) -> None:
        scores, weights = sigmoid(samples.logits), samples.weights_or_ones
        self.knots_, self.rates_ = _solve(scores, samples.known_labels, weights)
        self.posterior_ = {"weights": weights_of_knots(self.knots_, self.rates_, scores, weights)}

    def _refresh(self, samples: Samples) -> None:
        state = kept_or_refused(vars(self).get("posterior_"), self.name)
        # the last intercept, if there is one, goes on with the curve
        scores, weights = sigmoid(samples.logits), samples.weights_or_ones
        knots, rates = _solve(scores, samples.known_labels, weights)
        found, self.posterior_, discount = merge_day(
            state,
            (self.knots_, self.rates_, state["weights"]),
            (knots, rates, weights_of_knots(knots, rates, scores, weights)),
            (scores, samples.known_labels, weights),
            _solve,
            NUMPY.interpolate,
        )
        before = float(np.average(self._predict(samples), weights=weights))
        self.knots_, self.rates_, _ = found
        after = float(np.average(self._predict(samples), weights=weights))
        level = float(np.diff(logit(np.array([before, after])))[0])
        self.moved_ = {"level": {"moved": level}, "kept": discount, "fields": []}

    def _map(self, ops: Ops, logits: Values, _ids: Values | None) -> Values:
        return ops.interpolate(ops.sigmoid(logits), self.knots_, self.rates_)


def _solve(scores: Floats, targets: Floats, weights: Floats) -> tuple[Floats, Floats]:
    from sklearn.isotonic import IsotonicRegression  # a second to load, and other methods go without

    solver = IsotonicRegression(y_min=0.0, y_max=1.0, increasing=True, out_of_bounds="clip")
    solver.fit(scores, targets, sample_weight=weights)
    return np.asarray(solver.X_thresholds_, dtype=np.float64), np.asarray(solver.y_thresholds_, dtype=np.float64)
