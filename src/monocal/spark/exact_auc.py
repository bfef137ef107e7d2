"""AUC without a sketch: rows with neighbouring predictions meet in one task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from monocal.metrics import Forecast, Value
from monocal.metrics.order import ScoreOrder
from monocal.spark.collecting import collected
from monocal.spark.judged_rows import Judging

_FORECASTS = "slot int, p double, label double, weight double"
_FOUND = "slot int, lowest double, positive double, negative double, ordered double"


def measure_auc(df: Any, judging: Judging) -> dict[int, Value]:
    r"""Returns, by slot, the exact AUC, to the last bit that of one machine if weights are whole numbers.

    Ranges of predictions k = 1, 2, … have :math:`P_k` positives, :math:`N_k` negatives and :math:`U_k` ordered pairs
    inside; equal predictions share a range. Then

    .. math:: \text{AUC} = \frac{\sum_k \bigl(U_k + P_k \sum_{j<k} N_j\bigr)}{P N}.

    Every row goes through one shuffle (28 bytes), five numbers per task come back.
    """

    def forecasts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for judged in judging.forecasts(batches):
            n = len(judged.labels)
            weights = np.ones(n) if judged.weights is None else judged.weights
            columns = [pa.array(np.full(n, judged.slot, np.int32))]
            columns += [pa.array(column) for column in (judged.probabilities, judged.labels, weights)]
            yield pa.RecordBatch.from_arrays(columns, names=["slot", "p", "label", "weight"])

    def ranked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kinds = [("slot", pa.int32()), *((name, pa.float64()) for name in ("p", "label", "weight"))]
        columns = [column.to_numpy() for column in pa.Table.from_batches(batches, pa.schema(kinds)).columns]
        for slot in np.unique(columns[0]).tolist():
            p, label, weight = (column[columns[0] == slot] for column in columns[1:])
            cells = ScoreOrder().summarize(Forecast.of(label, p, weights=weight))
            negative = cells.weight - cells.positive
            ordered = float(np.dot(cells.positive, np.cumsum(negative) - 0.5 * negative))
            found = (float(p.min()), float(cells.positive.sum()), float(negative.sum()), ordered)
            yield pa.RecordBatch.from_arrays(
                [pa.array([slot], pa.int32()), *(pa.array([value]) for value in found)],
                names=["slot", "lowest", "positive", "negative", "ordered"],
            )

    met = df.mapInArrow(forecasts, _FORECASTS).repartitionByRange("slot", "p")
    rows = collected(met.mapInArrow(ranked, _FOUND)).to_pylist()
    return {slot: _area([row for row in rows if row["slot"] == slot]) for slot in {row["slot"] for row in rows}}


def _area(ranges: list[dict[str, float]]) -> Value:
    below = ordered = positive = 0.0
    for piece in sorted(ranges, key=lambda row: row["lowest"]):
        ordered += piece["ordered"] + piece["positive"] * below
        below += piece["negative"]
        positive += piece["positive"]
    if positive + below == 0.0:
        return Value.undefined("no rows")
    if positive == 0.0 or below == 0.0:
        return Value.undefined(f"all labels are {int(below == 0.0)}, so there is no pair to rank")
    return Value(ordered / (positive * below))
