"""A DeepFM with one head per task, as the stand-in for a production ranker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from monocal.lab.rankers.base import chosen_tasks
from monocal.lab.rankers.deepfm_ranker import DeepFMRanker
from monocal.logs.encoded_log import EncodedLog


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
