"""The simulated log as an encoded log, for work that starts after encoding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monocal.lab.simulator.table import field_values
from monocal.lab.simulator.tasks import TASKS
from monocal.logs.encoded_log import EncodedLog
from monocal.tables.roles import Roles
from monocal.tables.vocabulary import FieldVocabulary, Vocabulary

if TYPE_CHECKING:
    from monocal.lab.simulator.log import SimulatedLog


def to_encoded_log(log: SimulatedLog) -> EncodedLog:
    """Keeps the simulator's ids; the vocabulary lists every value a field can have, seen or not."""
    vocabulary = Vocabulary(
        tuple(
            FieldVocabulary(name, field_values(name, size)[1:])
            for name, size in zip(log.field_names, log.field_sizes, strict=True)
        )
    )
    schema = Roles(
        labels={task: task for task in log.tasks},
        fields=log.field_names,
        time="timestamp",
        group="user_id",
        scores={task: TASKS[task].score for task in log.tasks},
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
