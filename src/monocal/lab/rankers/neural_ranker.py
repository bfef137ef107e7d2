"""A ranker that owns a torch network: fitting, scoring, saving."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.fields import Ids
from monocal.core.process import progress, release_pages
from monocal.core.scores import Floats
from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.lab.rankers.base import Ranker

if TYPE_CHECKING:
    from torch import Tensor

    from monocal.lab.rankers.networks import RankerNetwork
    from monocal.lab.ranking_losses import RankingLoss

LAZY_NOTE = (
    "Adam and the L2 penalty are lazy on embeddings: a value's row changes only in batches where the value occurs; "
    "dense Adam would move every row in every step"
)

FEW_STEPS = 100
"""With fewer, a network has hardly left its starting point."""

_WINDOW_ROWS = 1 << 17


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralRanker(Ranker):
    """A network of field ids, trained by the one training loop in row order.

    A subclass writes `_network`; one whose network reads more than a row's field ids writes `_inputs` and, if these
    take learning before training, `_learn_inputs` with `_input_arrays` and `_restore_inputs`. A ranker is a dataclass:
    its fields are its arguments, and those below are declared here for all networks.

    Arguments:
        n_dimensions: Length of an embedding.
        learning_rate: Adam's step.
        l2: Strength of the penalty.
        batch_rows: Rows per step.
        n_epochs: Passes over the log.
        n_threads: None means as many as torch uses.
        seed: Draws the starting point, and the negatives if not all are used.
        loss: What to minimise for each task, one of `RANKING_LOSSES`.
        loss_arguments: What the loss's class takes.
        group: The fields, or the log's group column, whose values make a list, for losses that compare rows of a list;
            for `bbp` the fields whose click rates order rows of equal labels.

    Attributes:
        network_: The trained network.
        losses_: Training loss of each batch before its step, summed over tasks.
    """

    neutral_parameters: ClassVar[frozenset[str]] = frozenset({"n_threads"})

    n_dimensions: int = 16
    learning_rate: float = 1e-3
    l2: float = 1e-6
    batch_rows: int = 16_384
    n_epochs: int = 1
    n_threads: int | None = None
    seed: int = 0
    loss: str = "log_loss"
    loss_arguments: Mapping[str, Any] | None = None
    group: str | Sequence[str] | None = None

    @abstractmethod
    def _network(self, rows: Tensor | None = None) -> RankerNetwork:
        """Builds the network for `field_sizes_` and `tasks_`.

        Arguments:
            rows: The table of a trained network; None draws a starting point.
        """

    def _inputs(self, log: EncodedLog, rows: Any) -> Ids:
        """Returns the integers that the network reads of the chosen rows."""
        return np.asarray(log.features[rows])

    def _learn_inputs(self, train: EncodedLog) -> None:  # a hook
        """Learns what `_inputs` needs, before training."""

    def _input_arrays(self) -> dict[str, NDArray[Any]]:
        """Returns what `_learn_inputs` learned."""
        return {}

    def _restore_inputs(self, arrays: dict[str, NDArray[Any]]) -> None:  # a hook
        """Takes over what `_input_arrays` returned."""

    @property
    @final
    def n_outputs(self) -> int:
        """Logits per row: one per task, or as many as the loss wants of each."""
        return len(self.tasks_) * self._loss().n_logits

    @final
    def _loss(self) -> RankingLoss:
        from monocal.lab.ranking_losses import ranking_loss

        return ranking_loss(self.loss, **(self.loss_arguments or {}))

    @final
    def _fit(self, train: EncodedLog, show_progress: bool | None) -> None:
        from monocal.lab.rankers.lists import lists_of
        from monocal.lab.rankers.objective import RankerObjective, train_ranker, workers
        from monocal.lab.rankers.rank import references_of

        loss = self._loss()
        lists = lists_of(train, self.group) if loss.needs_groups else None
        references = references_of(loss, train, self.tasks_, self.group)
        self._learn_inputs(train)
        network = self._network()
        with workers(self._threads()) as pool:
            objective = RankerObjective(
                network,
                loss,
                train,
                self.tasks_,
                self.l2,
                pool,
                f"training {self.name}",
                lists,
                references,
                self._inputs,
            )
            self.losses_ = train_ranker(
                objective,
                n_epochs=self.n_epochs,
                batch_rows=self.batch_rows,
                learning_rate=self.learning_rate,
                show_progress=show_progress,
            )
        self.network_ = network.eval()
        self.notes_ = (LAZY_NOTE, *self._few_steps(math.ceil(train.n_rows / self.batch_rows) * self.n_epochs))

    def _few_steps(self, n_steps: int) -> list[str]:
        if n_steps >= FEW_STEPS:
            return []
        taken = f"learned in {n_steps} step{'s' * (n_steps > 1)} of up to {self.batch_rows:,} rows"
        return [f"{taken}, too few to learn much from so small a log; a smaller batch_rows or more n_epochs gives more"]

    @final
    def _score(self, log: EncodedLog, show_progress: bool | None) -> dict[str, Floats]:
        import torch

        from monocal.lab.rankers.objective import chunks, workers

        logits = np.empty((log.n_rows, len(self.tasks_)))
        loss = self._loss()

        def score_chunk(rows: slice) -> None:
            with torch.inference_mode():
                found = self.network_.score(torch.tensor(self._inputs(log, rows))).double()
                logits[rows] = loss.decode(found.view(len(found), -1, loss.n_logits).squeeze(2)).numpy()

        with workers(self._threads()) as pool, progress("scoring", log.n_rows, show=show_progress) as bar:
            for start in range(0, log.n_rows, _WINDOW_ROWS):
                window = min(_WINDOW_ROWS, log.n_rows - start)
                pool.map(score_chunk, [slice(start + part.start, start + part.stop) for part in chunks(window)])
                release_pages(log.features)
                bar.advance(window)
        return {task: np.ascontiguousarray(logits[:, place]) for place, task in enumerate(self.tasks_)}

    @final
    def _state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        from torch.nn.utils import parameters_to_vector

        dense = parameters_to_vector(self.network_.dense_parameters()).detach().numpy()
        values = self.network_.table.rows.detach().numpy()
        return {"values": values, "dense": dense, **self._input_arrays()}, {"losses": self.losses_}

    @final
    def _restore(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None:
        import torch
        from torch.nn.utils import vector_to_parameters

        self.losses_ = list(values["losses"])
        self._restore_inputs(arrays)
        self.network_ = self._network(torch.from_numpy(arrays["values"])).eval()
        vector_to_parameters(torch.from_numpy(arrays["dense"]), self.network_.dense_parameters())

    @final
    def _threads(self) -> int:
        import torch

        return torch.get_num_threads() if self.n_threads is None else self.n_threads
