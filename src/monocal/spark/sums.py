"""The first pass of an evaluation: states of all additive metrics, summed up per task and merged in two steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from monocal.metrics import AnyMetric, Forecast, Value
from monocal.metrics.packed import pack, unpack
from monocal.metrics.shared import by_summary
from monocal.spark.collecting import refusals_of_workers
from monocal.spark.judged_rows import Judging

_SCHEMA = "slot int, summary int, part int, n_rows long, state binary"
_NAMES = ("slot", "summary", "part", "n_rows", "state")

_TYPES = (pa.int32(), pa.int32(), pa.int32(), pa.int64(), pa.binary())


def measure_sums(
    df: Any, judging: Judging, metrics: Mapping[str, AnyMetric]
) -> dict[int, tuple[int, dict[str, Value]]]:
    """Returns, by slot, the number of rows and the metrics' values; a slot without rows is left out.

    A state per task and summary leaves the workers: a few hundred bytes for sums, up to 1.6 MB for a sketch of 65,536
    cells. Tasks that Spark tries again count once, because states travel as rows and not in accumulators.

    Arguments:
        df: The table.
        judging: How its rows become forecasts.
        metrics: Metrics whose states are small, by name.
    """
    summaries = by_summary(metrics)
    ways = list(summaries)

    def summed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        states: dict[tuple[int, int], Any] = {}
        counts: dict[int, int] = {}
        for judged in judging.forecasts(batches):
            forecast = Forecast.of(judged.labels, judged.probabilities, weights=judged.weights)
            counts[judged.slot] = counts.get(judged.slot, 0) + forecast.n_rows
            for number, way in enumerate(ways):
                key, state = (judged.slot, number), way.summarize(forecast)
                states[key] = way.merge(states[key], state) if key in states else state
        part = TaskContext.get().partitionId()
        yield from _rows((*key, part, counts[key[0]], pack(state)) for key, state in states.items())

    def merged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [row for batch in batches for row in batch.to_pylist()]
        yield from _rows((*key, part, n_rows, pack(state)) for key, (part, n_rows, state) in _merge(rows, ways).items())

    # merged once on the cluster: the driver would receive gigabytes from ten thousand tasks
    n_tasks = math.isqrt(int(df.sparkSession.conf.get("spark.sql.shuffle.partitions"))) + 1
    partial = df.mapInArrow(summed, _SCHEMA).repartition(n_tasks)
    with refusals_of_workers():
        rows = [row.asDict() for row in partial.mapInArrow(merged, _SCHEMA).collect()]
    found: dict[int, tuple[int, dict[str, Value]]] = {}
    for (slot, number), (_, n_rows, state) in _merge(rows, ways).items():
        values = found.setdefault(slot, (n_rows, {}))[1]
        values.update({name: metrics[name].value(state) for name in summaries[ways[number]]})
    return found


def _merge(rows: list[dict[str, Any]], ways: list[Any]) -> dict[tuple[int, int], tuple[int, int, Any]]:
    """Merges states in the order of their partitions, so that the same partitions give the same sums."""
    found: dict[tuple[int, int], tuple[int, int, Any]] = {}
    for row in sorted(rows, key=lambda row: int(row["part"])):
        key, state = (row["slot"], row["summary"]), unpack(bytes(row["state"]))
        if key in found:
            part, n_rows, before = found[key]
            found[key] = part, n_rows + row["n_rows"], ways[key[1]].merge(before, state)
        else:
            found[key] = row["part"], row["n_rows"], state
    return found


def _rows(rows: Iterator[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
    for row in rows:
        yield pa.RecordBatch.from_arrays(
            [pa.array([value], kind) for value, kind in zip(row, _TYPES, strict=True)], names=list(_NAMES)
        )
