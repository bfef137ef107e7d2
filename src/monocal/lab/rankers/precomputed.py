"""Scores that are already in the log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, final

from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.spaces import Floats, to_logits
from monocal.lab.rankers.base import Ranker
from monocal.logs.encoded_log import EncodedLog


@final
class Precomputed(Ranker):
    """Hands over the scores of an existing ranker, as logits.

    It learns nothing; the schema says which columns hold the scores and in which space they live. A sampling rate
    is not undone here: calibrators and metrics do that, once.

    Arguments:
        tasks: Which tasks; None means every task that has a score column.

    Example:
        >>> import pyarrow as pa
        >>> from monocal.logs.encoded_log import EncodedLog
        >>> from monocal.tables.roles import Roles
        >>> from monocal.tables.vocabulary import Vocabulary
        >>> vocabulary = Vocabulary.of_table(pa.table({"site": ["a", "b"]}), ["site"])
        >>> schema = Roles(labels="click", fields=["site"], scores="pctr")
        >>> log = EncodedLog.of([[1], [2]], {"click": [0, 1]}, vocabulary, schema, scores={"click": [0.5, 0.8]})
        >>> Precomputed().score(log).round(3).tolist()
        [0.0, 1.386]
    """

    name: ClassVar[str] = "precomputed"
    learns: ClassVar[bool] = False

    def __init__(self, tasks: Sequence[str] | None = None) -> None:
        self.tasks = tasks

    def _tasks(self, log: EncodedLog) -> tuple[str, ...]:
        if not log.scores:
            raise InvalidInput.of(
                "log", "no score column", "scores of an existing ranker", "name them in the schema: scores='pctr'"
            )
        for task in self.tasks or ():
            if task not in log.scores:
                raise UnknownName.among("task with a score", task, log.scores)
        return tuple(self.tasks or log.scores)

    def _fit(self, _train: EncodedLog, _checkpoints: Path | None, _show_progress: bool | None) -> None:
        self.notes_ = ("the scores were in the log",)

    def _score(self, log: EncodedLog, _show_progress: bool | None) -> dict[str, Floats]:
        return {
            task: to_logits(log.scores[task], log.roles.scores_are, f"score of task {task!r}")
            for task in self._tasks(log)
        }

    def _state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return {}, {}

    def _restore(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None:
        pass
