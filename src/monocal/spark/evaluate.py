"""Metrics of a Spark table: the numbers of `monocal evaluate`, from sums that stay on the cluster."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack, final

import numpy as np
import pyarrow as pa

from monocal.core.errors import InvalidInput
from monocal.evaluation.evaluate import chosen_metrics, headline_metrics
from monocal.evaluation.result import Evaluation, EvaluationOptions
from monocal.evaluation.table import AFTER, BEFORE, TableEvaluation, evaluation_roles
from monocal.metrics import AnyMetric, Forecast, Value, metric
from monocal.metrics.base import by_summary
from monocal.metrics.fields import FieldMetric
from monocal.metrics.resample import pack, unpack
from monocal.models.apply import placed_error, ranges
from monocal.models.model import Model
from monocal.spark.fit import vocabulary
from monocal.spark.workers import Shipped, placed, receive, refusals_of_workers, ship
from monocal.tables.columns import RawRows, TimeWindow
from monocal.tables.roles import Columns, Roles, columns_of
from monocal.tables.split import binned
from monocal.tables.table import Table
from monocal.tables.vocabulary import Vocabulary

SKETCHED = {"auc": 65_536, "adaptive_ece": 65_536}
"""Metrics that need the order of all rows, and the cells of the sketch of the logit that takes its place."""

NEEDS_ALL_ROWS = "needs all rows in one place"
"""Why a metric that is not a sum over rows has no value on a cluster."""

_ON_ONE_MACHINE = ("numeric", "group", "value", "event_time", "label_time", "window", "soft_labels")
"""Columns that an evaluation on Spark does not have."""

_ROWS_AT_ONCE = 1 << 17
"""Spark's batches of 10,000 rows are joined up to this size, so that the work per batch does not count."""

_SCHEMA = "slot int, summary int, part int, n_rows long, state binary"
_INT = pa.int32()
_ARROW = pa.schema({"slot": _INT, "summary": _INT, "part": _INT, "n_rows": pa.int64(), "state": pa.binary()})


def evaluate(
    df: Any,
    roles: Roles | None = None,
    *,
    model: Model | str | Path | None = None,
    since: str | None = None,
    until: str | None = None,
    metrics: Sequence[str] | None = None,
    **columns: Unpack[Columns],
) -> TableEvaluation:
    """Measures a score column, or a model beside the score it calibrates, on a Spark table.

    Every task adds its rows up, and sums are added to sums, so numbers agree with those of one machine to 1e-12
    relative: doubles are added in another order. `auc` and `adaptive_ece` come from a sketch of 65,536 cells of the
    logit and carry their `error_bound` in the details. Metrics that are no sums (`gauc`, `ndcg`) are NaN with that
    reason, and no metric has an interval; `monocal.evaluate` has them on rows that one machine can hold. Field metrics
    need one pass more, which counts the values: some hundred bytes a value come to the driver.

    Arguments:
        df: The table.
        model: Evaluated beside its own score: a model, the folder of one, or its URI.
        roles: Which column is what, or the same by name. Fields are for field-wise metrics, by default the model's.
        since: Rows before this moment are left out.
        until: Rows at or after it are left out.
        metrics: Names; None means the headline ones.
        columns: In place of roles: `score`, `label`, `weight`, `time` and others.

    Example:
        found = evaluate(spark.table("ads.test"), model="s3://models/ctr")
        found.tasks["click"].value("log_loss")
        0.3112
    """
    loaded, shipped = (None, None) if model is None else ship(model)
    given = columns_of(evaluate, roles, columns)
    for name in _ON_ONE_MACHINE:
        if given.get(name):
            raise InvalidInput.of(name, given[name], "nothing on a Spark table", "evaluate rows that one machine holds")
    named = list(dict.fromkeys(given.get("fields") or (loaded.field_names if loaded else ())))
    parts = evaluation_roles(loaded, df.columns, **{**given, "fields": named, "soft_labels": False})
    parts.check_columns(df.columns)
    chosen = chosen_metrics(metrics or headline_metrics(has_fields=bool(named), has_groups=False))
    reasons = {name: _reason(measure, named) for name, measure in chosen.items()}
    sums = {
        name: metric(name, cells=SKETCHED[name]) if name in SKETCHED else measure
        for name, measure in chosen.items()
        if not reasons[name]
    }
    rows = df.select(*(f"`{name}`" for name in parts.columns))
    has_field_sums = any(isinstance(measure, FieldMetric) for measure in sums.values())
    listed = [name for name in named if loaded is None or name not in loaded.vocabulary.numeric_names]
    known = vocabulary(rows, listed) if has_field_sums else Vocabulary(())
    stages = (BEFORE,) if loaded is None else (BEFORE, AFTER)
    slots = tuple((task, stage) for task in parts.labels for stage in stages)
    counted = _Forecasts(parts, slots, tuple(named) if has_field_sums else (), known, shipped, since, until)
    # the number of rows comes with any sum
    found = _add_up(rows, counted, sums or {"pcoc": metric("pcoc")})
    evaluations: dict[str, Evaluation] = {}
    for place, (task, _) in enumerate(slots):
        if place not in found:
            hint = "check the table and the filter"
            raise InvalidInput.of(f"labels of task {task!r}", "no rows with a label", "some labels", hint)
        n_rows, values = found[place]
        every = {name: Value.undefined(reasons[name]) if reasons[name] else values[name] for name in chosen}
        options = EvaluationOptions(tuple(chosen))
        before = evaluations.get(task)
        evaluations[task] = Evaluation(chosen, every, n_rows, options, before=before)
    return TableEvaluation(evaluations, max(evaluation.n_rows for evaluation in evaluations.values()))


