"""Rows in the order of their predictions, of all rows or group by group: the states behind AUC and equal-mass bins.

Ranks and quantiles need all rows: there is no small exact state. The exact state here keeps every *distinct* prediction
with the weight and the positives it carries; it merges exactly but grows with the rows. The sketch rounds predictions
to a fixed grid of logits first, and stays small; what that costs is stated by the metrics that use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.scores import SCORE_EPSILON, Floats, logit
from monocal.metrics.base import Blocks, Replay, Rows, Summary, check_positive_count
from monocal.metrics.forecast import Forecast, IdColumn
from monocal.metrics.sums import SumReplay, Sums, Term, cell_terms

_LOGIT_RANGE = float(logit(1.0 - SCORE_EPSILON))

REPLAY_CELLS = 1 << 14
"""Replicates keep at most this many distinct ranks; beyond, neighbouring predictions share one."""


@final
@dataclass(frozen=True, eq=False)
class OrderedCells:
    """Cells in increasing order of prediction.

    Attributes:
        keys: The distinct predictions (exact) or grid cells (sketch), increasing.
        weight: Rows per cell.
        positive: Summed labels per cell.
        exact: Whether rows of one cell have equal predictions.
        sums: Summed predictions per cell; None when they follow from keys and weight.
    """

    keys: NDArray[Any]
    weight: Floats
    positive: Floats
    exact: bool
    sums: Floats | None = None

    @property
    def predicted(self) -> Floats:
        """Summed predictions per cell."""
        return self.keys * self.weight if self.sums is None else self.sums


@final
@dataclass(frozen=True)
class ScoreOrder(Summary[OrderedCells]):
    """Weights and labels in the order of the predictions.

    Arguments:
        cells: None keeps every distinct prediction (exact, memory grows with the rows). A number keeps that many
            equal cells of the logit between −16.1 and 16.1 (bounded memory).

    Example:
        >>> state = ScoreOrder().summarize(Forecast.of([1, 0, 1], [0.7, 0.2, 0.7]))
        >>> state.keys.tolist(), state.weight.tolist(), state.positive.tolist()
        ([0.2, 0.7], [1.0, 2.0], [0.0, 2.0])
    """

    cells: int | None = None

    def __post_init__(self) -> None:
        if self.cells is not None:
            check_positive_count("cells", self.cells)

    @property
    def bounded(self) -> bool:
        return self.cells is not None

    def summarize(self, forecast: Forecast) -> OrderedCells:
        if self.cells is not None:
            return _on_grid(forecast, self.cells)
        # the bits of non-negative doubles sort like the doubles
        codes, weight, positive = _distinct((forecast.probabilities + 0.0).view(np.int64), forecast)
        return OrderedCells(codes.view(np.float64), weight, positive, exact=True)

    def merge(self, a: OrderedCells, b: OrderedCells) -> OrderedCells:
        if a.exact != b.exact:
            raise InvalidInput.of(
                "states", "an exact state and a sketch", "two of a kind", "use one metric for both batches"
            )
        (keys,), joined = _merged([(a.keys, b.keys)])
        sums = None if a.sums is None or b.sums is None else joined(a.sums, b.sums)
        return OrderedCells(keys, joined(a.weight, b.weight), joined(a.positive, b.positive), a.exact, sums)

    def replay(self, forecast: Forecast) -> Replay[OrderedCells]:
        return _OrderReplay(forecast, self.cells)


@final
class _OrderReplay(Replay[OrderedCells]):
    """Replicates on at most `REPLAY_CELLS` ranks, equal in mass, that never separate equal predictions."""

    def __init__(self, forecast: Forecast, cells: int | None) -> None:
        if cells is None:
            ids, n_cells, self._exact = rank_cells(forecast.probabilities)
        else:
            ids, n_cells, self._exact = grid_cell(forecast.probabilities, cells), cells, False
        self._keys = np.arange(n_cells)
        self._sums = SumReplay(cell_terms(forecast.probabilities, ids, n_cells), forecast)

    def relabelled(self, positive_rows: Rows) -> OrderedCells:
        return self._ordered(self._sums.relabelled(positive_rows))

    def reweighted(self, blocks: Blocks, counts: Floats) -> Iterator[OrderedCells]:
        return map(self._ordered, self._sums.reweighted(blocks, counts))

    def _ordered(self, sums: Sums) -> OrderedCells:
        return OrderedCells(self._keys, sums["weight"], sums["positive"], self._exact, sums["predicted"])


def rank_cells(probabilities: Floats, limit: int = REPLAY_CELLS) -> tuple[IdColumn, int, bool]:
    """Returns the rank cell of each row, how many there are, and whether each holds one distinct prediction.

    Example:
        >>> rank_cells(np.array([0.5, 0.1, 0.5, 0.9]))[0].tolist()
        [1, 0, 1, 2]
    """
    ordered = np.sort(probabilities)
    starts = run_starts(ordered)
    exact = starts.shape[0] <= limit
    if not exact:
        starts = np.linspace(0, ordered.shape[0], limit, endpoint=False).astype(np.intp)
    edges = np.unique(ordered[starts])
    ids = np.searchsorted(edges, probabilities, side="right") - 1
    return ids.astype(np.int32), edges.shape[0], exact


def dense_ranks(probabilities: Floats) -> tuple[NDArray[np.int32], Floats]:
    """Returns the rank of each prediction, equal ones sharing theirs, and the distinct predictions.

    Example:
        >>> dense_ranks(np.array([0.5, 0.1, 0.5, 0.9]))[0].tolist()
        [1, 0, 1, 2]
    """
    order = np.argsort(probabilities)
    ordered = probabilities[order]
    changes = np.zeros(ordered.shape[0], dtype=np.int32)
    changes[1:] = ordered[1:] != ordered[:-1]
    ranks = np.empty_like(changes)
    ranks[order] = np.cumsum(changes, out=changes)
    del order, changes
    starts = run_starts(ordered)
    return ranks, ordered if starts.shape[0] == ordered.shape[0] else ordered[starts]


def grid_cell(probabilities: Floats, cells: int) -> IdColumn:
    """Returns the cell of each prediction on a grid that is even in the logit."""
    position = (logit(probabilities) + _LOGIT_RANGE) * (cells / (2.0 * _LOGIT_RANGE))
    return np.clip(position.astype(np.int32), 0, cells - 1)


def run_starts(*ordered: NDArray[Any]) -> NDArray[np.intp]:
    """Returns where each run of equal values begins, in a sorted column or in several that are sorted together."""
    changes = np.ones(ordered[0].shape[0], dtype=bool)
    np.not_equal(ordered[0][1:], ordered[0][:-1], out=changes[1:])
    for column in ordered[1:]:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)


def run_lengths(starts: NDArray[np.intp], n_rows: int) -> Floats:
    """Returns how long each run is."""
    if starts.shape[0] == n_rows:
        return np.ones(n_rows)
    return np.diff(starts, append=n_rows).astype(np.float64)


def add_runs(column: Floats, starts: NDArray[np.intp]) -> Floats:
    """Adds up a column over runs."""
    if starts.shape[0] == column.shape[0]:
        return column
    sums: Floats = np.add.reduceat(column, starts)
    return sums


def _merged(
    keys: Sequence[tuple[NDArray[Any], NDArray[Any]]],
) -> tuple[list[NDArray[Any]], Callable[[Floats, Floats], Floats]]:
    """Returns the distinct keys of two states, the first one leading, and how a column of both is added up."""
    columns = [np.concatenate(pair) for pair in keys]
    order = np.lexsort(columns[::-1])
    columns = [column[order] for column in columns]
    starts = run_starts(*columns)

    def joined(first: Floats, second: Floats) -> Floats:
        return add_runs(np.concatenate([first, second])[order], starts)

    return [column[starts] for column in columns], joined


def _on_grid(forecast: Forecast, cells: int) -> OrderedCells:
    terms = cell_terms(forecast.probabilities, grid_cell(forecast.probabilities, cells), cells)
    weight, predicted, positive = (term.add_up(forecast.labels, forecast.weights) for term in terms)
    filled = np.flatnonzero(weight)
    return OrderedCells(filled, weight[filled], positive[filled], exact=False, sums=predicted[filled])


def _distinct(codes: NDArray[np.int64], forecast: Forecast) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Returns the distinct codes of the rows, each at least 0 and below 2⁶², with the weight and positives of each.

    The codes are overwritten: without weights the label in their lowest bit saves sorting a second column.
    """
    if forecast.weights is None:
        codes <<= 1
        codes |= forecast.labels.astype(bool)
        codes.sort()
        positive = (codes & 1).astype(np.float64)
        codes >>= 1
        starts = run_starts(codes)
        weight = run_lengths(starts, codes.shape[0])
    else:
        order = np.argsort(codes)
        order = order[forecast.weights[order] > 0.0]
        codes, rows = codes[order], forecast.weights[order]
        starts = run_starts(codes)
        weight, positive = add_runs(rows, starts), rows * forecast.labels[order]
    return codes[starts] if starts.shape[0] < codes.shape[0] else codes, weight, add_runs(positive, starts)


