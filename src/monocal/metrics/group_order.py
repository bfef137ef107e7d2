"""Rows in the order of their predictions, group by group: the state behind the grouped AUC."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.spaces import Floats
from monocal.metrics.forecast import Forecast
from monocal.metrics.order import OrderSummary, add_runs, dense_ranks, grid_cell, run_lengths, run_starts
from monocal.metrics.replay import Blocks, Replay, Rows
from monocal.metrics.sums import SumReplay, Sums, Term

_RANK_BITS = 32
_RANK_MASK = (1 << _RANK_BITS) - 1


@final
@dataclass(frozen=True, eq=False)
class GroupRanks:
    r"""Per group: rows W, positives P, and :math:`R=\sum_{\text{positives}}` of the relative mid-rank in (0, 1).

    The group's AUC is :math:`(R W - P^2/2) / (P (W-P))`.
    """

    weight: Floats
    positive: Floats
    ranked: Floats


@final
@dataclass(frozen=True, eq=False)
class GroupedCells:
    """Distinct pairs of group and prediction, sorted; None in place of columns when there are no groups."""

    groups: NDArray[Any] | None
    keys: NDArray[Any]
    weight: Floats
    positive: Floats


@final
@dataclass(frozen=True)
class GroupOrder(OrderSummary[GroupedCells | GroupRanks]):
    """Weights and labels in the order of the predictions, group by group.

    Arguments:
        cells: None keeps every distinct prediction of a group; a number rounds logits to that many cells first.
    """

    def _summarize(self, forecast: Forecast) -> GroupedCells:
        if forecast.groups is None:
            return GroupedCells(None, np.zeros(0), np.zeros(0), np.zeros(0))
        ranks, keys = self._ranks(forecast.probabilities)
        return _cells_by_group(forecast, _pair(forecast.groups, ranks), keys)

    def _ranks(self, probabilities: Floats) -> tuple[NDArray[Any], NDArray[Any]]:
        if self.cells is None:
            return dense_ranks(probabilities)
        return grid_cell(probabilities, self.cells), np.arange(self.cells)

    def _merge(self, a: GroupedCells | GroupRanks, b: GroupedCells | GroupRanks) -> GroupedCells:
        assert isinstance(a, GroupedCells)
        assert isinstance(b, GroupedCells)
        if a.groups is None and b.groups is None:
            return a
        if a.groups is None or b.groups is None:
            raise InvalidInput.of(
                "groups",
                "a piece of the rows with groups and one without",
                "groups for all rows or for none",
                "name the group column for every piece, or for none of them",
            )
        return _joined(
            np.concatenate([a.groups, b.groups]),
            np.concatenate([a.keys, b.keys]),
            np.concatenate([a.weight, b.weight]),
            np.concatenate([a.positive, b.positive]),
        )

    def _replay(self, forecast: Forecast) -> Replay[GroupedCells | GroupRanks]:
        return _RankReplay(forecast)


@final
class _RankReplay(Replay[GroupedCells | GroupRanks]):
    """Replicates with each row's relative rank in its group kept.

    Exact for new labels. Exact for new weights too as long as a group's rows share one block, because multiplying all
    weights of a group changes no relative rank.
    """

    def __init__(self, forecast: Forecast) -> None:
        self._groups = forecast.groups
        if self._groups is None:
            return
        n_groups = int(self._groups.max()) + 1 if self._groups.size else 0
        terms = (
            Term("weight", 1.0, 0.0, self._groups, n_groups),
            Term("positive", 0.0, 1.0, self._groups, n_groups),
            Term("ranked", 0.0, _relative_ranks(forecast), self._groups, n_groups),
        )
        self._sums = SumReplay(terms, forecast)

    def _relabelled(self, positive_rows: Rows) -> GroupedCells | GroupRanks:
        return self._ranks(None if self._groups is None else self._sums.relabelled(positive_rows))

    def _reweighted(self, blocks: Blocks, counts: Floats) -> Iterator[GroupedCells | GroupRanks]:
        if self._groups is None:
            return (self._ranks(None) for _ in counts)
        return map(self._ranks, self._sums.reweighted(blocks, counts))

    def _ranks(self, sums: Sums | None) -> GroupedCells | GroupRanks:
        if sums is None:
            return GroupedCells(None, np.zeros(0), np.zeros(0), np.zeros(0))
        return GroupRanks(sums["weight"], sums["positive"], sums["ranked"])


def _joined(groups: NDArray[Any], keys: NDArray[Any], weight: Floats, positive: Floats) -> GroupedCells:
    order = np.lexsort((keys, groups))
    order = order[weight[order] > 0.0]
    groups, keys = groups[order], keys[order]
    starts = _starts(groups, keys)
    return GroupedCells(
        groups[starts], keys[starts], add_runs(weight[order], starts), add_runs(positive[order], starts)
    )


def _starts(*columns: NDArray[Any]) -> NDArray[np.intp]:
    if columns[0].shape[0] == 0:
        return np.zeros(0, dtype=np.intp)
    changes = np.ones(columns[0].shape[0], dtype=bool)
    changes[1:] = False
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)


def group_ranks(state: GroupedCells) -> tuple[GroupRanks, Floats]:
    """Returns the ranks per group, and per group the pairs of unequal labels that share a cell."""
    assert state.groups is not None
    starts = run_starts(state.groups)
    if starts.shape[0] == 0:
        return GroupRanks(np.zeros(0), np.zeros(0), np.zeros(0)), np.zeros(0)
    ranked = add_runs(state.positive * _mid_ranks(state.weight, starts), starts)
    tied = add_runs(state.positive * (state.weight - state.positive), starts)
    return GroupRanks(add_runs(state.weight, starts), add_runs(state.positive, starts), ranked), tied


def _mid_ranks(weight: Floats, starts: NDArray[np.intp]) -> Floats:
    """Returns, within runs, (weight before + half of the own) over the run's weight."""
    before = np.cumsum(weight) - 0.5 * weight
    sizes = np.diff(starts, append=weight.shape[0])
    offset = before[starts] - 0.5 * weight[starts]
    total = np.add.reduceat(weight, starts)
    ranks: Floats = (before - np.repeat(offset, sizes)) / np.repeat(total, sizes)
    return ranks


