"""What DeepFM and its multi-task sister share: fitting with checkpoints, scoring, saving."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.progress import progress
from monocal.core.spaces import Floats
from monocal.lab.rankers.base import Ranker
from monocal.logs.encoded_log import EncodedLog
from monocal.logs.scored_log import Tables

if TYPE_CHECKING:
    from monocal.lab.rankers.fm.model import FmModel
    from monocal.lab.rankers.fm.trainer import FmTrainer

LAZY_NOTE = (
    "Adam and the L2 penalty are lazy on embeddings: a value's row changes only in batches where the value occurs; "
    "dense Adam would move every row in every step"
)


class FmRanker(Ranker):
    """A deep factorisation machine on an encoded log.

    Attributes:
        losses_: Mean training log-loss of each batch before its step, summed over tasks.
    """

    neutral_parameters: ClassVar[frozenset[str]] = frozenset({"n_threads", "checkpoint_batches"})

    n_dimensions: int
    learning_rate: float
    l2: float
    batch_rows: int
    n_epochs: int
    checkpoint_batches: int
    n_threads: int | None
    seed: int

    @property
    @final
    def n_dense_parameters(self) -> int:
        """Numbers in the network, embeddings and linear weights not counted (after fitting)."""
        self._check_fitted()
        return int(self.model_.dense.size)

    @abstractmethod
    def _hidden(self) -> tuple[int, ...]: ...

    @final
    def _fit(self, train: EncodedLog, checkpoints: Path | None, show_progress: bool | None) -> None:
        from monocal.lab.rankers.fm.checkpoints import Checkpoints
        from monocal.lab.rankers.fm.dense import DenseShape
        from monocal.lab.rankers.fm.trainer import FmState, FmTrainer

        self._check_parameters()
        shape = DenseShape(train.n_fields * self.n_dimensions, self._hidden(), len(self.tasks_))
        saved = None if checkpoints is None else Checkpoints(checkpoints, self.fingerprint_, self.checkpoint_batches)
        found = None if saved is None else saved.read()
        state, self.losses_ = found or (FmState.start(train.field_sizes, self.n_dimensions, shape, self.seed), [])
        trainer = FmTrainer(
            train.field_sizes, self.n_dimensions, shape, state, self.learning_rate, self.l2, self.batch_rows
        )
        self._train(train, trainer, saved, show_progress)
        self.model_: FmModel = trainer.model()
        self.notes_ = (LAZY_NOTE,)
        if saved is not None:
            saved.clear()

    @final
    def _train(self, train: EncodedLog, trainer: FmTrainer, saved: Any, show_progress: bool | None) -> None:
        from monocal.lab.rankers.fm.threads import workers
        from monocal.lab.rankers.fm.trainer import observed

        n_batches = -(-train.n_rows // self.batch_rows)
        state = trainer.state
        n_epochs_done, n_batches_done = divmod(state.n_steps, n_batches)
        with (
            workers(self._threads(), trainer.workspace) as run,
            progress(f"training {self.name}", train.n_rows * self.n_epochs, show=show_progress) as bar,
        ):
            bar.advance(n_epochs_done * train.n_rows + n_batches_done * self.batch_rows)
            while state.n_steps < n_batches * self.n_epochs:
                first = state.n_steps % n_batches * self.batch_rows
                for batch in train.slice(first, train.n_rows).batches(self.batch_rows):
                    labels, weights = zip(*(observed(batch.labels[task]) for task in self.tasks_), strict=True)
                    counts = np.stack(weights, axis=1)
                    if batch.weights is not None:
                        counts *= batch.weights[:, None]
                    loss = trainer.step(batch.features, np.stack(labels, axis=1), counts, run)
                    self.losses_.append(loss)
                    bar.advance(len(batch.features))
                    bar.note(f"loss {loss:.4f}")
                    if saved is not None and saved.is_due(state.n_steps):
                        saved.write(state, self.losses_)

    @final
    def _score(self, log: EncodedLog, show_progress: bool | None) -> dict[str, Floats]:
        with progress("scoring", log.n_rows, show=show_progress) as bar:
            logits = self.model_.score(log.features, self._threads(), bar)
        return {task: np.ascontiguousarray(logits[:, place]) for place, task in enumerate(self.tasks_)}

    @final
    def _embeddings(self) -> Tables | None:
        return self.model_.embeddings()

    @final
    def _state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return {"values": self.model_.values, "dense": self.model_.dense}, {"losses": self.losses_}

    @final
    def _restore(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None:
        from monocal.lab.rankers.fm.model import FmModel

        self.losses_ = list(values["losses"])
        self.model_ = FmModel(arrays["values"], arrays["dense"], self.field_sizes_, self._hidden(), len(self.tasks_))

    def _threads(self) -> int:
        import torch

        return torch.get_num_threads() if self.n_threads is None else self.n_threads

    def _check_parameters(self) -> None:
        for name in ("n_dimensions", "batch_rows", "n_epochs", "checkpoint_batches"):
            if getattr(self, name) < 1:
                raise InvalidInput.of(name, getattr(self, name), "at least 1", "leave it out for the default")
        if self.n_threads is not None and self.n_threads < 1:
            raise InvalidInput.of("n_threads", self.n_threads, "at least one thread", "leave it out to use torch's")
        if not (self.learning_rate > 0.0 and self.l2 >= 0.0):
            raise InvalidInput.of(
                "learning_rate, l2", f"{self.learning_rate}, {self.l2}", "a positive rate and l2 ≥ 0", "use 1e-3, 1e-6"
            )
