"""A DeepFM with one head per task, as the stand-in for a production ranker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from monocal.lab.rankers.base import chosen_tasks
from monocal.lab.rankers.deepfm_ranker import DeepFMRanker
from monocal.logs.encoded_log import EncodedLog


@final
class MultiTaskDeepFM(DeepFMRanker):
    r"""Shared embeddings and hidden layers, and for each task a tower, linear weights and a scale of its own.

    .. math:: z_t(x) = \sum_f w_{f,t}[x_f] + \alpha_t\,\mathrm{FM}(e) + v_t^\top \mathrm{tower}_t(\mathrm{DNN}(e))

    All hidden layers but the last are shared; the last is one tower per task. The loss is summed over tasks, each
    over the rows where the task was observed. With one task there is no
    :math:`\alpha` and this is exactly `DeepFM`. Everything else is as there.

    Arguments:
        tasks: Which tasks; None means all of the log.
        hidden: Shared widths, the last one per task.
        n_dimensions: As in `DeepFM`, like everything that follows.
        learning_rate: Adam's step.
        l2: Strength of the penalty.
        batch_rows: Rows per step.
        n_epochs: Passes over the log.
        checkpoint_batches: Batches between two checkpoints.
        n_threads: None means as many as torch uses.
        seed: Draws the starting point, and the negatives if not all are used.
        loss: What to minimise for each task.
        loss_arguments: What the loss's class takes.
        group: Whose values make a list.
        negative_rate: Share of the negatives to learn from; logits are corrected by its logarithm.
    """

    name: ClassVar[str] = "multitask_deepfm"

    def __init__(
        self,
        tasks: Sequence[str] | None = None,
        hidden: tuple[int, ...] = (512, 256, 128),
        n_dimensions: int = 16,
        learning_rate: float = 1e-3,
        l2: float = 1e-6,
        batch_rows: int = 16_384,
        n_epochs: int = 1,
        checkpoint_batches: int = 500,
        n_threads: int | None = None,
        seed: int = 0,
        loss: str = "log_loss",
        loss_arguments: Mapping[str, Any] | None = None,
        group: str | Sequence[str] | None = None,
        negative_rate: float = 1.0,
    ) -> None:
        self.tasks = tasks
        self.hidden = hidden
        self.n_dimensions = n_dimensions
        self.learning_rate = learning_rate
        self.l2 = l2
        self.batch_rows = batch_rows
        self.n_epochs = n_epochs
        self.checkpoint_batches = checkpoint_batches
        self.n_threads = n_threads
        self.seed = seed
        self.loss = loss
        self.loss_arguments = loss_arguments
        self.group = group
        self.negative_rate = negative_rate

    def _tasks(self, log: EncodedLog) -> tuple[str, ...]:
        return chosen_tasks(self.tasks, log.tasks)
