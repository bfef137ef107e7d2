"""The first pass of an evaluation: states of all additive metrics, summed up per task and merged in two steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from monocal.core.spaces import Floats
from monocal.metrics import AnyMetric, Forecast, Summary, Value
from monocal.metrics.base import by_summary
from monocal.metrics.resample import MOST_BLOCKS, pack, replicates_of_blocks, sums_can_be_kept, unpack, values_of_draws
from monocal.metrics.sums import SumSummary
from monocal.spark.collecting import refusals_of_workers
from monocal.spark.judged_rows import Judged, Judging
from monocal.spark.resampling import Resampling

_SCHEMA = "slot int, summary int, part int, n_rows long, state binary"
_NAMES = ("slot", "summary", "part", "n_rows", "state")

_TYPES = (pa.int32(), pa.int32(), pa.int32(), pa.int64(), pa.binary())


class SlotSums(NamedTuple):
    """What the sums of one slot say.

    Attributes:
        n_rows: Rows that were judged.
        values: Metric to its value.
        replicates: Metric to its values on resampled blocks of rows; empty unless asked for.
        draws: Metric to its values on redrawn labels; empty unless asked for.
    """

    n_rows: int
    values: dict[str, Value]
    replicates: dict[str, Floats]
    draws: dict[str, Floats]


def measure_sums(
    df: Any, judging: Judging, metrics: Mapping[str, AnyMetric], resampling: Resampling | None = None
) -> dict[int, SlotSums]:
    """Returns, by slot, what the metrics' states say; a slot without rows is left out.

    A state per task and summary leaves the workers: a few hundred bytes for sums, up to 1.6 MB for a sketch of 65,536
    cells. With resampling, metrics of few sums send those of every block of rows and of every redraw as well, up to
    2 MB. Tasks that Spark tries again count once, because states travel as rows and not in accumulators.

    Arguments:
        df: The table.
        judging: How its rows become forecasts.
        metrics: Metrics whose states are small, by name.
        resampling: How rows are resampled; None leaves replicates and draws out.
    """
    ways = _ways(metrics, resampling)

    def summed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        states: dict[tuple[int, int], Any] = {}
        counts: dict[int, int] = {}
        for judged in judging.forecasts(batches):
            forecast = Forecast.of(judged.labels, judged.probabilities, weights=judged.weights)
            counts[judged.slot] = counts.get(judged.slot, 0) + forecast.n_rows
            for number, way in enumerate(ways):
                key, state = (judged.slot, number), way.state(judged, forecast)
                states[key] = way.summary.merge(states[key], state) if key in states else state
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
    found: dict[int, SlotSums] = {}
    for (slot, number), (_, n_rows, state) in _merge(rows, ways).items():
        way, kept = ways[number], found.setdefault(slot, SlotSums(n_rows, {}, {}, {}))
        if way.kind == "value":
            kept.values.update({name: metric.value(state) for name, metric in way.metrics.items()})
        elif way.kind == "block" and resampling is not None:
            kept.replicates.update(replicates_of_blocks(way.metrics, state, resampling.n_bootstrap, resampling.seed))
        else:
            kept.draws.update(values_of_draws(way.metrics, state))
    return found


@dataclass(frozen=True)
class _Way:
    """One kind of state of one summary: that of all rows, or its sums by block or by redraw."""

    kind: Literal["value", "block", "draw"]
    summary: Summary[Any]
    metrics: Mapping[str, AnyMetric]
    resampling: Resampling | None = None

    def state(self, judged: Judged, forecast: Forecast) -> Any:
        if self.resampling is None or not isinstance(self.summary, SumSummary):
            return self.summary.summarize(forecast)
        if self.kind == "block":
            return self.summary.by_block(forecast, self.resampling.blocks(judged), MOST_BLOCKS)
        return self.summary.by_draw(forecast, self.resampling.draws(judged))


def _ways(metrics: Mapping[str, AnyMetric], resampling: Resampling | None) -> list[_Way]:
    ways = []
    for summary, names in by_summary(metrics).items():
        own = {name: metrics[name] for name in names}
        ways.append(_Way("value", summary, own))
        if resampling is not None and all(map(sums_can_be_kept, own.values())):
            ways.append(_Way("block", summary, own, resampling))
            with_floor = {name: metric for name, metric in own.items() if metric.has_floor}
            if with_floor:
                ways.append(_Way("draw", summary, with_floor, resampling))
    return ways


def _merge(rows: list[dict[str, Any]], ways: list[_Way]) -> dict[tuple[int, int], tuple[int, int, Any]]:
    """Merges states in the order of their partitions, so that the same partitions give the same sums."""
    found: dict[tuple[int, int], tuple[int, int, Any]] = {}
    for row in sorted(rows, key=lambda row: int(row["part"])):
        key, state = (row["slot"], row["summary"]), unpack(bytes(row["state"]))
        if key in found:
            part, n_rows, before = found[key]
            found[key] = part, n_rows + row["n_rows"], ways[key[1]].summary.merge(before, state)
        else:
            found[key] = row["part"], row["n_rows"], state
    return found


def _rows(rows: Iterator[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
    for row in rows:
        yield pa.RecordBatch.from_arrays(
            [pa.array([value], kind) for value, kind in zip(row, _TYPES, strict=True)], names=list(_NAMES)
        )
