"""Isotonic regression."""

from __future__ import annotations

from typing import final

import numpy as np
from sklearn.isotonic import IsotonicRegression

from monocal.calibrators.base import Calibrator
from monocal.calibrators.onnx.builder import GraphBuilder
from monocal.calibrators.statistical.broken_line import interpolate
from monocal.calibrators.tags import Tags
from monocal.core.samples import Samples
from monocal.core.spaces import Floats, sigmoid


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
        solver = IsotonicRegression(y_min=0.0, y_max=1.0, increasing=True, out_of_bounds="clip")
        solver.fit(sigmoid(samples.logits), samples.known_labels, sample_weight=samples.weights)
        self.knots_: Floats = np.asarray(solver.X_thresholds_, dtype=np.float64)
        self.rates_: Floats = np.asarray(solver.y_thresholds_, dtype=np.float64)

    def _predict(self, samples: Samples) -> Floats:
        return interpolate(sigmoid(samples.logits), self.knots_, self.rates_)

    def _write_onnx(self, graph: GraphBuilder, logits: str, _features: str) -> str:
        return graph.interpolate(graph.sigmoid(logits), self.knots_, self.rates_)
