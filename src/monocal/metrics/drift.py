"""Before labels come: how far scores have moved since the fit, and what a forecast expects of itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from monocal.core.scores import Floats, log_loss, logit


class StabilityIndex(NamedTuple):
    """A population stability index.

    Attributes:
        value: The index; NaN when either side has no rows.
        noise: What chance alone would show if nothing had moved; NaN likewise.
    """

    value: float
    noise: float


def stability_index(reference_counts: ArrayLike, counts: ArrayLike) -> StabilityIndex:
    r"""Compares the counts of two samples in the same bins.

    .. math:: \mathrm{PSI} = \sum_i (q_i - p_i) \ln \frac{q_i}{p_i}, \qquad
              p_i = \frac{a_i + 1/2}{\sum_j (a_j + 1/2)}, \quad q_i = \frac{b_i + 1/2}{\sum_j (b_j + 1/2)}

    Half a row is added to every bin of both samples, so that an empty bin weighs as much as the sample size warrants:
    with a fixed small share in its place the index of the same traffic would depend on that share. Swapping the samples
    changes nothing. If both come from one distribution, the index of n and m rows in k bins is about
    :math:`(k-1)(1/n + 1/m)`, which is the noise. Below 0.1 a distribution is usually called stable, above 0.25 shifted.

    Arguments:
        reference_counts: Rows per bin in the first sample, such as those of the fit.
        counts: Rows per bin in the second, such as recent ones; they may be weighted.

    References:
        Yurdakul and Naranjo. Statistical properties of the population stability index. 2020.

    Example:
        >>> stability_index([500, 500], [50, 50]).value
        0.0
        >>> moved = stability_index([500, 500], [90, 10])
        >>> round(moved.value, 2), round(moved.noise, 3)
        (0.85, 0.011)
    """
    a, b = np.asarray(reference_counts, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    n, m = float(a.sum()), float(b.sum())
    if n <= 0.0 or m <= 0.0:
        return StabilityIndex(math.nan, math.nan)
    p, q = (a + 0.5) / (n + 0.5 * a.size), (b + 0.5) / (m + 0.5 * b.size)
    return StabilityIndex(float(np.sum((q - p) * np.log(q / p))), (a.size - 1) * (1.0 / n + 1.0 / m))


def shift_since_fit(facts: Mapping[str, Any], logits: Floats, weights: Floats | None = None) -> StabilityIndex:
    """Compares scores with those that a model was fitted on; NaN where it knows no two bins of them.

    Arguments:
        facts: What a model knows of a task's fit: `score_edges_logit`, `score_shares` and `n_rows`.
        logits: The scores at hand.
        weights: How often each counts; None means once.
    """
    shares = np.asarray(facts.get("score_shares", ()), dtype=np.float64)
    if shares.size < 2:
        return StabilityIndex(math.nan, math.nan)
    bins = np.searchsorted(np.asarray(facts["score_edges_logit"], dtype=np.float64), logits)
    return stability_index(shares * facts["n_rows"], np.bincount(bins, weights, minlength=shares.size))


class Expected(NamedTuple):
    """What a forecast expects of itself. True only as far as the forecast is calibrated on these rows.

    Attributes:
        rate: Share of positives.
        log_loss: Mean log-loss.
        auc: Area under the ROC curve; NaN if all forecasts are 0 or all are 1.
    """

    rate: float
    log_loss: float
    auc: float


def expected_performance(probabilities: Floats) -> Expected:
    r"""Returns rate, log-loss and AUC of labels that would be drawn from the forecast.

    .. math:: \bar p, \qquad -\frac1n \sum_i p_i \ln p_i + (1-p_i) \ln (1-p_i), \qquad
              \frac{\sum_{ij} p_i (1-p_j)\,([p_i > p_j] + \frac12 [p_i = p_j])}{\sum_{ij} p_i (1-p_j)}

    The AUC is the ratio of expectations, which for many rows is the expectation of the ratio.

    Example:
        >>> found = expected_performance(np.array([0.1, 0.1, 0.4, 0.4]))
        >>> round(found.rate, 2), round(found.log_loss, 3), round(found.auc, 3)
        (0.25, 0.499, 0.7)
    """
    loss = log_loss(logit(probabilities), probabilities)
    values, places = np.unique(probabilities, return_inverse=True)
    positives = np.bincount(places, weights=probabilities)
    negatives = np.bincount(places, weights=1.0 - probabilities)
    below = np.cumsum(negatives) - negatives
    pairs = positives.sum() * negatives.sum()
    auc = float(np.sum(positives * (below + 0.5 * negatives)) / pairs) if pairs > 0.0 and values.size else float("nan")
    return Expected(float(probabilities.mean()), loss, auc)
