"""DeepFM, the ranker of the published studies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from monocal.lab.rankers.base import chosen_tasks
from monocal.lab.rankers.deepfm_ranker import DeepFMRanker
from monocal.logs.encoded_log import EncodedLog


@final
class DeepFM(DeepFMRanker):
    r"""A linear part, pairwise products of embeddings, and a deep network over the same embeddings.

    .. math:: z(x) = \sum_f w_f[x_f] + \tfrac12 \sum_d \Big(\big(\sum_f e_{f,d}\big)^2 - \sum_f e_{f,d}^2\Big)
        + v^\top \mathrm{DNN}(e_1, \dots, e_F)

    There is no bias outside the hidden layers. Embeddings and linear weights start at normal(0, 1e-4), hidden weights
    at Xavier-normal with gain :math:`\sqrt 2`. Trained with Adam on the loss plus `l2` times the sum of squares, in
    row order, for one epoch. On embeddings Adam and the penalty are lazy (see `notes_`): a step reads and writes only
    the rows of values that occur in the batch.

    The result depends on the seed and the rows, not on the number of threads.

    References:
        Guo, Tang, Ye, Li, He. DeepFM: a factorization-machine based neural network for CTR prediction. 2017.

    Arguments:
        task: Which task to learn; None means the log's first.
        hidden: Hidden widths. The default is the UMC paper's; its public code adds one more layer of 64.
        n_dimensions: Length of an embedding.
        learning_rate: Adam's step.
        l2: Strength of the penalty.
        batch_rows: Rows per step.
        n_epochs: Passes over the log.
        checkpoint_batches: Batches between two checkpoints, if `fit` is given a folder for them.
        n_threads: None means as many as torch uses.
        seed: Draws the starting point, and the negatives if not all are used.
        loss: What to minimise, one of `RANKING_LOSSES`.
        loss_arguments: What the loss's class takes.
        group: The fields, or the log's group column, whose values make a list, for losses that compare rows of a list;
            for `bbp` the fields whose click rates order rows of equal labels.
        negative_rate: Share of the negatives to learn from; logits are corrected by its logarithm.
    """

    name: ClassVar[str] = "deepfm"

    def __init__(
        self,
        task: str | None = None,
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
        self.task = task
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
        return chosen_tasks(None if self.task is None else [self.task], log.tasks)[:1]