def _relative_ranks(forecast: Forecast) -> Floats:
    assert forecast.groups is not None
    relative = np.zeros(forecast.n_rows)
    pairs = _pair(forecast.groups, dense_ranks(forecast.probabilities)[0])
    order = np.argsort(pairs)
    weight = np.ones(forecast.n_rows) if forecast.weights is None else forecast.weights[order]
    order, weight = order[weight > 0.0], weight[weight > 0.0]
    if order.shape[0] == 0:
        return relative
    pairs = pairs[order]
    ties = run_starts(pairs)
    cells = _mid_ranks(add_runs(weight, ties), run_starts(pairs[ties] >> _RANK_BITS))
    relative[order] = np.repeat(cells, np.diff(ties, append=order.shape[0]))
    return relative


def _pair(groups: NDArray[Any], ranks: NDArray[Any]) -> NDArray[np.int64]:
    """Returns one number per row that sorts by group first and by rank second."""
    pairs = groups.astype(np.int64)
    pairs <<= _RANK_BITS
    pairs |= ranks
    return pairs


def _cells_by_group(forecast: Forecast, pairs: NDArray[np.int64], keys: NDArray[Any]) -> GroupedCells:
    if forecast.weights is None:
        pairs <<= 1
        pairs |= forecast.labels.astype(bool)
        pairs.sort()
        labels = (pairs & 1).astype(np.float64)
        pairs >>= 1
        starts = run_starts(pairs)
        weight = run_lengths(starts, pairs.shape[0])
    else:
        order = np.argsort(pairs)
        order = order[forecast.weights[order] > 0.0]
        pairs, weight = pairs[order], forecast.weights[order]
        labels = weight * forecast.labels[order]
        starts = run_starts(pairs)
        weight = add_runs(weight, starts)
    positive = add_runs(labels, starts)
    pairs = pairs[starts] if starts.shape[0] < pairs.shape[0] else pairs
    groups = (pairs >> _RANK_BITS).astype(np.int32)
    pairs &= _RANK_MASK
    return GroupedCells(groups, keys[pairs], weight, positive)