def _reason(measure: AnyMetric, fields: Sequence[str]) -> str:
    if isinstance(measure, FieldMetric):
        return "" if fields else "no field was given"
    return "" if measure.name in SKETCHED or measure.summary.bounded else NEEDS_ALL_ROWS


@final
@dataclass(frozen=True)
class _Forecasts:
    """What a worker needs to turn batches into forecasts: one per slot, which is a task before or after calibration."""

    roles: Roles
    slots: tuple[tuple[str, str], ...]
    fields: tuple[str, ...]
    values: Vocabulary
    shipped: Shipped | None
    since: str | None
    until: str | None

    def of(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Forecast]]:
        """Yields every slot of every piece of the table that has rows for it."""
        model = None if self.shipped is None else receive(self.shipped)
        roles = self.roles
        columns = ranges(roles.scores.values(), roles.scores_are, roles.sampling_rate)
        columns |= {} if roles.weight is None else {roles.weight: ("weight", 0.0, np.inf)}
        for piece in placed(_joined(batches)):
            try:
                yield from self._of_piece(piece, model)
            except InvalidInput as error:
                raise placed_error(columns, piece) or InvalidInput(
                    f"{error} Here the table is {piece.file} from its row {int(piece.numbers[0]):,} on."
                ) from error

    def _of_piece(self, piece: RawRows, model: Model | None) -> Iterator[tuple[int, Forecast]]:
        window = TimeWindow.of(piece.batch.schema, self.roles.time, self.since, self.until)
        kept = (piece if window is None else window.rows_of(piece)).batch
        if not kept.num_rows:
            return
        rows = Table.read(kept, self.roles)
        if rows.weights is not None and not bool((rows.weights >= 0.0).all()):
            raise InvalidInput.of("weight", "a negative number", "numbers that are zero or positive", "use 0")
        calibrated = None if model is None else model.predict_rows(rows)
        shown = rows if model is None else binned(rows, model.vocabulary)
        for place, (task, stage) in enumerate(self.slots):
            chosen = np.flatnonzero(rows.labels[task] >= 0)
            if not chosen.size:
                continue
            part = shown.take(chosen)
            p = part.uncalibrated(task) if stage == BEFORE or calibrated is None else calibrated[task][chosen]
            ids = {name: self._ids(part, name) for name in self.fields}
            yield place, Forecast.of(part.labels[task], p, weights=part.weights, fields=ids)

    def _ids(self, rows: Table, name: str) -> Any:
        """Numbers of a field's values that are the same in every task; intervals of a number have the model's."""
        column = rows.fields[name]
        if name not in self.values.names:
            return column.ids
        return self.values[name].encode(column.known_values)[column.ids]


def _joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(piece.num_rows for piece in held) >= _ROWS_AT_ONCE:
            yield pa.Table.from_batches(held)
            held = []
    if any(piece.num_rows for piece in held):
        yield pa.Table.from_batches(held)


def _add_up(
    df: Any, forecasts: _Forecasts, metrics: Mapping[str, AnyMetric]
) -> dict[int, tuple[int, dict[str, Value]]]:
    """Returns, by slot, how many rows there are and the metrics' values; a slot without rows is left out.

    One state per task and summary leaves the workers: a few hundred bytes for sums, up to 1.6 MB for a sketch. They
    are merged once on the cluster, since the driver would receive gigabytes from ten thousand tasks. Tasks that Spark
    tries again count once, because states travel as rows and not in accumulators.
    """
    summaries = list(by_summary(metrics))

    def summed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        found: dict[tuple[int, int], Any] = {}
        counts: dict[int, int] = {}
        for slot, forecast in forecasts.of(batches):
            counts[slot] = counts.get(slot, 0) + forecast.n_rows
            for place, summary in enumerate(summaries):
                key, state = (slot, place), summary.summarize(forecast)
                found[key] = summary.merge(found[key], state) if key in found else state
        part = TaskContext.get().partitionId()
        for (slot, place), state in found.items():
            yield _packed({"slot": slot, "summary": place, "part": part, "n_rows": counts[slot], "state": state})

    def merged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [row for batch in batches for row in batch.to_pylist()]
        yield from map(_packed, _merge(rows, summaries))

    n_tasks = math.isqrt(int(df.sparkSession.conf.get("spark.sql.shuffle.partitions"))) + 1
    partial = df.mapInArrow(summed, _SCHEMA).repartition(n_tasks)
    with refusals_of_workers():
        rows = [row.asDict() for row in partial.mapInArrow(merged, _SCHEMA).collect()]
    found: dict[int, tuple[int, dict[str, Value]]] = {}
    for row in _merge(rows, summaries):
        values = found.setdefault(row["slot"], (row["n_rows"], {}))[1]
        summary = summaries[row["summary"]]
        values |= {name: measure.value(row["state"]) for name, measure in metrics.items() if measure.summary == summary}
    return found


def _merge(rows: list[dict[str, Any]], summaries: Sequence[Any]) -> list[dict[str, Any]]:
    """Merges states in the order of their partitions, so that the same partitions give the same sums."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: int(row["part"])):
        key, state = (row["slot"], row["summary"]), unpack(bytes(row["state"]))
        if key not in found:
            found[key] = row | {"state": state}
        else:
            found[key]["n_rows"] += row["n_rows"]
            found[key]["state"] = summaries[row["summary"]].merge(found[key]["state"], state)
    return list(found.values())


def _packed(row: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([row | {"state": pack(row["state"])}], schema=_ARROW)
