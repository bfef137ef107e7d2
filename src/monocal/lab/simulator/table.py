"""The simulated log as an Arrow table with string values, and as an encoded log for work that starts after encoding."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.lab.simulator.outcomes import TASKS
from monocal.tables.roles import Roles
from monocal.tables.vocabulary import FieldVocabulary, Vocabulary

if TYPE_CHECKING:
    from monocal.lab.simulator.log import SimulatedLog


def to_table(log: SimulatedLog) -> pa.Table:
    """Turns ids into strings such as `site_17` and puts scores, labels and truths beside them."""
    columns: dict[str, Any] = {"timestamp": pa.array(log.times)}
    if "user_id" not in log.field_names:
        columns["user_id"] = _strings(log.users, "user_id", int(log.users.max()) + 1)
    for place, (name, size) in enumerate(zip(log.field_names, log.field_sizes, strict=True)):
        columns[name] = _strings(log.features[:, place].copy(), name, size)
    for task in log.tasks:
        columns[TASKS[task].score] = pa.array(log.task_scores[task])
        columns[task] = pa.array(log.task_labels[task])
        columns[TASKS[task].truth] = pa.array(log.task_truths[task])
    return pa.table(columns)


def field_values(name: str, size: int) -> Any:
    """Returns the text of ids 0 … size − 1 (id 0 never occurs in a simulated log)."""
    return _values(name, 1 << (size - 1).bit_length())[:size]


def _strings(ids: Any, name: str, size: int) -> Any:
    return field_values(name, size).take(pa.array(ids))


@lru_cache(maxsize=64)
def _values(name: str, size: int) -> Any:
    # Sizes are rounded up to powers of two, so that batches whose largest id differs share one list.
    prefix = name.removesuffix("_id")
    return pa.array([f"{prefix}_{number}" for number in range(size)])


def to_encoded_log(log: SimulatedLog) -> EncodedLog:
    """Keeps the simulator's ids; the vocabulary lists every value a field can have, seen or not."""
    vocabulary = Vocabulary(
        tuple(
            FieldVocabulary(name, field_values(name, size)[1:])
            for name, size in zip(log.field_names, log.field_sizes, strict=True)
        )
    )
    schema = Roles(
        tasks={task: (task, TASKS[task].score) for task in log.tasks},
        fields=log.field_names,
        time="timestamp",
        group="user_id",
    )
    return EncodedLog.of(
        log.features,
        log.task_labels,
        vocabulary,
        schema,
        times=log.times,
        groups=log.users,
        scores=log.task_scores,
    )
