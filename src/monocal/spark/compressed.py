r"""A table as a few weighted rows that a feature-blind calibrator cannot tell from it.

The loss of a smooth method is a sum :math:`\sum_i w_i f(z_i, y_i)` over logits z. Rows of one label in a cell of width
h are replaced by two rows with the same total weight, mean, variance and third moment (a two-point Gauss rule). The
error per row is :math:`f'''' h^4 / 4320` at most; with h = 1/2048 that is 10⁻¹⁷, below the rounding of the sum itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monocal.core.spaces import Floats
from monocal.metrics.sums import sum_per_cell
from monocal.spark.collecting import collected
from monocal.spark.judged_rows import Judging

CELL = 1.0 / 2048.0

_KEYS = ("slot", "cell", "label")
_SUMS = ("rows", "w0", "w1", "w2", "w3")
_SCHEMA = "slot int, cell long, label int, rows double, w0 double, w1 double, w2 double, w3 double"


class WeightedRows(NamedTuple):
    """Rows in the place of many.

    Attributes:
        logits: Where they are.
        labels: 0 or 1.
        weights: How many they stand for, counted with their weights.
    """

    logits: Floats
    labels: Floats
    weights: Floats


class Cells(NamedTuple):
    """Sums per cell of the logit and label.

    Attributes:
        cell: Its number; the cell begins at that many times `CELL`.
        label: 0 or 1.
        rows: How many rows there are, without their weights.
        moments: Summed weights times powers 0 to 3 of the distance from the cell's middle, `(4, cells)`.
    """

    cell: NDArray[np.int64]
    label: NDArray[np.int32]
    rows: Floats
    moments: Floats

    @property
    def middle(self) -> Floats:
        return (self.cell.astype(np.float64) + 0.5) * CELL

    def two_points(self) -> WeightedRows:
        """Returns the Gauss rule of every cell; a cell whose rows are all alike is one point.

        Example:
            >>> z = np.array([0.00011, 0.00025, 0.00041])
            >>> few = cells_of(z, np.ones(3), np.ones(3)).two_points()
            >>> len(few.logits), bool(abs(few.weights @ few.logits**3 / sum(z**3) - 1.0) < 1e-9)
            (2, True)
        """
        used = self.moments[0] > 0.0
        label = self.label[used].astype(np.float64)
        w0, w1, w2, w3 = self.moments[:, used]
        mean = w1 / w0
        variance = np.maximum(w2 / w0 - mean**2, 0.0)
        third = w3 / w0 - 3.0 * mean * w2 / w0 + 2.0 * mean**3
        deviation = np.sqrt(variance)
        # below this spread both points are one, and third / variance^1.5 would be noise
        spread = deviation > 1e-7 * CELL
        skew = np.zeros_like(mean)
        np.divide(third, 2.0 * deviation**3, out=skew, where=spread)
        root = np.sqrt(1.0 + skew**2)
        upper = 0.5 * (1.0 - skew / root)
        centre = self.middle[used] + mean
        logits = np.concatenate([centre + deviation * (skew + root), (centre + deviation * (skew - root))[spread]])
        weights = np.concatenate([np.where(spread, w0 * upper, w0), (w0 * (1.0 - upper))[spread]])
        return WeightedRows(logits, np.concatenate([label, label[spread]]), weights)


def cells_of(logits: Floats, labels: Floats, weights: Floats) -> Cells:
    """Sums rows up."""
    cell = np.floor(logits / CELL).astype(np.int64)
    keys, which = np.unique(2 * cell + labels.astype(np.int64), return_inverse=True)
    distance = logits - (cell + 0.5) * CELL
    amounts = [np.ones_like(logits), *(weights * distance**power for power in range(4))]
    rows, *moments = (sum_per_cell(which, len(keys), amount, None, len(logits)) for amount in amounts)
    return Cells(keys >> 1, (keys & 1).astype(np.int32), rows, np.stack(moments))


def compress(df: Any, judging: Judging) -> dict[int, Cells]:
    """Returns the cells of every slot: one pass, at most some hundred thousand rows of 56 bytes at the driver."""
    from pyspark.sql import functions as F

    def summed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for judged in judging.forecasts(batches):
            weights = np.ones(len(judged.labels)) if judged.weights is None else judged.weights
            found = cells_of(judged.rows.logits(judging.slots[judged.slot].task), judged.labels, weights)
            slots = np.full(len(found.cell), judged.slot, np.int32)
            columns = [slots, found.cell, found.label, found.rows, *found.moments]
            yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=[*_KEYS, *_SUMS])

    added = df.mapInArrow(summed, _SCHEMA).groupBy(*_KEYS).agg(*(F.sum(name).alias(name) for name in _SUMS))
    table = collected(added).sort_by([(name, "ascending") for name in _KEYS])
    slots, cell, label, rows, *moments = (column.to_numpy() for column in table.columns)
    return {
        int(slot): Cells(cell[mine], label[mine], rows[mine], np.stack(moments)[:, mine])
        for slot in np.unique(slots)
        for mine in (slots == slot,)
    }
