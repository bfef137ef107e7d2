"""Rankers without a network: scores that are already in the log, and a logistic regression over hashed values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, check_known
from monocal.core.fields import Ids
from monocal.core.process import progress
from monocal.core.scores import Floats, logit, sigmoid, to_logits
from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.lab.rankers.base import Ranker, chosen_tasks


@final
class Precomputed(Ranker):
    """Hands over the scores of an existing ranker, as logits.

    It learns nothing; the schema says which columns hold the scores and in which space they live. A sampling rate
    is not undone here: calibrators and metrics do that, once.

    Arguments:
        tasks: Which tasks; None means every task that has a score column.

    Example:
        >>> import pyarrow as pa
        >>> from monocal.lab.prepare.encoded_log import EncodedLog
        >>> from monocal.tables.roles import Roles
        >>> from monocal.tables.vocabulary import Vocabulary
        >>> vocabulary = Vocabulary.of_table(pa.table({"site": ["a", "b"]}), ["site"])
        >>> schema = Roles(label="click", fields=["site"], score="pctr")
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
            check_known("task with a score", task, log.scores)
        return tuple(self.tasks or log.scores)

    def _fit(self, _train: EncodedLog, _show_progress: bool | None) -> None:
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


_FLOOR = 1e-8


@final
class HashedLogistic(Ranker):
    r"""One weight per hashed field value and an intercept, learned in one pass.

    .. math:: z(x) = b + \sum_f w[h(f, x_f)]

    Weights are stepped by Adagrad, each with its own rate: :math:`w \leftarrow w - \eta\,g / \sqrt{\sum g^2}`, so rare
    values learn quickly and frequent ones settle. Values never seen in training keep weight 0. Memory is fixed by
    `bits`; two values that share a bucket share a weight.

    Arguments:
        bits: There are two to this power weights per task.
        learning_rate: η.
        l2: Strength of the pull to zero on the weights a batch touches.
        batch_rows: Rows per step.
        n_epochs: Passes over the log.
        tasks: Which tasks; None means all of the log.
        negative_rate: Share of the negatives to learn from; logits are corrected by its logarithm.
    """

    name: ClassVar[str] = "hashed_logistic"

    def __init__(
        self,
        bits: int = 20,
        learning_rate: float = 0.1,
        l2: float = 1e-6,
        batch_rows: int = 4096,
        n_epochs: int = 1,
        tasks: Sequence[str] | None = None,
        negative_rate: float = 1.0,
    ) -> None:
        self.bits = bits
        self.learning_rate = learning_rate
        self.l2 = l2
        self.batch_rows = batch_rows
        self.n_epochs = n_epochs
        self.tasks = tasks
        self.negative_rate = negative_rate

    def _tasks(self, log: EncodedLog) -> tuple[str, ...]:
        return chosen_tasks(self.tasks, log.tasks)

    def _fit(self, train: EncodedLog, show_progress: bool | None) -> None:
        n_buckets = 1 << self.bits
        self.weights_ = np.zeros((len(self.tasks_), n_buckets), np.float32)
        self.intercepts_ = np.array([_start(train, task) for task in self.tasks_])
        squares = np.zeros_like(self.weights_)
        bias_squares = np.zeros(len(self.tasks_))
        gradient = np.zeros(n_buckets, np.float32)
        with progress(self.name, train.n_rows * self.n_epochs, show=show_progress) as bar:
            for _epoch in range(self.n_epochs):
                for batch in train.batches(self.batch_rows):
                    buckets = self._buckets(batch.features)
                    for place, task in enumerate(self.tasks_):
                        labels = batch.labels[task]
                        errors = sigmoid(self._logits(place, buckets)) - labels
                        errors *= labels >= 0
                        if batch.weights is not None:
                            errors *= batch.weights
                        self._step(place, buckets, errors, squares, bias_squares, gradient)
                    bar.advance(len(batch.features))

    def _step(
        self,
        place: int,
        buckets: NDArray[np.int64],
        errors: Floats,
        squares: NDArray[np.float32],
        bias_squares: Floats,
        gradient: NDArray[np.float32],
    ) -> None:
        weights, flat = self.weights_[place], buckets.ravel()
        np.add.at(gradient, flat, np.repeat(errors.astype(np.float32), buckets.shape[1]))
        # A bucket that occurs twice is computed twice with the same result, which is cheaper than sorting buckets.
        total = gradient[flat] + np.float32(self.l2 * len(errors)) * weights[flat]
        gradient[flat] = 0.0
        seen = squares[place][flat] + total * total
        squares[place][flat] = seen
        weights[flat] -= np.float32(self.learning_rate) * total / (np.sqrt(seen) + np.float32(_FLOOR))
        bias_total = float(errors.sum())
        bias_squares[place] += bias_total**2
        self.intercepts_[place] -= self.learning_rate * bias_total / (np.sqrt(bias_squares[place]) + _FLOOR)

    def _score(self, log: EncodedLog, show_progress: bool | None) -> dict[str, Floats]:
        out = {task: np.empty(log.n_rows) for task in self.tasks_}
        start = 0
        with progress("scoring", log.n_rows, show=show_progress) as bar:
            for batch in log.batches(16 * 4096):
                buckets = self._buckets(batch.features)
                for place, task in enumerate(self.tasks_):
                    out[task][start : start + len(buckets)] = self._logits(place, buckets)
                start += len(buckets)
                bar.advance(len(buckets))
        return out

    def _logits(self, place: int, buckets: NDArray[np.int64]) -> Floats:
        logits: Floats = self.weights_[place][buckets].sum(axis=1, dtype=np.float64) + self.intercepts_[place]
        return logits

    def _buckets(self, features: Ids) -> NDArray[np.int64]:
        """Multiplies (field, id) by an odd constant and keeps the top bits, which mixes neighbouring ids well."""
        fields = np.arange(features.shape[1], dtype=np.uint64) << np.uint64(32)
        keys = (features.astype(np.uint64) + fields) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(32)
        keys *= np.uint64(0xD6E8FEB86659FD93)
        return (keys >> np.uint64(64 - self.bits)).astype(np.int64)

    def _state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return {"weights": self.weights_, "intercepts": self.intercepts_}, {}

    def _restore(self, arrays: dict[str, NDArray[Any]], _values: dict[str, Any]) -> None:
        self.weights_, self.intercepts_ = arrays["weights"], arrays["intercepts"]


def _start(train: EncodedLog, task: str) -> float:
    labels = train.labels[task]
    n_seen = int(np.count_nonzero(labels >= 0))
    return float(logit(int(np.count_nonzero(labels == 1)) / n_seen))
