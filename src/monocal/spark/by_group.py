"""Metrics inside groups, such as `gauc` and `ndcg`: the rows of a group meet in one task, a few numbers leave it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monocal.core.spaces import Floats
from monocal.metrics import AnyMetric, Forecast, Gauc, Ndcg, Value
from monocal.metrics.base import Blocks, Rows
from monocal.metrics.resample import MOST_BLOCKS, block_counts
from monocal.spark.collecting import collected
from monocal.spark.judged_rows import Judging
from monocal.spark.resampling import Resampling, blocks_of_groups
from monocal.tables.column import encode_values

GroupMetric = Gauc | Ndcg
SKIPPED: Mapping[type[AnyMetric], str] = {Gauc: "skipped_row_share", Ndcg: "skipped_list_share"}
"""Metrics that are means over groups, and the detail that says how much was left out of the mean."""

_FORECASTS = "slot int, group string, label double, p double, weight double"
_FOUND = "slot int, metric int, block int, total double, kept double, mean double"


def measure_groups(
    df: Any, judging: Judging, metrics: Mapping[str, GroupMetric], group: str, resampling: Resampling | None = None
) -> dict[int, tuple[dict[str, Value], dict[str, Floats]]]:
    """Returns, by slot, the values of metrics that are means over groups, and their replicates if asked for.

    Every row goes through one shuffle (some 40 bytes and the text of its group). A task needs the memory for its
    groups; raise `spark.sql.shuffle.partitions` if that is too much. With resampling a task sends its means for each
    of 512 blocks of groups, 36 bytes each, instead of one.

    Arguments:
        df: The table.
        judging: How its rows become forecasts; the group is among its slices.
        metrics: The metrics by name.
        group: The group column.
        resampling: How groups are resampled; None leaves replicates out.
    """

    def forecasts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for judged in judging.forecasts(batches):
            column = judged.rows.fields[group]
            n = len(judged.labels)
            weights = np.ones(n) if judged.weights is None else judged.weights
            texts = column.known_values.cast(pa.string()).take(pa.array(column.ids))
            columns = [pa.array(np.full(n, judged.slot, np.int32)), texts]
            columns += [pa.array(column) for column in (judged.labels, judged.probabilities, weights)]
            yield pa.RecordBatch.from_arrays(columns, names=["slot", "group", "label", "p", "weight"])

    def measured(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(batches, _schema_of_forecasts())
        slots = table.column("slot").to_numpy()
        texts = table.column("group").combine_chunks()
        blocks = np.zeros(len(slots), np.int32) if resampling is None else blocks_of_groups(texts)
        groups = encode_values(texts, len(slots), "groups").ids
        columns = [table.column(name).to_numpy() for name in ("label", "p", "weight")]
        found = []
        for slot, block, rows in _cells(slots, blocks):
            label, p, weight = (column[rows] for column in columns)
            forecast = Forecast.of(label, p, weights=weight, groups=groups[rows])
            totals = {Gauc: float(weight.sum()), Ndcg: float(len(np.unique(groups[rows][weight > 0.0])))}
            for number, metric in enumerate(metrics.values()):
                value, total = metric.of(forecast), totals[type(metric)]
                kept = 0.0 if value.reason else total * (1.0 - value.details[SKIPPED[type(metric)]])
                found.append((slot, number, block, total, kept, 0.0 if value.reason else value.number))
        if found:
            kinds = [pa.int32()] * 3 + [pa.float64()] * 3
            yield pa.RecordBatch.from_arrays(
                [pa.array(column, kind) for column, kind in zip(zip(*found, strict=True), kinds, strict=True)],
                names=["slot", "metric", "block", "total", "kept", "mean"],
            )

    met = df.mapInArrow(forecasts, _FORECASTS).repartition("group")
    rows = collected(met.mapInArrow(measured, _FOUND))
    slots, numbers, blocks, total, kept, mean = (column.to_numpy() for column in rows.columns)
    found: dict[int, tuple[dict[str, Value], dict[str, Floats]]] = {}
    for slot in set(slots.tolist()):
        values, replicates = found.setdefault(slot, ({}, {}))
        for number, (name, metric) in enumerate(metrics.items()):
            mine = (slots == slot) & (numbers == number)
            values[name] = _mean(metric, total[mine], kept[mine], mean[mine])
            if resampling is not None:
                replicates[name] = _replicates(blocks[mine], kept[mine], mean[mine], resampling)
    return found


def _cells(slots: NDArray[np.int32], blocks: Blocks) -> Iterator[tuple[int, int, Rows]]:
    """Yields the rows of every slot and block that has some."""
    keys = slots.astype(np.int64) * MOST_BLOCKS + blocks
    order = np.argsort(keys, kind="stable")
    found, starts = np.unique(keys[order], return_index=True)
    for key, rows in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
        yield key // MOST_BLOCKS, key % MOST_BLOCKS, rows


def _replicates(blocks: Blocks, kept: Floats, mean: Floats, resampling: Resampling) -> Floats:
    """Means over groups with blocks of groups resampled; NaN with fewer than two blocks."""
    used, block = np.unique(blocks, return_inverse=True)
    if used.shape[0] < 2:
        return np.full(resampling.n_bootstrap, np.nan)
    counts = block_counts(used.shape[0], resampling.n_bootstrap, resampling.seed)
    sums, sizes = (counts @ np.bincount(block, weights=amounts) for amounts in (kept * mean, kept))
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / sizes)


def _mean(metric: GroupMetric, total: Floats, kept: Floats, mean: Floats) -> Value:
    everything = float(total.sum())
    if everything == 0.0:
        return Value.undefined("no rows")
    details = {SKIPPED[type(metric)]: 1.0 - float(kept.sum()) / everything}
    if not kept.any():
        # the metric itself knows what to call the reason
        nothing = metric.of(Forecast.of([0.0], [0.5], groups=[0]))
        return Value.undefined(nothing.reason, details)
    return Value(float(np.dot(kept, mean)) / float(kept.sum()), details=details)


def _schema_of_forecasts() -> pa.Schema:
    numbers = [(name, pa.float64()) for name in ("label", "p", "weight")]
    return pa.schema([("slot", pa.int32()), ("group", pa.string()), *numbers])
