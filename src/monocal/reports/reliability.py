"""Predicted against observed rates: the reliability diagram and the histogram of scores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from monocal.core.scores import Floats
from monocal.evaluation.cells import dispersion_of
from monocal.evaluation.result import Evaluation
from monocal.metrics import Forecast

MOST_BINS = 20
POSITIVES_PER_BIN = 25
HISTOGRAM_BINS = 40
LOG_AXIS_BELOW = 0.2
"""At rates below this most rows crowd into a corner of a straight axis."""


@final
@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Bins of equal mass of one forecast.

    Attributes:
        predicted: Mean prediction per bin.
        observed: Observed rate per bin.
        low: Lower end of the rate's interval.
        high: Upper end.
        weight: Rows per bin.
        positives: Positives per bin.
        noise: How far from the prediction a perfect forecaster's observed rate would lie by chance; beyond it exactly
            where the rate's interval misses the prediction.
    """

    predicted: Floats
    observed: Floats
    low: Floats
    high: Floats
    weight: Floats
    positives: Floats
    noise: Floats

    @property
    def noise_band(self) -> tuple[Floats, Floats]:
        """Between which rates a perfect forecaster with these predictions would lie."""
        return np.maximum(self.predicted - self.noise, 0.0), np.minimum(self.predicted + self.noise, 1.0)

    @property
    def n_outside(self) -> int:
        """Bins whose interval misses the prediction."""
        return int(self.is_outside.sum())

    @property
    def is_outside(self) -> NDArray[np.bool_]:
        """Which bins these are."""
        return (self.predicted < self.low) | (self.predicted > self.high)

    @property
    def pcoc(self) -> Floats:
        """Predicted over observed rate per bin; infinite without a positive."""
        with np.errstate(divide="ignore"):
            return self.predicted / self.observed

    @property
    def pcoc_interval(self) -> tuple[Floats, Floats]:
        """Both ends of its interval."""
        with np.errstate(divide="ignore"):
            return self.predicted / self.high, self.predicted / self.low


@final
@dataclass(frozen=True, eq=False)
class Reliability:
    """Both curves, and how the scores are spread.

    Attributes:
        curves: Bins of both forecasts.
        logarithmic: Whether rates are small enough to ask for logarithmic axes.
        edges: Edges of the histogram.
        histograms: Share of rows per histogram bin.
    """

    curves: dict[str, ReliabilityCurve]
    logarithmic: bool
    edges: Floats
    histograms: dict[str, Floats]


def reliability(metrics: Evaluation) -> Reliability:
    """Bins all forecasts of the rows into at most 20 bins of equal mass with about 25 positives or more each."""
    forecasts, after = {stage: found.rows for stage, found in metrics.stages.items()}, metrics.rows
    n_bins, total = bins_for(after.n_positive), after.total_weight
    logarithmic = asks_for_logarithms(after.n_positive / total if total else 0.0)
    edges = _histogram_edges(forecasts.values(), logarithmic)

    def histogram(forecast: Forecast) -> Floats:
        p = np.clip(forecast.probabilities, edges[0], edges[-1])
        counts = np.histogram(p, bins=edges, weights=forecast.weights)[0]
        return counts / total if total else counts.astype(np.float64)

    return Reliability(
        {
            stage: reliability_curve(forecast, n_bins, confidence=metrics.confidence, noise_of=after)
            for stage, forecast in forecasts.items()
        },
        logarithmic,
        edges,
        {stage: histogram(forecast) for stage, forecast in forecasts.items()},
    )


def bins_for(n_positive: float) -> int:
    """How many bins so many positives fill."""
    return int(np.clip(n_positive // POSITIVES_PER_BIN, 1, MOST_BINS))


def asks_for_logarithms(rate: float) -> bool:
    """Whether rates are so small that a straight axis would crowd them into a corner."""
    return 0.0 < rate < LOG_AXIS_BELOW


def reliability_curve(
    forecast: Forecast, n_bins: int = MOST_BINS, *, confidence: float = 0.95, noise_of: Forecast | None = None
) -> ReliabilityCurve:
    """Sorts rows by prediction, cuts them into bins of equal mass (ties stay together) and compares rates.

    Arguments:
        forecast: The rows; where they have groups, intervals are as wide as rows of a group ask for.
        n_bins: At most so many bins.
        confidence: Coverage of intervals.
        noise_of: The same rows with the forecast whose residuals show how dependent they are; None means this one.

    Example:
        >>> curve = reliability_curve(Forecast.of([0, 0, 1, 1], [0.1, 0.2, 0.6, 0.8]), n_bins=2)
        >>> curve.predicted.round(2).tolist(), curve.observed.tolist()
        ([0.15, 0.7], [0.0, 1.0])
    """
    labels, probabilities, weights = forecast.labels, forecast.probabilities, forecast.weights
    # ties aside: how much groups widen the noise hardly depends on where the cuts are
    edges = np.quantile(probabilities, np.arange(1, n_bins) / n_bins)
    dispersion = dispersion_of(noise_of or forecast, np.searchsorted(edges, probabilities, side="right"))
    order = np.argsort(probabilities, kind="stable")
    w = np.ones(labels.shape[0]) if weights is None else weights[order]
    p, y = probabilities[order], labels[order]
    mass = np.cumsum(w)
    cuts = np.searchsorted(mass, mass[-1] * np.arange(1, n_bins) / n_bins, side="left") + 1
    cuts = np.searchsorted(p, p[np.minimum(cuts, p.shape[0] - 1)], side="left")
    starts = np.unique(np.concatenate([[0], cuts[cuts < p.shape[0]]]))
    sums = np.stack([np.add.reduceat(column, starts) for column in (w, w * p, w * y, w * w)])
    weight, predicted, positives, squares = sums[:, sums[0] > 0.0]
    rate, mean, n_rows = positives / weight, predicted / weight, weight**2 / squares / dispersion
    low, high = wilson(rate, n_rows, confidence)
    noise = _quantile(confidence) * np.sqrt(mean * (1.0 - mean) / n_rows)
    return ReliabilityCurve(mean, rate, low, high, weight, positives, noise)


def wilson(rate: Floats, n_rows: Floats, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Wilson's interval of a rate, which stays inside [0, 1] and has a width even when nothing was observed.

    Example:
        >>> [round(float(end[0]), 4) for end in wilson(np.array([0.0]), np.array([100.0]))]
        [0.0, 0.037]
    """
    z = _quantile(confidence)
    centre = (rate + z * z / (2.0 * n_rows)) / (1.0 + z * z / n_rows)
    half = z / (1.0 + z * z / n_rows) * np.sqrt(rate * (1.0 - rate) / n_rows + z * z / (4.0 * n_rows**2))
    return np.clip(centre - half, 0.0, 1.0), np.clip(centre + half, 0.0, 1.0)


def _quantile(confidence: float) -> float:
    return float(special.ndtri(0.5 + 0.5 * confidence))


def _histogram_edges(forecasts: Iterable[Forecast], logarithmic: bool) -> Floats:
    ends = np.stack([np.quantile(forecast.probabilities, [0.001, 0.999]) for forecast in forecasts])
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    if logarithmic:
        low = max(low, 1e-7)
        return np.geomspace(low, max(high, low * 1.5), HISTOGRAM_BINS + 1)
    return np.linspace(low, max(high, low + 1e-3), HISTOGRAM_BINS + 1)
