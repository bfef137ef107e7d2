"""Metrics inside groups, such as `gauc` and `ndcg`: the rows of a group meet in one task, a few numbers leave it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from monocal.core.spaces import Floats
from monocal.metrics import AnyMetric, Forecast, Gauc, Ndcg, Value
from monocal.spark.collecting import collected
from monocal.spark.judged_rows import Judging
from monocal.tables.encoded_column import encode_values

GroupMetric = Gauc | Ndcg
SKIPPED: Mapping[type[AnyMetric], str] = {Gauc: "skipped_row_share", Ndcg: "skipped_list_share"}
"""Metrics that are means over groups, and the detail that says how much was left out of the mean."""

_FORECASTS = "slot int, group string, label double, p double, weight double"
_FOUND = "slot int, metric int, total double, kept double, mean double"


def measure_groups(
    df: Any, judging: Judging, metrics: Mapping[str, GroupMetric], group: str
) -> dict[int, dict[str, Value]]:
    """Returns, by slot, the values of metrics that are means over groups.

    Every row goes through one shuffle (some 40 bytes and the text of its group). A task needs the memory for its
    groups; raise `spark.sql.shuffle.partitions` if that is too much.

    Arguments:
        df: The table.
        judging: How its rows become forecasts; the group is among its slices.
        metrics: The metrics by name.
        group: The group column.
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
        for slot in np.unique(slots).tolist():
            mine = table.filter(pa.array(slots == slot))
            label, p, weight = (mine.column(name).to_numpy() for name in ("label", "p", "weight"))
            groups = encode_values(mine.column("group").combine_chunks(), mine.num_rows, "groups").ids
            forecast = Forecast.of(label, p, weights=weight, groups=groups)
            totals = {Gauc: float(weight.sum()), Ndcg: float(len(np.unique(groups[weight > 0.0])))}
            for number, metric in enumerate(metrics.values()):
                value, total = metric.of(forecast), totals[type(metric)]
                kept = 0.0 if value.reason else total * (1.0 - value.details[SKIPPED[type(metric)]])
                numbers = (total, kept, 0.0 if value.reason else value.number)
                yield pa.RecordBatch.from_arrays(
                    [
                        *(pa.array([key], pa.int32()) for key in (slot, number)),
                        *(pa.array([result]) for result in numbers),
                    ],
                    names=["slot", "metric", "total", "kept", "mean"],
                )

    met = df.mapInArrow(forecasts, _FORECASTS).repartition("group")
    rows = collected(met.mapInArrow(measured, _FOUND))
    slots, numbers, total, kept, mean = (column.to_numpy() for column in rows.columns)
    found: dict[int, dict[str, Value]] = {}
    for slot in set(slots.tolist()):
        for number, (name, metric) in enumerate(metrics.items()):
            mine = (slots == slot) & (numbers == number)
            found.setdefault(slot, {})[name] = _mean(metric, total[mine], kept[mine], mean[mine])
    return found


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
