"""Methods that start from rates of bins or blocks of the score: histogram, isotonic regression, smoothed isotonic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.calibrators.base import Calibrator
from monocal.calibrators.contract import Tags
from monocal.core.dataset import Dataset
from monocal.core.scores import Floats, log_loss, logit, sigmoid
from monocal.ops.numpy_ops import NUMPY
from monocal.ops.operations import Ops, Values
from monocal.wide.refresh import EVIDENCE_KEPT

Binning = Literal["width", "mass"]


def bin_edges(probabilities: Floats, weights: Floats, n_bins: int, binning: Binning) -> Floats:
    """Returns `n_bins + 1` edges from 0 to 1: equally wide, or with equal weight in each bin.

    Example:
        >>> bin_edges(np.array([0.1, 0.2, 0.3, 0.9]), np.ones(4), 2, "mass").tolist()
        [0.0, 0.2, 1.0]
    """
    if binning == "width":
        return np.linspace(0.0, 1.0, n_bins + 1)
    order = np.argsort(probabilities, kind="stable")
    mass = np.cumsum(weights[order])
    wanted = mass[-1] * np.arange(1, n_bins) / n_bins
    inner = probabilities[order][np.searchsorted(mass, wanted * (1.0 - 1e-12))]
    return np.unique(np.concatenate([[0.0], inner, [1.0]]))


def bin_of(logits: Floats, edges: Floats) -> NDArray[np.int64]:
    """Returns the bin `(low, high]` of every row, 0 … K − 1; a score of exactly 0 is in the first.

    Edges are taken to logit space, as the scores were, so a score that equals an edge still does.
    """
    return np.digitize(logits, logit(edges[1:-1]), right=True)


@dataclass(kw_only=True, eq=False, repr=False)
class BinnedCalibrator(Calibrator):
    """A method that starts from bins of the score.

    Arguments:
        n_bins: Number of bins.
        binning: `"width"` for equally wide bins, `"mass"` for equally filled ones.
    """

    n_bins: int = 10
    binning: Binning = "width"


@final
class Histogram(BinnedCalibrator):
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

    Example:
        >>> calibrator = Histogram(n_bins=2).fit([0.1, 0.2, 0.3, 0.8], [0, 1, 0, 1])
        >>> calibrator.rates_.round(3).tolist()
        [0.333, 1.0]
    """

    name = "histogram"
    class_tags = Tags(monotone="none", keeps_mean=True)

    def _fit(self, data: Dataset) -> None:
        p, w = sigmoid(data.z), data.weights
        self.edges_ = bin_edges(p, w, self.n_bins, self.binning)
        index = bin_of(data.z, self.edges_)
        n_bins = len(self.edges_) - 1
        counts = np.bincount(index, w, n_bins)
        positives = np.bincount(index, w * data.labels, n_bins)
        filled = counts > 0.0
        rates = np.divide(positives, counts, out=np.zeros(n_bins), where=filled)
        if not np.all(filled):
            centres = 0.5 * (self.edges_[1:] + self.edges_[:-1])
            rates = np.interp(centres, centres[filled], rates[filled])
        self.rates_: Floats = rates

    def _map(self, ops: Ops, logits: Values, _ids: Values | None) -> Values:
        return ops.look_up(self.rates_, ops.count_below(logits, logit(self.edges_[1:-1])))


