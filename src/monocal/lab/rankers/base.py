"""The ranker contract: learn from the oldest part of a log, score all of it; saved as a folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from sklearn.base import BaseEstimator

from monocal.calibrators.contract import check_arguments
from monocal.core.errors import ArtefactError, InvalidInput, check_known
from monocal.core.folder import FolderFormat, fingerprint, write_arrays
from monocal.core.scores import Floats, sampling_shift
from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.lab.rankers.lists import keep_share_of_negatives
from monocal.lab.rankers.scored_log import Tables

STATE = "state.safetensors"


RANKER_FOLDER = FolderFormat(
    "monocal ranker",
    4,
    "ranker.json",
    called="a saved ranker",
    remedy="save the ranker again",
    anew="fit the ranker again with this version",
    known=(STATE,),
)
"""How a ranker lies on disk."""


def save_ranker(ranker: Ranker, folder: Path) -> None:
    """Writes a fitted ranker, whole or not at all."""
    arrays, values = ranker._state()
    with RANKER_FOLDER.writing(folder) as temporary:
        write_arrays(temporary / STATE, arrays)
        entries = {
            "class": type(ranker).__name__,
            "parameters": ranker.get_params(),
            "tasks": list(ranker.tasks_),
            "field_names": list(ranker.field_names_),
            "field_sizes": list(ranker.field_sizes_),
            "identity": ranker.fingerprint_,
            "notes": list(ranker.notes_),
            "values": values,
        }
        RANKER_FOLDER.seal(temporary, entries)


def load_ranker(folder: str | Path) -> Ranker:
    """Reads a saved ranker of any class.

    A damaged, tampered or newer folder is refused with `ArtefactError` and nothing is loaded.
    """
    import monocal.lab.rankers as catalogue

    folder = Path(folder)
    manifest = RANKER_FOLDER.read(folder)
    RANKER_FOLDER.verify(folder, manifest)
    try:
        classes = {kind.__name__: kind for kind in catalogue.RANKERS.values()}
        if manifest["class"] not in classes:
            raise ArtefactError(f"{folder} holds a {manifest['class']!r}, which this version does not know")
        parameters = {k: tuple(v) if isinstance(v, list) else v for k, v in manifest["parameters"].items()}
        ranker = classes[manifest["class"]](**parameters)
        ranker.tasks_ = tuple(manifest["tasks"])
        ranker.field_names_ = tuple(manifest["field_names"])
        ranker.field_sizes_ = tuple(manifest["field_sizes"])
        ranker.fingerprint_ = manifest["identity"]
        ranker.notes_ = tuple(manifest["notes"])
        ranker._restore(load_file(folder / STATE), manifest["values"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RANKER_FOLDER.damaged(folder, error) from error
    return ranker


class Ranker(BaseEstimator, ABC):  # type: ignore[misc]
    """Scores impressions: learns from an encoded log, gives one logit per row and task.

    A subclass writes `__init__` (which only stores), `name`, `_tasks`, `_fit`, `_score`, `_state` and `_restore`, and
    `_embeddings` if it has any. Checking, fingerprints and files are done here.

    Attributes:
        tasks_: The tasks it scores, after fitting.
        field_names_: The fields it was trained on.
        field_sizes_: Their sizes, id 0 included.
        fingerprint_: Changes with the class, the parameters and the rows it was trained on.
        notes_: What somebody comparing results should know about the training.
    """

    name: ClassVar[str]
    learns: ClassVar[bool] = True
    neutral_parameters: ClassVar[frozenset[str]] = frozenset()
    """Parameters that change how fast or how safely it works, but never the result."""

    negative_rate: float = 1.0
    """Share of the negatives to learn from; logits are corrected, so that they belong to the whole log."""

    @final
    def fit(self, train: EncodedLog, *, show_progress: bool | None = None) -> Self:
        """Learns from a log.

        Arguments:
            train: The rows to learn from, in time order.
            show_progress: True or False to decide; None shows a bar on a terminal.
        """
        check_arguments(type(self), self.get_params(deep=False))
        if train.n_rows == 0:
            raise InvalidInput.of("train", "no rows", "at least one row", "check the split")
        tasks = self._tasks(train)
        for task in tasks:
            check_known("task", task, train.labels)
        rows = train
        if self.learns:
            rows = keep_share_of_negatives(train, tasks, self.negative_rate, self.get_params().get("seed", 0))
            for task in tasks:
                _check_classes(rows, task)
        for learned in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, learned)
        self.tasks_ = tasks
        self.field_names_, self.field_sizes_ = train.field_names, train.field_sizes
        self.fingerprint_ = self.plan(train)
        self.notes_: tuple[str, ...] = ()
        self._fit(rows, show_progress)
        if self.negative_rate != 1.0:
            self.notes_ += (f"learned from {self.negative_rate:g} of the negatives; logits are corrected for it",)
        return self

    @final
    def score(self, log: EncodedLog, task: str | None = None, *, show_progress: bool | None = None) -> Floats:
        """Returns one logit per row for one task (by default the first).

        Arguments:
            log: Rows encoded with the vocabulary of training.
            task: One of `tasks_`.
            show_progress: As in `fit`.
        """
        scores = self.score_tasks(log, show_progress=show_progress)
        chosen = next(iter(scores)) if task is None else task
        check_known("task", chosen, scores)
        return scores[chosen]

    @final
    def score_tasks(self, log: EncodedLog, *, show_progress: bool | None = None) -> dict[str, Floats]:
        """Returns one logit per row for every task; `show_progress` None shows it on a terminal."""
        if self.learns:
            self._check_fitted()
            self._check_fields(log)
        shift = sampling_shift(self.negative_rate, log.n_rows)
        return {task: logits + shift for task, logits in self._score(log, show_progress).items()}

    @final
    def embeddings(self) -> Tables | None:
        """Returns one table of vectors per field, or None if this ranker has none."""
        if self.learns:
            self._check_fitted()
        return self._embeddings()

    @final
    def plan(self, train: EncodedLog) -> str:
        """Returns the fingerprint that fitting on these rows would give."""
        neutral = {*self.neutral_parameters, *(["negative_rate"] if self.negative_rate == 1.0 else [])}
        parameters = {k: v for k, v in self.get_params().items() if k not in neutral}
        return fingerprint(type(self).__name__, parameters, train.fingerprint if self.learns else None)

    @final
    def save(self, folder: str | Path) -> None:
        """Writes the fitted ranker as a folder of JSON and safetensors, whole or not at all."""
        self._check_fitted()
        save_ranker(self, Path(folder))

    @property
    @final
    def is_fitted(self) -> bool:
        return hasattr(self, "fingerprint_")

    @final
    def _check_fitted(self) -> None:
        if not self.is_fitted:
            raise InvalidInput.of(
                "ranker", f"a {type(self).__name__} that has learned nothing", "a fitted one", "call fit first"
            )

    @final
    def _check_fields(self, log: EncodedLog) -> None:
        ours = list(zip(self.field_names_, self.field_sizes_, strict=True))
        theirs = list(zip(log.field_names, log.field_sizes, strict=True))
        if ours == theirs:
            return
        here = next((pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]), None)
        if here is None:
            got, wanted = f"{len(theirs)} fields", f"{len(ours)} fields"
        else:
            wanted, got = (f"field {name!r} with {size} ids" for name, size in here)
        raise InvalidInput.of("log", got, f"{wanted}, as in training", "encode the log with the training vocabulary")

    @abstractmethod
    def _tasks(self, log: EncodedLog) -> tuple[str, ...]: ...

    @abstractmethod
    def _fit(self, train: EncodedLog, show_progress: bool | None) -> None: ...

    @abstractmethod
    def _score(self, log: EncodedLog, show_progress: bool | None) -> dict[str, Floats]: ...

    @abstractmethod
    def _state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Returns the learned arrays and the learned plain values."""

    @abstractmethod
    def _restore(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None: ...

    def _embeddings(self) -> Tables | None:
        return None


def chosen_tasks(tasks: Sequence[str] | None, known: Sequence[str]) -> tuple[str, ...]:
    """Returns the tasks asked for, or all that the log has."""
    if not known:
        raise InvalidInput.of("train", "a log without labels", "at least one task", "name labels in the schema")
    for task in tasks or ():
        check_known("task", task, known)
    return tuple(tasks) if tasks else tuple(known)


def _check_classes(train: EncodedLog, task: str) -> None:
    labels = train.labels[task]
    if not (np.any(labels == 0) and np.any(labels == 1)):
        seen = sorted({int(value) for value in np.unique(labels)})
        raise InvalidInput.of(
            f"labels of task {task!r}",
            f"only the values {seen}",
            "both 0 and 1",
            "train on more rows, or drop the task",
        )
