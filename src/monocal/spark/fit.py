"""Fits on a Spark table, and the vocabulary they begin with: counted where the rows are, ordered as on one machine.

The tasks of one barrier stage are members of the reducer that torchrun's processes have.
Iterations never become Spark jobs. Each task keeps its rows in memory and hears of the others only sums of whole
numbers, so the same table and the same number of tasks give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Unpack, cast

import numpy as np
import pyarrow as pa

from monocal.calibrators import Calibrator, calibrator
from monocal.core.errors import InvalidInput, check_known
from monocal.core.reduce import Reducer
from monocal.core.scores import check_weights
from monocal.models.artefact import load_model, model_files
from monocal.models.fit import DEFAULT_METHOD, fit_log
from monocal.models.model import Model
from monocal.spark.workers import collected, keep_compiled_loops, refusals_of_workers
from monocal.tables.categories import distinct_text
from monocal.tables.roles import Columns, Roles, columns_of
from monocal.tables.table import Table
from monocal.tables.value_index import most_frequent, without_long_texts
from monocal.tables.vocabulary import FieldVocabulary, Vocabulary
from monocal.tables.vocabulary_file import read_vocabulary, vocabulary_bytes

_COUNTS = "field int, value string, rows long"
_PIECES = "file string, at long, data binary"
_PIECE_BYTES = 1 << 20
_ADAPTIVE = "spark.sql.adaptive.enabled"
_MANY = 100_000
"""More rows than a cluster has slots."""

_ON_ONE_MACHINE = {
    "numeric": "nothing in a fit on Spark",
    "label_time": "labels that have all come: what delays are like is learned from all rows in one place",
}
"""Arguments of `monocal.fit` that a fit on Spark does not have, and what it expects instead."""


def fit(
    df: Any,
    roles: Roles | None = None,
    *,
    method: str | Calibrator = DEFAULT_METHOD,
    min_count: int = 1,
    max_size: int | None = None,
    hashed_fields: Mapping[str, int] | None = None,
    workers: int = 2,
    **columns: Unpack[Columns],
) -> Model:
    """Fits one calibrator per task on a Spark table and returns an ordinary model.

    The rows must fit into the memory of the tasks together. Methods that are no sums over rows (`isotonic`, `platt` and
    others) are fitted by `monocal.fit(df, …)`, which brings the columns it needs to this machine.

    Arguments:
        df: The table.
        roles: Which column is what, or the same by name; methods that tell older rows from newer ones need the time.
        method: One that several processes can fit together, such as "umc" or `monocal.WideLogistic(l2=1.0)`.
        min_count: Field values with fewer rows count as unseen.
        max_size: The most values a field may have; rarer ones count as unseen.
        hashed_fields: Field to number of buckets, for fields whose values are hashed instead of listed.
        workers: Tasks that fit together; the session needs as many slots at the same time.
        columns: In place of roles: `score`, `label`, `fields`, `time` and others.

    Example:
        model = fit(spark.table("ads.log"), method="umc", score="pctr", label="click", fields=["site"], time="ts")
        model.save("model")
    """
    chosen = calibrator(method)
    parts = Roles(**columns_of(fit, roles, columns, chosen))
    parts.check_scores()
    for name, expected in _ON_ONE_MACHINE.items():
        if value := getattr(parts, name):
            hint = "fit on one machine, on the newest rows; apply and evaluate take that model"
            raise InvalidInput.of(name, value, expected, hint)
    _check_method(chosen, parts.time)
    parts.check_columns(df.columns)
    check_slots(df.sparkSession, workers)
    known = vocabulary(df, parts.fields, min_count=min_count, max_size=max_size, hashed_fields=hashed_fields)
    return _fit_in_barrier(df, parts, known, chosen, workers)


def vocabulary(
    df: Any,
    fields: Sequence[str],
    *,
    min_count: int = 1,
    max_size: int | None = None,
    hashed_fields: Mapping[str, int] | None = None,
) -> Vocabulary:
    """Returns the values of fields with their ids: those of `Vocabulary.of_table`, in the same order.

    Values are counted batch by batch, added up by Spark and pruned there; only what is kept comes to the driver, some
    60 bytes a value. For fields of more than a few million values raise `min_count`, or hash them.

    Arguments:
        df: The table.
        fields: Categorical columns, in the order of ids.
        min_count: Values with fewer rows count as unseen.
        max_size: The most values a field may have; rarer ones count as unseen.
        hashed_fields: Field to number of buckets, for fields whose values are hashed instead of listed.
    """
    from pyspark.sql import functions as F

    hashed = dict(hashed_fields or {})
    for name in hashed:
        check_known("hashed field", name, fields)
    for name in fields:
        check_known("field column", name, df.columns)
    listed = [name for name in fields if name not in hashed]

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, name in enumerate(listed):
                values, rows, _ = distinct_text(batch.column(name), name)
                values, rows = without_long_texts(values, rows, name)
                of_field = pa.repeat(pa.scalar(number, pa.int32()), len(values))
                yield pa.RecordBatch.from_arrays([of_field, values, pa.array(rows)], names=["field", "value", "rows"])

    found: dict[str, pa.Array] = {}
    if listed:
        columns = df.select(*(f"`{name}`" for name in listed))
        added = columns.mapInArrow(counted, _COUNTS).groupBy("field", "value").agg(F.sum("rows").alias("rows"))
        kept = added.where(F.col("rows") >= max(min_count, 1))
        if max_size is not None:
            parts = [
                kept.where(F.col("field") == number).orderBy(F.desc("rows"), F.asc_nulls_last("value")).limit(max_size)
                for number in range(len(listed))
            ]
            kept = parts[0]
            for part in parts[1:]:
                kept = kept.unionAll(part)
        table = collected(kept)
        numbers = table.column("field").to_numpy()
        for number, name in enumerate(listed):
            mine = table.filter(pa.array(numbers == number))
            values = mine.column("value").combine_chunks().cast(pa.string())
            found[name] = most_frequent(values, mine.column("rows").to_numpy(), max_size=max_size)
    return Vocabulary(
        tuple(
            FieldVocabulary.hashed(name, hashed[name]) if name in hashed else FieldVocabulary(name, found[name])
            for name in fields
        )
    )


def _check_method(chosen: Calibrator, time: str | None) -> None:
    if not chosen.fits_in_parts:
        expected = "one that several processes can fit together, such as 'umc' or 'wide_logistic'"
        hint = "monocal.fit(df, …) brings the columns that it needs to this machine and fits any method"
        raise InvalidInput.of("method", repr(chosen.name), expected, hint)
    if chosen.looks_at_time and time is None:
        expected = f"a column that tells older rows from newer ones, for {chosen.name!r} with these arguments"
        hint = 'name the column, or set carry="none", recent_share=0 and guard=False'
        raise InvalidInput.of("time", None, expected, hint)


def _fit_in_barrier(df: Any, roles: Roles, known: Vocabulary, method: Calibrator, workers: int) -> Model:
    """Fits in one barrier stage; the first task sends the model in pieces.

    Rows go to the task that a hash of their contents names and are put in order there, so that a stage that has to
    start again (a task was lost) gives the same bits.
    """
    session, values = df.sparkSession, vocabulary_bytes(known)

    def train(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        keep_compiled_loops()
        rows, refusal = None, ""
        try:
            rows = _rows_of_task(batches, roles, read_vocabulary(values))
        except InvalidInput as error:
            refusal = str(error)
        with _joined(workers, refusal) as team:
            model = fit_log(cast("Table", rows), method, team=team, has_whole_log=False)
            for name, data in model_files(model).items() if team.rank == 0 else ():
                for at in range(0, len(data), _PIECE_BYTES):
                    piece = [pa.array([name]), pa.array([at]), pa.array([data[at : at + _PIECE_BYTES]], pa.binary())]
                    yield pa.RecordBatch.from_arrays(piece, names=["file", "at", "data"])

    columns = [f"`{name}`" for name in roles.columns]
    order = [f"`{roles.time}`", *columns] if roles.time else columns
    dealt = df.select(*columns).repartition(workers, *columns).sortWithinPartitions(*order)
    before = session.conf.get(_ADAPTIVE)
    # a barrier stage that finds too few slots under adaptive execution takes the whole session with it
    session.conf.set(_ADAPTIVE, "false")
    try:
        # a stage after the barrier, so that the barrier's own can start again when a task is lost
        with refusals_of_workers():
            pieces = dealt.mapInArrow(train, _PIECES, barrier=True).repartition(1).collect()
    finally:
        session.conf.set(_ADAPTIVE, before)
    files: dict[str, bytes] = {}
    for piece in sorted(pieces, key=lambda row: (row["file"], row["at"])):
        files[piece["file"]] = files.get(piece["file"], b"") + bytes(piece["data"])
    return load_model(files)


def _rows_of_task(batches: Iterator[pa.RecordBatch], roles: Roles, known: Vocabulary) -> Table:
    """Returns a task's rows, encoded: texts of fields become numbers batch by batch, and only their values stay."""
    coded = []
    for batch in batches:
        texts = {name: batch.column(name).dictionary_encode() for name in roles.fields}
        arrays = [texts.get(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
        coded.append(pa.RecordBatch.from_arrays(arrays, names=batch.schema.names))
    if not any(batch.num_rows for batch in coded):
        raise InvalidInput.of("workers", "a task without rows", "rows for every task", "fit with fewer workers")
    rows = Table.read(pa.Table.from_batches(coded).unify_dictionaries(), roles)
    if rows.weights is not None and rows.weights.any():
        check_weights(rows.weights, rows.n_rows)
    ids = known.encode_columns({name: rows.fields[name] for name in known.names}, rows.n_rows)
    # rows of another task may have soft labels and hence weights, and all rows have the same bits wherever they are
    weights = np.ones(rows.n_rows) if roles.soft_labels and rows.weights is None else rows.weights
    return replace(rows, fields={}, weights=weights, features=ids, vocabulary=known)


@contextmanager
def _joined(workers: int, refusal: str) -> Iterator[Reducer]:
    """Lets the tasks of this stage find each other: the first opens a place, everybody hears its address.

    Arguments:
        workers: How many tasks there are.
        refusal: What is wrong with this task's rows; every task raises the first one, not that another was lost.
    """
    from pyspark import BarrierTaskContext

    from monocal.core.process_group import join, leave, open_store

    context = BarrierTaskContext.get()
    if refusals := list(filter(None, context.allGather(refusal))):
        raise InvalidInput(refusals[0])
    rank, place, offer = context.partitionId(), None, ""
    if rank == 0:
        host = context.getTaskInfos()[0].address.rsplit(":", 1)[0]
        place = open_store(host, workers)
        offer = f"{host}:{place.port}"
    host, port = context.allGather(offer)[0].rsplit(":", 1)
    try:
        yield join(host, int(port), rank, workers, place)
    finally:
        leave()


def check_slots(session: Any, workers: int) -> None:
    """Refuses what Spark would wait for in vain: tasks that start together need as many slots, which stay."""
    if workers < 1:
        raise InvalidInput.of("workers", workers, "a whole number ≥ 1", "leave it out to use 2")
    if session.conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        expected = "false: tasks of a barrier stage start together"
        raise InvalidInput.of("spark.dynamicAllocation.enabled", "true", expected, "turn it off")
    slots = _slots(session)
    if workers > slots:
        raise InvalidInput.of("workers", workers, f"at most the {slots} slots that Spark has", "ask for fewer")


def _slots(session: Any) -> int:
    """How many tasks can run at a time, as far as the session shows it."""
    context = getattr(session, "_sc", None)
    if context is not None:
        scheduler = context._jsc.sc()
        return int(scheduler.maxNumConcurrentTasks(scheduler.resourceProfileManager().defaultResourceProfile()))
    # Connect shows no context, but a range there has a partition per slot, unless `spark.default.parallelism` says else
    return int(session.range(_MANY).selectExpr("spark_partition_id() AS slot").distinct().count())
