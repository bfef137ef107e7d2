"""Rows for methods that are not smooth in the score: bins of equal width, and blocks of isotonic regression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monocal.calibrators.binned import bin_of
from monocal.core.spaces import Floats
from monocal.metrics.sums import sum_per_cell
from monocal.spark.collecting import collected
from monocal.spark.compressed import WeightedRows
from monocal.spark.judged_rows import Judging

_SCHEMA = "slot int, lowest double, highest double, weight double, positive double"
_NAMES = ["slot", "lowest", "highest", "weight", "positive"]
_ROWS = "slot int, logit double, label double, weight double"


def binned(df: Any, judging: Judging, n_bins: int) -> dict[int, WeightedRows]:
    """Returns, by slot, one row per bin of equal width and label: what histogram binning sees of a table."""
    from pyspark.sql import functions as F

    edges = np.linspace(0.0, 1.0, n_bins + 1)

    def summed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for judged in judging.forecasts(batches):
            logits = judged.rows.logits(judging.slots[judged.slot].task)
            weights = np.ones(len(logits)) if judged.weights is None else judged.weights
            which = bin_of(logits, edges)
            lowest = np.full(n_bins, np.inf)
            np.minimum.at(lowest, which, logits)
            sums = _sums(which, n_bins, weights, judged.labels)
            yield _batch(judged.slot, lowest, np.arange(n_bins, dtype=np.float64), *sums)

    added = df.mapInArrow(summed, _SCHEMA).groupBy("slot", "highest")
    table = collected(
        added.agg(F.min("lowest").alias("lowest"), F.sum("weight").alias("weight"), F.sum("positive").alias("positive"))
    )
    return _by_slot(table, lambda lowest, _highest: [(lowest, 1.0)])


def pooled(df: Any, judging: Judging) -> dict[int, WeightedRows]:
    """Returns, by slot, the ends of blocks that isotonic regression would pool in any case.

    Rows of one range of scores meet in a task, where ties are joined and neighbours that fall are pooled; a few hundred
    blocks leave it. Pooling blocks of blocks gives the blocks of all rows, because no step ever splits one.
    """

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for judged in judging.forecasts(batches):
            logits = judged.rows.logits(judging.slots[judged.slot].task)
            weights = np.ones(len(logits)) if judged.weights is None else judged.weights
            columns = [np.full(len(logits), judged.slot, np.int32), logits, judged.labels, weights]
            yield pa.RecordBatch.from_arrays(
                [pa.array(column) for column in columns], names=["slot", "logit", "label", "weight"]
            )

    def blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kinds = [("slot", pa.int32()), *((name, pa.float64()) for name in ("logit", "label", "weight"))]
        columns = [column.to_numpy() for column in pa.Table.from_batches(batches, pa.schema(kinds)).columns]
        for slot in np.unique(columns[0]).tolist():
            mine = (columns[0] == slot) & (columns[3] > 0.0)
            logits, labels, weights = (column[mine] for column in columns[1:])
            distinct, which = np.unique(logits, return_inverse=True)
            yield _batch(slot, *_pool(distinct, *_sums(which, len(distinct), weights, labels)))

    met = df.mapInArrow(rows, _ROWS).repartitionByRange("slot", "logit")
    # each end of a block carries half of it, so that both have its mean to the last bit
    return _by_slot(collected(met.mapInArrow(blocks, _SCHEMA)), lambda lowest, highest: [(lowest, 0.5), (highest, 0.5)])


def _sums(cells: NDArray[Any], n_cells: int, weights: Floats, labels: Floats) -> tuple[Floats, Floats]:
    n_rows = len(weights)
    return (
        sum_per_cell(cells, n_cells, weights, None, n_rows),
        sum_per_cell(cells, n_cells, labels, weights, n_rows),
    )


def _pool(logits: Floats, weights: Floats, positives: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Pools adjacent values whose rate does not rise; returns lowest, highest, weight and positives of the blocks."""
    blocks: list[tuple[float, float, float, float]] = []
    for z, weight, positive in zip(logits.tolist(), weights.tolist(), positives.tolist(), strict=True):
        block = (z, z, weight, positive)
        while blocks and blocks[-1][3] * block[2] >= block[3] * blocks[-1][2]:
            before = blocks.pop()
            block = (before[0], block[1], before[2] + block[2], before[3] + block[3])
        blocks.append(block)
    lowest, highest, weight_of, positive_of = np.array(blocks).reshape(-1, 4).T
    return lowest, highest, weight_of, positive_of


def _batch(slot: int, *columns: Floats) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(np.full(len(columns[0]), slot, np.int32)), *(pa.array(column) for column in columns)], names=_NAMES
    )


def _by_slot(table: pa.Table, points: Any) -> dict[int, WeightedRows]:
    columns = {name: table.column(name).to_numpy() for name in _NAMES}
    found = {}
    for slot in np.unique(columns["slot"]).tolist():
        mine = (columns["slot"] == slot) & (columns["weight"] > 0.0)
        lowest, highest, weight, positive = (columns[name][mine] for name in _NAMES[1:])
        parts = [
            (logits, np.full(len(logits), label), share * amount)
            for logits, share in points(lowest, highest)
            for label, amount in ((1.0, positive), (0.0, weight - positive))
        ]
        logits, labels, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
        kept = weights > 0.0
        order = np.argsort(logits[kept], kind="stable")
        found[slot] = WeightedRows(*(column[kept][order] for column in (logits, labels, weights)))
    return found
