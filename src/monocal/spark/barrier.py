"""A fit by the tasks of one barrier stage, which form a process group: iterations never become Spark jobs."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from monocal.calibrators import calibrator
from monocal.core.errors import InvalidInput
from monocal.core.roles import Roles
from monocal.core.team import Shards
from monocal.models.artefact import load_model, model_files
from monocal.models.model import Model, TaskModel
from monocal.tables.read import read
from monocal.tables.rows import Rows
from monocal.vocabulary.vocabulary import Vocabulary

_SCHEMA = "file string, at long, data binary"
_PIECE = 1 << 20
_ADAPTIVE = "spark.sql.adaptive.enabled"


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
    _check_slots(session, workers)
    values = known.to_bytes()

    def train(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        vocabulary = Vocabulary.of_bytes(values)
        with _joined_team(workers) as team:
            found = list(batches)
            rows = read(pa.Table.from_batches(found), roles) if sum(one.num_rows for one in found) else None
            tasks = [
                _fit_task(rows, roles, vocabulary, task, calibrator(method, **arguments), team) for task in roles.labels
            ]
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
        pieces = dealt.mapInArrow(train, _SCHEMA, barrier=True).repartition(1).collect()
    finally:
        session.conf.set(_ADAPTIVE, before)
    files: dict[str, bytes] = {}
    for piece in sorted(pieces, key=lambda one: (one["file"], one["at"])):
        files[piece["file"]] = files.get(piece["file"], b"") + bytes(piece["data"])
    return load_model(files)


def _check_slots(session: Any, workers: int) -> None:
    if session.conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        raise InvalidInput.of(
            "spark.dynamicAllocation.enabled", "true", "false: tasks of a barrier stage start together", "turn it off"
        )
    context = getattr(session, "_sc", None)  # Spark Connect has none, and Spark itself will refuse
    if context is not None and workers > context.defaultParallelism:
        raise InvalidInput.of(
            "workers",
            workers,
            f"at most the {context.defaultParallelism} slots that Spark has",
            "ask for fewer",
        )


@contextmanager
def _joined_team(workers: int) -> Iterator[Any]:
    """Lets the tasks of this stage find each other: the first offers an address, everybody hears it."""
    from pyspark import BarrierTaskContext

    from monocal.training.process_group import launched_team, leave_team

    context = BarrierTaskContext.get()
    rank = context.partitionId()
    offer = ""
    if rank == 0:
        host = context.getTaskInfos()[0].address.rsplit(":", 1)[0]
        with socket.socket() as free:
            free.bind((host, 0))
            offer = f"{host}:{free.getsockname()[1]}"
    host, port = context.allGather(offer)[0].rsplit(":", 1)
    os.environ.update(MASTER_ADDR=host, MASTER_PORT=port, RANK=str(rank), WORLD_SIZE=str(workers))
    try:
        yield launched_team()
    finally:
        leave_team()


def _fit_task(rows: Rows | None, roles: Roles, vocabulary: Vocabulary, task: str, one: Any, team: Any) -> TaskModel:
    if rows is None:
        scores, labels = np.zeros(0), np.zeros(0, np.int8)
        features, weights, rates = np.zeros((0, len(vocabulary.fields)), np.int32), None, None
        times = None if roles.time is None else np.zeros(0, np.int64)
    else:
        seen = rows.observed(task)
        scores, labels, weights, rates = seen.scores[task], seen.labels[task], seen.weights, seen.rates
        times = seen.times
        features = vocabulary.encode_columns({name: seen.fields[name] for name in vocabulary.names}, seen.n_rows)
    shards = Shards(team, team.size, (team.rank,), np.array([0, len(scores)]), times)
    one.fit(
        scores,
        labels,
        features=features if features.shape[1] else None,
        weights=weights,
        times=times if one.looks_at_time else None,
        scores_are=roles.scores_are,
        sampling_rate=rates,
        shards=shards,
    )
    one.sampling_rate_ = "per row" if isinstance(roles.sampling_rate, str) else roles.sampling_rate
    return TaskModel(task, roles.score_columns.get(task, task), roles.labels[task], one)
