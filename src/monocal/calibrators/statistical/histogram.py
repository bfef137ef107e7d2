"""Histogram binning."""

from __future__ import annotations

from typing import final

import numpy as np

from monocal.calibrators.statistical.binned import BinnedCalibrator
from monocal.calibrators.statistical.binning import (
    bin_edges,
    bin_of,
    check_variant,
    was_zero,
)
from monocal.calibrators.tags import Tags
from monocal.core.samples import Samples
from monocal.core.spaces import Floats, logit, sigmoid
from monocal.ops.operations import Ops, Values


@final
class HistogramCalibrator(BinnedCalibrator):
    """Replaces a score by the observed rate of its bin.

    Bins are `(low, high]`. An empty bin takes the value interpolated between its neighbours' centres. Nothing
    keeps bin rates in order, so the map is not monotone, and it has at most `n_bins` distinct values, so AUC drops.
    The mean prediction equals the observed rate on the fitting rows.

    References:
        Zadrozny, Elkan. Obtaining calibrated probability estimates from decision trees and naive Bayesian
        classifiers. 2001.

    Arguments:
        n_bins: Number of bins.
        binning: `"width"` for equally wide bins, `"mass"` for equally filled ones.
        variant: `"authors"` reproduces the UMC authors' script: empty bins give 0 and a score of 0 gets the *last*
            bin's value.

    Example:
        >>> calibrator = HistogramCalibrator(n_bins=2).fit([0.1, 0.2, 0.3, 0.8], [0, 1, 0, 1])
        >>> calibrator.rates_.round(3).tolist()
        [0.333, 1.0]
    """

    name = "histogram"
    class_tags = Tags(monotone="none", keeps_mean=True)

    def _fit(self, samples: Samples) -> None:
        check_variant(self.variant)
        p, w = sigmoid(samples.logits), samples.weights_or_ones
        self.edges_ = bin_edges(p, w, self.n_bins, self.binning)
        index = bin_of(samples.logits, self.edges_)
        n_bins = len(self.edges_) - 1
        counts = np.bincount(index, w, n_bins)
        positives = np.bincount(index, w * samples.known_labels, n_bins)
        filled = counts > 0.0
        rates = np.divide(positives, counts, out=np.zeros(n_bins), where=filled)
        if self.variant == "monocal" and not np.all(filled):
            centres = 0.5 * (self.edges_[1:] + self.edges_[:-1])
            rates = np.interp(centres, centres[filled], rates[filled])
        self.rates_: Floats = rates

    def _map(self, ops: Ops, logits: Values, _ids: Values | None) -> Values:
        place = ops.count_below(logits, logit(self.edges_[1:-1]))
        if self.variant == "authors":
            place = ops.where(was_zero(ops, logits), len(self.edges_) - 2, place)
        return ops.look_up(self.rates_, place)
