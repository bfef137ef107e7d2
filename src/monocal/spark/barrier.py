"""A fit by the tasks of one barrier stage, which form a process group: iterations never become Spark jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from monocal.calibrators import Calibrator, calibrator
from monocal.core.dataset import ChosenIds, Dataset
from monocal.core.errors import InvalidInput
from monocal.core.fields import Ids
from monocal.core.reduce import Partition, Reducer
from monocal.models.artefact import load_model, model_files
from monocal.models.model import Model, TaskModel
from monocal.spark.collecting import refusals_of_workers
from monocal.spark.shipping import let_loops_be_kept
from monocal.spark.task_rows import rows_of_task
from monocal.tables.roles import Roles
from monocal.tables.table import Table
from monocal.tables.vocabulary import Vocabulary

_SCHEMA = "file string, at long, data binary"
_PIECE = 1 << 20
_ADAPTIVE = "spark.sql.adaptive.enabled"
_PARALLELISM = "spark.default.parallelism"
_MANY = 100_000
"""More rows than a cluster has slots."""


def fit_in_barrier(
    df: Any, roles: Roles, known: Vocabulary, method: str, arguments: Mapping[str, Any], workers: int
) -> Model:
    """Returns a model whose calibrators were fitted by `workers` tasks together, each on its own shard of the rows.

    Rows go to the task that a hash of their contents names and are put in order there, so that a stage that has to
    start again (a task was lost) gives the same bits. The model comes back from the first task in pieces.

    Arguments:
        df: The table, with the columns of the roles alone.
        roles: Which column plays which part.
        known: The fields' vocabulary.
        method: A method that is fitted in shards.
        arguments: Its constructor arguments.
        workers: How many tasks; each needs a slot at the same time.
    """
    session = df.sparkSession
    values = known.to_bytes()

    def train(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        let_loops_be_kept()
        vocabulary = Vocabulary.of_bytes(values)
        with _joined_team(workers) as team:
            rows = rows_of_task(batches, roles, vocabulary)
            tasks = [_fit_task(rows, roles, task, calibrator(method, **arguments), team) for task in roles.labels]
            if team.rank == 0:
                model = Model(tuple(tasks), vocabulary, roles.scores_are, roles.sampling_rate)
                for name, data in model_files(model).items():
                    for at in range(0, len(data), _PIECE):
                        piece = [pa.array([name]), pa.array([at]), pa.array([data[at : at + _PIECE]], pa.binary())]
                        yield pa.RecordBatch.from_arrays(piece, names=["file", "at", "data"])

    columns = [f"`{name}`" for name in roles.columns]
    order = [f"`{roles.time}`", *columns] if roles.time else columns
    dealt = df.repartition(workers, *columns).sortWithinPartitions(*order)
    before = session.conf.get(_ADAPTIVE)
    # a barrier stage that finds too few slots under adaptive execution takes the whole session with it
    session.conf.set(_ADAPTIVE, "false")
    try:
        # a stage after the barrier, so that the barrier's own can start again when a task is lost
        with refusals_of_workers():
            pieces = dealt.mapInArrow(train, _SCHEMA, barrier=True).repartition(1).collect()
    finally:
        session.conf.set(_ADAPTIVE, before)
    files: dict[str, bytes] = {}
    for piece in sorted(pieces, key=lambda row: (row["file"], row["at"])):
        files[piece["file"]] = files.get(piece["file"], b"") + bytes(piece["data"])
    return load_model(files)


def check_slots(session: Any, workers: int) -> None:
    """Refuses what Spark would wait for in vain: tasks that start together need as many slots, which stay."""
    if workers < 1:
        raise InvalidInput.of("workers", workers, "a whole number ≥ 1", "leave it out to use 2")
    if session.conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        raise InvalidInput.of(
            "spark.dynamicAllocation.enabled", "true", "false: tasks of a barrier stage start together", "turn it off"
        )
    slots = _slots(session)
    if workers > slots:
        raise InvalidInput.of("workers", workers, f"at most the {slots} slots that Spark has", "ask for fewer")


def _slots(session: Any) -> int:
    """How many tasks can run at a time."""
    context = getattr(session, "_sc", None)
    if context is not None:
        if session.conf.get(_PARALLELISM, None) is None:
            return int(context.defaultParallelism)
        # as a setting it may be any number; then the executors are counted that are there now, as the stage does
        scheduler = context._jsc.sc()
        return int(scheduler.maxNumConcurrentTasks(scheduler.resourceProfileManager().defaultResourceProfile()))
    # Connect shows no context, but a range there has a partition per slot, or as many as that setting says; the stage
    # itself would wait ten minutes
    rows = session.range(_MANY).selectExpr("spark_partition_id() AS slot")
    return int(rows.distinct().count())


@contextmanager
def _joined_team(workers: int) -> Iterator[Reducer]:
    """Lets the tasks of this stage find each other: the first opens a place, everybody hears its address."""
    from pyspark import BarrierTaskContext

    from monocal.training.process_group import leave_team, meeting_place, met_team

    context = BarrierTaskContext.get()
    rank, place, offer = context.partitionId(), None, ""
    if rank == 0:
        host = context.getTaskInfos()[0].address.rsplit(":", 1)[0]
        place = meeting_place(host, workers)
        offer = f"{host}:{place.port}"
    host, port = context.allGather(offer)[0].rsplit(":", 1)
    try:
        yield met_team(host, int(port), rank, workers, place)
    finally:
        leave_team()


def _fit_task(found: tuple[Table, Ids], roles: Roles, task: str, fitted: Calibrator, team: Reducer) -> TaskModel:
    rows, ids = found
    known = rows.labels[task] >= 0
    seen, features = (rows, ids)
    if not known.all():
        seen, features = rows.take(known), ChosenIds.of(ids, np.flatnonzero(known))
    times = seen.times if fitted.looks_at_time else None
    # without a time column rows come in the order of their contents, and none is older than another
    is_unknown = roles.time is None and not fitted.looks_at_time
    order = np.zeros(seen.n_rows, np.int64) if is_unknown else times
    # where another task has soft labels, its rows have weights, and all rows must have the same bits wherever they are
    weights = np.ones(seen.n_rows) if roles.soft_labels and seen.weights is None else seen.weights
    data = Dataset.of(
        seen.scores[task],
        seen.labels[task],
        features=features if features.shape[1] else None,
        weights=weights,
        times=times,
        scores_are=roles.scores_are,
        sampling_rate=seen.rates,
        partition=Partition(team, team.size, (team.rank,), np.array([0, seen.n_rows]), order),
    )
    fitted.fit_data(data, scores_are=roles.scores_are)
    fitted.sampling_rate_ = "per row" if isinstance(roles.sampling_rate, str) else roles.sampling_rate
    return TaskModel(task, roles.score_columns.get(task, task), roles.labels[task], fitted)
