"""DeepFM, the ranker of the published studies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from monocal.lab.rankers.base import chosen_tasks
from monocal.lab.rankers.deepfm_ranker import DeepFMRanker
from monocal.logs.encoded_log import EncodedLog


@final
@dataclass(eq=False, repr=False)
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

    Takes the arguments of `DeepFMRanker` beside its own.

    Arguments:
        task: Which task to learn; None means the log's first.
    """

    name: ClassVar[str] = "deepfm"

    task: str | None = None

    def _tasks(self, log: EncodedLog) -> tuple[str, ...]:
        return chosen_tasks(None if self.task is None else [self.task], log.tasks)[:1]