@final
class Isotonic(Calibrator):
    r"""Fits the non-decreasing function of the score that is closest to the labels.

    .. math:: \min_{g\ \text{non-decreasing}} \sum_i w_i (y_i - g(s_i))^2

    Solved by pooling adjacent violators; between the block ends the map is linear, outside the fitted range
    constant. Flat pieces make ties. The mean prediction equals the observed rate on the fitting rows.

    References:
        Zadrozny, Elkan. Transforming classifier scores into accurate multiclass probability estimates. 2002.

    Example:
        >>> calibrator = Isotonic().fit([0.2, 0.2, 0.4, 0.6], [1, 0, 0, 1])
        >>> calibrator.predict([0.2, 0.4, 0.5, 0.6]).round(4).tolist()
        [0.3333, 0.3333, 0.6667, 1.0]
    """

    name = "isotonic"
    class_tags = Tags(monotone="weak", keeps_mean=True)

    def _fit(self, data: Dataset) -> None:
        scores, weights = sigmoid(data.z), data.weights
        self.knots_, self.rates_ = _solve(scores, data.labels, weights)
        self.posterior_ = {"weights": weights_of_knots(self.knots_, self.rates_, scores, weights)}

    def _refresh(self, data: Dataset) -> None:
        # the last intercept, if there is one, goes on with the curve
        scores, weights = sigmoid(data.z), data.weights
        knots, rates = _solve(scores, data.labels, weights)
        found, self.posterior_, discount = merge_day(
            self.posterior_,
            (self.knots_, self.rates_, self.posterior_["weights"]),
            (knots, rates, weights_of_knots(knots, rates, scores, weights)),
            (scores, data.labels, weights),
            _solve,
            NUMPY.interpolate,
        )
        before = float(np.average(self._predict(data), weights=weights))
        self.knots_, self.rates_, _ = found
        after = float(np.average(self._predict(data), weights=weights))
        level = float(np.diff(logit(np.array([before, after])))[0])
        self.last_update_ = {"level": {"moved": level}, "kept": discount, "fields": []}

    def _never_negative(self) -> Mapping[str, ArrayLike]:
        return {"a step of knots_": np.diff(self.knots_), "a step of rates_": np.diff(self.rates_)}

    def _map(self, ops: Ops, logits: Values, _ids: Values | None) -> Values:
        return ops.interpolate(ops.sigmoid(logits), self.knots_, self.rates_)


def _solve(scores: Floats, targets: Floats, weights: Floats) -> tuple[Floats, Floats]:
    from sklearn.isotonic import IsotonicRegression  # a second to load, and other methods go without

    solver = IsotonicRegression(y_min=0.0, y_max=1.0, increasing=True, out_of_bounds="clip")
    solver.fit(scores, targets, sample_weight=weights)
    return np.asarray(solver.X_thresholds_, dtype=np.float64), np.asarray(solver.y_thresholds_, dtype=np.float64)


@final
class Sir(BinnedCalibrator):
    """Bins the score, pools bins until their rates increase, and joins the bin centres with straight lines.

    The line starts at (0, 0) and ends at (1, 1). Without the flats of isotonic regression inside a bin, fewer
    ties; non-decreasing because the knots are.

    References:
        Deng et al. Calibrating user response predictions in online advertising. ECML-PKDD 2020.

    Arguments:
        n_bins: Number of bins; the UMC authors use 10 (Avazu) and 15 (AliCCP).
        binning: `"width"` or `"mass"`.

    Example:
        >>> calibrator = Sir(n_bins=2).fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1])
        >>> calibrator.predict([0.15, 0.3, 0.7]).round(3).tolist()
        [0.25, 0.5, 0.5]
    """

    name = "sir"
    class_tags = Tags(monotone="weak")

    def _fit(self, data: Dataset) -> None:
        p, w = sigmoid(data.z), data.weights
        edges = bin_edges(p, w, self.n_bins, self.binning)
        index, n_bins = bin_of(data.z, edges), len(edges) - 1
        counts: Floats = np.bincount(index, w, n_bins).astype(np.float64)
        positives = np.bincount(index, w * data.labels, n_bins)
        low, high = np.full(n_bins, np.inf), np.full(n_bins, -np.inf)
        np.minimum.at(low, index, p)
        np.maximum.at(high, index, p)
        filled = counts > 0.0
        rates = positives[filled] / counts[filled]
        centres = 0.5 * (low[filled] + high[filled])
        x, y = pool_violators(centres, rates, counts[filled])
        knots, values = np.concatenate([[0.0], x, [1.0]]), np.concatenate([[0.0], y, [1.0]])
        distinct = np.concatenate([[True], np.diff(knots) > 1e-12])
        self.knots_: Floats = knots[distinct]
        self.rates_: Floats = values[distinct]

    def _never_negative(self) -> Mapping[str, ArrayLike]:
        return {"a step of knots_": np.diff(self.knots_), "a step of rates_": np.diff(self.rates_)}

    def _map(self, ops: Ops, logits: Values, _ids: Values | None) -> Values:
        return ops.interpolate(ops.sigmoid(logits), self.knots_, self.rates_)


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


