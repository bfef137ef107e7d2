"""DeepFM, the ranker of the published studies, for one task and with one head per task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.lab.rankers.base import chosen_tasks
from monocal.lab.rankers.neural_ranker import NeuralRanker
from monocal.lab.rankers.scored_log import Tables

if TYPE_CHECKING:
    from torch import Tensor

    from monocal.lab.rankers.networks import DeepFMNetwork


@dataclass(kw_only=True, eq=False, repr=False)
class DeepFMRanker(NeuralRanker):
    """A ranker whose network is a `DeepFMNetwork`.

    Arguments:
        hidden: Hidden widths. The default is the UMC paper's; its public code adds one more layer of 64.
        negative_rate: Share of the negatives to learn from; logits are corrected by its logarithm.
    """

    hidden: tuple[int, ...] = (512, 256, 128)
    negative_rate: float = 1.0
    network_: DeepFMNetwork = field(init=False)

    @final
    def _network(self, rows: Tensor | None = None) -> DeepFMNetwork:
        from monocal.lab.rankers.networks import DeepFMNetwork

        network = DeepFMNetwork(self.field_sizes_, self.n_dimensions, self.hidden, self.n_outputs, rows)
        return network.start(self.seed) if rows is None else network

    @final
    def _embeddings(self) -> Tables | None:
        bounds = np.cumsum(self.field_sizes_)[:-1]
        return tuple(np.split(self.network_.embeddings().numpy(), bounds))


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


@final
@dataclass(eq=False, repr=False)
class MultiTaskDeepFM(DeepFMRanker):
    r"""Shared embeddings and hidden layers, and for each task a tower, linear weights and a scale of its own.

    .. math:: z_t(x) = \sum_f w_{f,t}[x_f] + \alpha_t\,\mathrm{FM}(e) + v_t^\top \mathrm{tower}_t(\mathrm{DNN}(e))

    All hidden layers but the last are shared; the last is one tower per task. The loss is summed over tasks, each
    over the rows where the task was observed. With one task there is no
    :math:`\alpha` and this is exactly `DeepFM`. Everything else is as there.

    Takes the arguments of `DeepFMRanker` beside its own.

    Arguments:
        tasks: Which tasks; None means all of the log.
    """

    name: ClassVar[str] = "multitask_deepfm"

    tasks: Sequence[str] | None = None

    def _tasks(self, log: EncodedLog) -> tuple[str, ...]:
        return chosen_tasks(self.tasks, log.tasks)