_RANK_BITS = 32
_RANK_MASK = (1 << _RANK_BITS) - 1


@final
@dataclass(frozen=True, eq=False)
class GroupedCells:
    """Distinct pairs of group and prediction, sorted; None in place of columns when there are no groups."""

    groups: NDArray[Any] | None
    keys: NDArray[Any]
    weight: Floats
    positive: Floats


@dataclass(frozen=True)
class GroupOrder(Summary[GroupedCells]):
    """Weights and labels in the order of the predictions, group by group."""

    @property
    @final
    def bounded(self) -> bool:
        return False

    def summarize(self, forecast: Forecast) -> GroupedCells:
        if forecast.groups is None:
            return GroupedCells(None, np.zeros(0), np.zeros(0), np.zeros(0))
        ranks, keys = dense_ranks(forecast.probabilities)
        pairs, weight, positive = _distinct(_pair(forecast.groups, ranks), forecast)
        groups = (pairs >> _RANK_BITS).astype(np.int32)
        pairs &= _RANK_MASK
        return GroupedCells(groups, keys[pairs], weight, positive)

    def merge(self, a: GroupedCells, b: GroupedCells) -> GroupedCells:
        if a.groups is None and b.groups is None:
            return a
        if a.groups is None or b.groups is None:
            raise InvalidInput.of(
                "groups",
                "a piece of the rows with groups and one without",
                "groups for all rows or for none",
                "name the group column for every piece, or for none of them",
            )
        (groups, keys), joined = _merged([(a.groups, b.groups), (a.keys, b.keys)])
        return GroupedCells(groups, keys, joined(a.weight, b.weight), joined(a.positive, b.positive))

    def replay(self, forecast: Forecast) -> Replay[Any]:
        """Keeps each row's relative rank in its group: the states are those of `group_ranks`.

        Exact for new labels. Exact for new weights too as long as a group's rows share one block, because multiplying
        all weights of a group changes no relative rank.
        """
        if forecast.groups is None:
            return super().replay(forecast)
        n_groups = int(forecast.groups.max()) + 1 if forecast.groups.size else 0
        terms = (
            Term("weight", 1.0, 0.0, forecast.groups, n_groups),
            Term("positive", 0.0, 1.0, forecast.groups, n_groups),
            Term("ranked", 0.0, _relative_ranks(forecast), forecast.groups, n_groups),
        )
        return SumReplay(terms, forecast)


def group_ranks(state: GroupedCells) -> Sums:
    r"""Returns sums per group: rows W, positives P, and their relative mid-ranks R in (0, 1).

    The group's AUC is :math:`(R W - P^2/2) / (P (W-P))`.
    """
    assert state.groups is not None
    starts = run_starts(state.groups)
    return Sums(
        {
            "weight": add_runs(state.weight, starts),
            "positive": add_runs(state.positive, starts),
            "ranked": add_runs(state.positive * _mid_ranks(state.weight, starts), starts),
        }
    )


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
