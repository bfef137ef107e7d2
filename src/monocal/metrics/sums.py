r"""Additive states: sums per cell that are linear in labels and in weights.

A term is :math:`\sum_i w_i (b_i + y_i s_i)` over the rows of each cell (a bin, a field value, a grid point). Everything
additive in this package is a few terms, and one kernel adds them up.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.core.scores import Floats
from monocal.metrics.base import Blocks, Replay, Rows, Summary
from monocal.metrics.forecast import Forecast, IdColumn

_SMALL_TABLE = 1 << 16


def block_sums(
    cells: IdColumn | None,
    n_cells: int,
    amounts: Floats | float,
    weights: Floats | None,
    blocks: Blocks,
    n_blocks: int,
) -> Any:
    """Returns a matrix `(n_cells, n_blocks)` of summed `weights · amounts`.

    It is dense while that takes no more entries than there are rows; otherwise it is a scipy sparse array, which holds
    only the pairs that occur.

    Example:
        >>> table = block_sums(np.array([0, 1, 1]), 2, 1.0, None, np.array([0, 0, 1]), 2)
        >>> table.tolist(), (table @ np.array([2.0, 0.0])).tolist()
        ([[1.0, 0.0], [1.0, 1.0]], [2.0, 2.0])
    """
    column = np.full(blocks.shape[0], amounts) if isinstance(amounts, float) else amounts
    if weights is not None:
        column = column * weights
    if cells is None:
        return np.bincount(blocks, weights=column, minlength=n_blocks)[None, :]
    if n_cells * n_blocks <= max(_SMALL_TABLE, blocks.shape[0]):
        pairs = cells.astype(np.int64) * n_blocks + blocks
        return np.bincount(pairs, weights=column, minlength=n_cells * n_blocks).reshape(n_cells, n_blocks)
    from scipy.sparse import coo_array

    used = np.flatnonzero(column)
    table = coo_array((column[used], (cells[used], blocks[used])), shape=(n_cells, n_blocks)).tocsr()
    table.sum_duplicates()
    return table


@final
@dataclass(frozen=True, eq=False)
class Sums:
    """Named arrays of sums.

    Attributes:
        arrays: One array per term, one number per cell.
    """

    arrays: Mapping[str, Floats]

    def __getitem__(self, key: str) -> Floats:
        return self.arrays[key]

    def total(self, key: str) -> float:
        return float(self.arrays[key].sum())


class CellSums(NamedTuple):
    """What binned metrics need to know of each cell: how many rows, how much was predicted, how much happened."""

    weight: Floats
    predicted: Floats
    positive: Floats

    @property
    def gap(self) -> Floats:
        r""":math:`|\sum (p - y)|` per cell."""
        return np.abs(self.predicted - self.positive)


@final
@dataclass(frozen=True, eq=False)
class Term:
    """One sum per cell.

    Attributes:
        key: Its name in the state.
        base: What each row adds whatever its label (a column or one number).
        slope: What a row with label 1 adds on top.
        cells: The cell of each row; None puts all rows into one.
        n_cells: How many cells there are.
    """

    key: str
    base: Floats | float
    slope: Floats | float
    cells: IdColumn | None = None
    n_cells: int = 1

    def amounts(self, labels: Floats) -> Floats | float:
        """Returns what each row adds, before weights; a single number when all rows add the same."""
        if _is_zero(self.slope):
            return self.base
        if _is_zero(self.base):
            return labels if isinstance(self.slope, float) and self.slope == 1.0 else labels * self.slope
        return self.base + labels * self.slope

    def add_up(self, labels: Floats, weights: Floats | None) -> Floats:
        return sum_per_cell(self.cells, self.n_cells, self.amounts(labels), weights, labels.shape[0])


def cell_terms(probabilities: Floats, cells: IdColumn | None, n_cells: int, prefix: str = "") -> tuple[Term, ...]:
    """Returns the three terms behind `CellSums`."""
    return (
        Term(prefix + "weight", 1.0, 0.0, cells, n_cells),
        Term(prefix + "predicted", probabilities, 0.0, cells, n_cells),
        Term(prefix + "positive", 0.0, 1.0, cells, n_cells),
    )


def cell_sums(state: Sums, prefix: str = "") -> CellSums:
    """Returns the cells that `cell_terms` with the same prefix summed up."""
    return CellSums(state[prefix + "weight"], state[prefix + "predicted"], state[prefix + "positive"])


def sum_per_cell(
    cells: IdColumn | None, n_cells: int, amounts: Floats | float, weights: Floats | None, n_rows: int
) -> Floats:
    """Adds `weights · amounts` per cell; without a Python loop over cells.

    Example:
        >>> sum_per_cell(np.array([0, 2, 2]), 4, 0.5, np.array([1.0, 1.0, 3.0]), 3).tolist()
        [0.5, 0.0, 2.0, 0.0]
    """
    column: Floats | None
    scale = 1.0
    if isinstance(amounts, float):
        column, scale = weights, amounts
    else:
        column = amounts if weights is None else amounts * weights
    if cells is None:
        return np.array([scale * (n_rows if column is None else float(np.sum(column)))])
    sums = np.bincount(cells, weights=column, minlength=n_cells).astype(np.float64, copy=False)
    return sums if scale == 1.0 else sums * scale


def merge_sums(a: Sums, b: Sums) -> Sums:
    """Adds two states; the shorter array is padded, because a later batch may bring new field values."""
    if a.arrays.keys() != b.arrays.keys():
        raise InvalidInput.of(
            "states",
            f"sums of {', '.join(a.arrays)} and of {', '.join(b.arrays)}",
            "states of the same metric on the same fields",
            "summarize both batches with the same metric and the same field names",
        )
    return Sums({key: _padded_sum(a.arrays[key], b.arrays[key]) for key in a.arrays})


class SumSummary(Summary[Sums]):
    """A summary that is a few terms: the subclass only says which."""

    @final
    def summarize(self, forecast: Forecast) -> Sums:
        terms = self._terms(forecast)
        return Sums({term.key: term.add_up(forecast.labels, forecast.weights) for term in terms})

    @final
    def merge(self, a: Sums, b: Sums) -> Sums:
        return merge_sums(a, b)

    @final
    def replay(self, forecast: Forecast) -> Replay[Sums]:
        return SumReplay(self._terms(forecast), forecast)

    @abstractmethod
    def _terms(self, forecast: Forecast) -> tuple[Term, ...]: ...


@final
class SumReplay(Replay[Sums]):
    """Replicates of terms.

    New labels: what does not depend on labels is summed once, and each replicate adds up its positive rows only, which
    are few in a click log. New weights: rows are summed once per (cell, block), and each replicate is a matrix product.
    """

    def __init__(self, terms: tuple[Term, ...], forecast: Forecast) -> None:
        self._terms, self._forecast = terms, forecast
        self._unlabelled: dict[str, Floats] = {}

    def relabelled(self, positive_rows: Rows) -> Sums:
        if not self._unlabelled:
            self._unlabelled = {term.key: self._sum(term, term.base, None) for term in self._terms}
        arrays = {}
        for term in self._terms:
            arrays[term.key] = self._unlabelled[term.key]
            if not _is_zero(term.slope):
                arrays[term.key] = arrays[term.key] + self._sum(term, term.slope, positive_rows)
        return Sums(arrays)

    def _sum(self, term: Term, amounts: Floats | float, rows: Rows | None) -> Floats:
        def chosen(column: Any) -> Any:
            return column if rows is None or not isinstance(column, np.ndarray) else column[rows]

        n_rows = self._forecast.n_rows if rows is None else rows.shape[0]
        weights = chosen(self._forecast.weights)
        return sum_per_cell(chosen(term.cells), term.n_cells, chosen(amounts), weights, n_rows)

    def _tables(self, blocks: Blocks, n_blocks: int) -> dict[str, Any]:
        """Returns each term's sums per cell and block, dense or sparse."""
        labels, weights = self._forecast.labels, self._forecast.weights
        return {
            term.key: block_sums(term.cells, term.n_cells, term.amounts(labels), weights, blocks, n_blocks)
            for term in self._terms
        }

    def reweighted(self, blocks: Blocks, counts: Floats) -> Iterator[Sums]:
        tables = self._tables(blocks, counts.shape[1])
        for count in counts:
            yield Sums({key: table @ count for key, table in tables.items()})


def _is_zero(amount: Floats | float) -> bool:
    return isinstance(amount, float) and amount == 0.0


def _padded_sum(a: Floats, b: Floats) -> Floats:
    long, short = (a, b) if a.shape[0] >= b.shape[0] else (b, a)
    total = long.copy()
    total[: short.shape[0]] += short
    return total
