"""The per-value statistics that AdaCalib draws its lines from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.core.scores import Floats, logit

MIN_ROWS_PER_BIN = 50


@dataclass(frozen=True)
class ValueStatistics:
    """Bin edges and knot statistics of every value of one field, for one number of bins.

    Attributes:
        edges: `(V, K + 1)`, increasing from 0 to 1.
        statistics: `(V, K + 1, 4)`: logit of the smoothed positive rate, ln(1 + rows), ln(1 + positives) and logit
            of the mean score, over the bins beside the knot.
    """

    edges: Floats
    statistics: Floats


def value_statistics(
    scores: Floats,
    labels: Floats,
    values: NDArray[Any],
    n_values: int,
    n_bins: int,
    weights: Floats | None = None,
) -> ValueStatistics:
    """Cuts every value's rows into bins of equal mass and summarises them.

    A value with fewer than 50 rows per bin, or whose scores repeat too much for distinct edges, gets the edges and
    the statistics of all rows; so does id 0 when no row has it.

    Arguments:
        scores: Probabilities of the ranker.
        labels: 0 or 1.
        values: The field's id of every row, in [0, n_values).
        n_values: How many ids the field has.
        n_bins: Number of bins K.
        weights: How often each row counts.

    Example:
        >>> scores = np.linspace(0.05, 0.95, 400)
        >>> result = value_statistics(scores, (scores > 0.5) * 1.0, np.zeros(400, int), 2, n_bins=2)
        >>> result.edges[0].round(2).tolist(), result.statistics.shape
        ([0.0, 0.5, 1.0], (2, 3, 4))
        >>> result.statistics[0, :, 0].round(1).tolist()  # no positives, half, all positives
        [-5.3, 0.0, 5.3]
    """
    mass = np.ones_like(scores) if weights is None else weights
    whole = _summary(scores, labels, mass, n_bins)
    if whole is None:
        whole = _summary_of(np.linspace(0.0, 1.0, n_bins + 1), scores, labels, mass)
    edges = np.repeat(whole[0][None], n_values, axis=0)
    statistics = np.repeat(whole[1][None], n_values, axis=0)
    order = np.argsort(values, kind="stable")
    starts = np.searchsorted(values[order], np.arange(n_values + 1))
    for value in range(n_values):
        rows = order[starts[value] : starts[value + 1]]
        if mass[rows].sum() >= MIN_ROWS_PER_BIN * n_bins:
            own = _summary(scores[rows], labels[rows], mass[rows], n_bins)
            if own is not None:
                edges[value], statistics[value] = own
    return ValueStatistics(edges, statistics)


def _summary(scores: Floats, labels: Floats, mass: Floats, n_bins: int) -> tuple[Floats, Floats] | None:
    order = np.argsort(scores, kind="stable")
    cumulative = np.cumsum(mass[order])
    cuts = np.searchsorted(cumulative, cumulative[-1] * np.arange(1, n_bins) / n_bins)
    ranked, last = scores[order], len(scores) - 1
    between = (ranked[np.minimum(cuts, last)] + ranked[np.minimum(cuts + 1, last)]) / 2.0
    edges = np.concatenate([[0.0], between, [1.0]])
    return _summary_of(edges, scores, labels, mass) if (np.diff(edges) > 0).all() else None


def _summary_of(edges: Floats, scores: Floats, labels: Floats, mass: Floats) -> tuple[Floats, Floats]:
    n_bins = len(edges) - 1
    bins = np.clip(np.searchsorted(edges, scores, side="right") - 1, 0, n_bins - 1)

    def per_bin(column: Floats) -> Floats:
        return np.asarray(np.bincount(bins, weights=column, minlength=n_bins), dtype=np.float64)

    return edges, statistics_at_knots(edges, per_bin(mass), per_bin(mass * labels), per_bin(mass * scores))


def statistics_at_knots(edges: Floats, rows_of_bins: Floats, positives_of_bins: Floats, sums_of_bins: Floats) -> Floats:
    """Returns the statistics of every knot, from rows, positives and sums of scores of the bins on both sides.

    Arguments:
        edges: `(…, K + 1)`.
        rows_of_bins: `(…, K)`, like the others.
        positives_of_bins: How many of them are positive.
        sums_of_bins: Sums of their scores.
    """

    def beside_knots(per_bin: Floats) -> Floats:
        nothing = np.zeros((*per_bin.shape[:-1], 1))
        both: Floats = np.concatenate([per_bin, nothing], axis=-1) + np.concatenate([nothing, per_bin], axis=-1)
        return both

    rows, positives, total = (beside_knots(column) for column in (rows_of_bins, positives_of_bins, sums_of_bins))
    mean = np.where(rows > 0, total / np.maximum(rows, 1e-300), edges)
    return np.stack(
        [logit((positives + 1.0) / (rows + 2.0)), np.log1p(rows), np.log1p(positives), logit(mean)], axis=-1
    )
