"""Smoothed isotonic regression."""

from __future__ import annotations

from dataclasses import replace
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
from monocal.core.errors import InvalidInput
from monocal.core.samples import Samples
from monocal.core.spaces import Floats, sigmoid
from monocal.ops.operations import Ops, Values

_AUTHORS_EPSILON = 1e-4


@final
class SirCalibrator(BinnedCalibrator):
    """Bins the score, pools bins until their rates increase, and joins the bin centres with straight lines.

    The line starts at (0, 0) and ends at (1, 1). Without the flats of isotonic regression inside a bin, fewer
    ties; non-decreasing because the knots are.

    References:
        Deng et al. Calibrating user response predictions in online advertising. ECML-PKDD 2020.

    Arguments:
        n_bins: Number of bins; the UMC authors use 10 (Avazu) and 15 (AliCCP).
        binning: `"width"` or `"mass"`.
        variant: `"authors"` reproduces the UMC authors' script with its stale merge weights, its single pass and its
            slope epsilon; a score of 0 gets the last line's value, so order is not promised. It refuses data on which
            that script fails.

    Example:
        >>> calibrator = SirCalibrator(n_bins=2).fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1])
        >>> calibrator.predict([0.15, 0.3, 0.7]).round(3).tolist()
        [0.25, 0.5, 0.5]
    """

    name = "sir"
    class_tags = Tags(monotone="weak")

    def _tags(self) -> Tags:
        return replace(self.class_tags, monotone="weak" if self.variant == "monocal" else "none")

    def _fit(self, samples: Samples) -> None:
        check_variant(self.variant)
        p, w = sigmoid(samples.logits), samples.weights_or_ones
        edges = bin_edges(p, w, self.n_bins, self.binning)
        index, n_bins = bin_of(samples.logits, edges), len(edges) - 1
        counts: Floats = np.bincount(index, w, n_bins).astype(np.float64)
        positives = np.bincount(index, w * samples.known_labels, n_bins)
        low, high = np.full(n_bins, np.inf), np.full(n_bins, -np.inf)
        np.minimum.at(low, index, p)
        np.maximum.at(high, index, p)
        filled = counts > 0.0
        rates = positives[filled] / counts[filled]
        centres = 0.5 * (low[filled] + high[filled])
        if self.variant == "authors":
            self._take_authors_knots(rates, centres, counts[filled])
        else:
            self._take_knots(rates, centres, counts[filled])

    def _take_knots(self, rates: Floats, centres: Floats, counts: Floats) -> None:
        x, y = pool_violators(centres, rates, counts)
        knots, values = np.concatenate([[0.0], x, [1.0]]), np.concatenate([[0.0], y, [1.0]])
        distinct = np.concatenate([[True], np.diff(knots) > 1e-12])
        self.knots_: Floats = knots[distinct]
        self.rates_: Floats = values[distinct]

    def _take_authors_knots(self, rates: Floats, centres: Floats, counts: Floats) -> None:
        a, m, c = list(rates), list(centres), list(counts)
        i = 0
        while i < len(a) - 1:
            if a[i] > a[i + 1]:
                total = c[i] + c[i + 1]
                a[i] = (a[i] * c[i] + a[i + 1] * c[i + 1]) / total
                m[i] = (m[i] * c[i] + m[i + 1] * c[i + 1]) / total
                # the merged bin keeps its old count: that is the script's behaviour, not ours
                del a[i + 1], m[i + 1], c[i + 1]
            else:
                i += 1
        if np.any(np.diff(a) < 0.0):
            raise InvalidInput.of(
                "variant", '"authors" on these labels', "bin rates that one merging pass puts in order",
                'use variant="monocal", which pools until they are',
            )  # fmt: skip
        self.knots_ = np.array([0.0, *m, 1.0])
        self.rates_ = np.array([0.0, *a, 1.0])

    def _map(self, ops: Ops, logits: Values, _ids: Values | None) -> Values:
        p = ops.sigmoid(logits)
        if self.variant == "monocal":
            return ops.interpolate(p, self.knots_, self.rates_)
        slopes = np.diff(self.rates_) / (np.diff(self.knots_) + _AUTHORS_EPSILON)
        intercepts = self.rates_[1:] - slopes * self.knots_[1:]
        last = len(slopes) - 1
        segment = ops.minimum(ops.count_below(p, self.knots_[1:]), last)
        segment = ops.where(was_zero(ops, logits), last, segment)
        return ops.clip(ops.look_up(slopes, segment) * p + ops.look_up(intercepts, segment), 0.0, 1.0)


def pool_violators(centres: Floats, rates: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Merges neighbouring bins, weighted by count, while a left rate exceeds its right one; equal rates stay apart.

    Example:
        >>> x, y = pool_violators(np.array([0.1, 0.3, 0.5, 0.7]), np.array([0.2, 0.6, 0.5, 0.1]), np.ones(4))
        >>> x.round(3).tolist(), y.round(3).tolist()
        ([0.1, 0.5], [0.2, 0.4])
    """
    blocks: list[tuple[float, float, float]] = []
    for centre, rate, count in zip(centres, rates, counts, strict=True):
        block = (float(centre), float(rate), float(count))
        while blocks and blocks[-1][1] > block[1]:
            x, y, c = blocks.pop()
            total = c + block[2]
            block = ((x * c + block[0] * block[2]) / total, (y * c + block[1] * block[2]) / total, total)
        blocks.append(block)
    return np.array([x for x, _, _ in blocks]), np.array([y for _, y, _ in blocks])