# Curves that are merged day by day: blocks with weights, older ones counting less

DISCOUNTS = np.array([1.0, 0.9, 0.7, 0.4, 0.0])
"""Shares of the earlier weight that count beside the newest rows: candidates that run side by side."""

Curve = tuple[Floats, Floats, Floats]
"""Knots, rates there, and how much weight stands behind each."""

Solve = Callable[[Floats, Floats, Floats], tuple[Floats, Floats]]


def weights_of_knots(knots: Floats, rates: Floats, scores: Floats, weights: Floats) -> Floats:
    """Returns the weight of the rows behind each knot; a level stretch shares its rows between its two ends.

    Example:
        >>> scores = np.array([0.1, 0.2, 0.3, 0.6])
        >>> weights_of_knots(np.array([0.1, 0.3, 0.6]), np.array([0.2, 0.2, 0.9]), scores, np.ones(4)).tolist()
        [1.5, 1.5, 1.0]
    """
    place = np.clip(np.searchsorted(knots, scores, side="right") - 1, 0, knots.size - 1)
    found: Any = np.bincount(place, weights, knots.size)
    same = np.flatnonzero(rates[1:] == rates[:-1])
    both = 0.5 * (found[same] + found[same + 1])
    found[same], found[same + 1] = both, both
    result: Floats = found
    return result


def merge_day(
    state: dict[str, NDArray[Any]],
    fitted: Curve,
    today: Curve,
    rows: tuple[Floats, Floats, Floats],
    solve: Solve,
    predict: Callable[[Floats, Floats, Floats], Floats],
) -> tuple[Curve, dict[str, NDArray[Any]], float]:
    """Returns the curve after a day, what is kept for the next, and the discount in use.

    Every candidate is charged the log-loss of its curve of yesterday on today's rows, then takes today's blocks beside
    its own, discounted ones. The one with the least loss so far gives the curve.

    Arguments:
        state: What the last merge kept; the curve in use if there was none.
        fitted: The curve in use.
        today: The curve of today's rows alone.
        rows: Today's scores, labels and weights.
        solve: The monotone curve of weighted points: knots and rates.
        predict: Rates at scores, from knots and rates.
    """
    scores, labels, weights = rows
    curves, losses = _candidates(state, fitted)
    losses = EVIDENCE_KEPT * losses
    following: list[Curve] = []
    for number, (knots, rates, mass) in enumerate(curves):
        losses[number] += weights.sum() * log_loss(logit(predict(scores, knots, rates)), labels, weights)
        kept = mass * DISCOUNTS[number]
        x, y, w = (np.concatenate(pair) for pair in zip((knots, rates, kept), today, strict=True))
        new_knots, new_rates = solve(x[w > 0.0], y[w > 0.0], w[w > 0.0])
        following.append((new_knots, new_rates, weights_of_knots(new_knots, new_rates, x, w)))
    best = int(np.argmin(losses))
    arrays = {
        name: np.concatenate(parts)
        for name, parts in zip(("knots", "rates", "weights"), zip(*following, strict=True), strict=True)
    }
    arrays["sizes"] = np.array([knots.size for knots, _, _ in following])
    arrays["losses"] = losses
    return following[best], arrays, float(DISCOUNTS[best])


def _candidates(state: dict[str, NDArray[Any]], fitted: Curve) -> tuple[list[Curve], Floats]:
    if "sizes" not in state:
        return [fitted] * DISCOUNTS.size, np.zeros(DISCOUNTS.size)
    ends = np.cumsum(state["sizes"])[:-1]
    parts = [np.split(state[name], ends) for name in ("knots", "rates", "weights")]
    return [(x, y, w) for x, y, w in zip(*parts, strict=True)], state["losses"]
