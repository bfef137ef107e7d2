"""AdaCalib's statistics of rows that lie in several shards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.neural.adacalib.statistics import MIN_ROWS_PER_BIN, ValueStatistics, statistics_at_knots
from monocal.core.shard_order import values_at
from monocal.core.spaces import Floats
from monocal.core.team import Shards

_BLOCK_ROWS = 1 << 18


def statistics_of_shards(
    scores: Floats,
    labels: Floats,
    values: NDArray[Any],
    n_values: int,
    n_bins: int,
    weights: Floats | None,
    shards: Shards,
) -> ValueStatistics:
    """Returns what `value_statistics` returns for the rows of all shards; sums differ by rounding.

    Edges are found by bisection, those of all values at once: 64 reductions of two numbers per inner edge of a value
    with enough rows. An edge lies between the row at which its share of the weight is reached and the one that a
    weight of 1 reaches next, so a row of weight k counts as k rows; `value_statistics` takes the next row there.

    Arguments:
        scores: As for `value_statistics`, of this member's rows, like the others.
        labels: 0 or 1.
        values: The field's id of every row.
        n_values: How many ids the field has.
        n_bins: Number of bins K.
        weights: How often each row counts.
        shards: How the rows are cut and with whom they are added up.
    """
    rows = _Rows(scores, labels, np.ones_like(scores) if weights is None else weights, n_bins, shards)
    everything = np.zeros(len(scores), dtype=np.int64)
    whole = rows.edges(everything, 1)
    if not (np.diff(whole) > 0).all():
        whole = np.linspace(0.0, 1.0, n_bins + 1)[None]
    edges = np.repeat(whole, n_values, axis=0)
    statistics = np.repeat(rows.statistics(everything, whole), n_values, axis=0)
    own = np.flatnonzero(rows.masses(values.astype(np.int64), n_values) >= MIN_ROWS_PER_BIN * n_bins)
    found = rows.edges(_places(own, n_values)[values], len(own))
    distinct = (np.diff(found, axis=1) > 0).all(axis=1)
    own, found = own[distinct], found[distinct]
    edges[own], statistics[own] = found, rows.statistics(_places(own, n_values)[values], found)
    return ValueStatistics(edges, statistics)


def _places(chosen: NDArray[np.int64], n_values: int) -> NDArray[np.int64]:
    """Returns every value's place among the chosen ones, -1 for others."""
    places = np.full(n_values, -1)
    places[chosen] = np.arange(len(chosen))
    return places


@final
@dataclass(frozen=True)
class _Rows:
    """A member's rows, summed up by groups; group -1 takes no part."""

    scores: Floats
    labels: Floats
    mass: Floats
    n_bins: int
    shards: Shards

    def masses(self, groups: NDArray[np.int64], n_groups: int) -> Floats:
        sums = [
            [np.bincount(groups[part] + 1, self.mass[part], minlength=n_groups + 1)[1:].astype(np.float64)]
            for _, part in self.shards.parts()
        ]
        return self.shards.add(sums)[0]

    def edges(self, groups: NDArray[np.int64], n_groups: int) -> Floats:
        """Returns edges of equal mass, `(groups, K + 1)`; some may coincide where scores repeat."""
        total = self.masses(groups, n_groups)[:, None]
        at = total * np.arange(1, self.n_bins) / self.n_bins
        wanted = np.concatenate([at, np.minimum(at + 1.0, total)], axis=1)
        below, above = np.split(values_at(wanted, self.scores, groups, self.mass, self.shards), 2, axis=1)
        nothing = np.zeros((n_groups, 1))
        return np.concatenate([nothing, (below + above) / 2.0, nothing + 1.0], axis=1)

    def statistics(self, groups: NDArray[np.int64], edges: Floats) -> Floats:
        """Returns the statistics of every knot, `(groups, K + 1, 4)`."""
        shape = len(edges), self.n_bins
        sums = []
        for _, part in self.shards.parts():
            own = [np.zeros(len(edges) * self.n_bins) for _ in range(3)]
            for start in range(part.start, part.stop, _BLOCK_ROWS):
                block = slice(start, min(start + _BLOCK_ROWS, part.stop))
                taking = groups[block] >= 0
                group, scores, mass = groups[block][taking], self.scores[block][taking], self.mass[block][taking]
                bins = group * self.n_bins + np.sum(scores[:, None] >= edges[group, 1:-1], axis=1)
                for total, column in zip(own, (mass, mass * self.labels[block][taking], mass * scores), strict=True):
                    total += np.bincount(bins, column, minlength=len(total))
            sums.append([total.reshape(shape) for total in own])
        return statistics_at_knots(edges, *self.shards.add(sums))
