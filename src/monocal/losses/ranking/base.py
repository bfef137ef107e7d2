"""The interface of a ranker's objective."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

from torch import Tensor, nn

from monocal.core.errors import InvalidInput


class RankingLoss(nn.Module, ABC):
    """Turns logits and labels of one task in one batch into one number to minimise.

    A row of weight k counts as k rows. A subclass writes `_loss`, and sets `needs_groups` if it compares rows of a
    list; rows of a list need not stand beside each other.
    """

    needs_groups: bool = False

    @final  # type: ignore[misc]  # torch declares forward as a plain attribute
    def forward(
        self, logits: Tensor, labels: Tensor, weights: Tensor | None = None, groups: Tensor | None = None
    ) -> Tensor:
        """Returns a scalar.

        Arguments:
            logits: Logits `(b,)` of the rows where the task was observed.
            labels: 0 or 1 per row.
            weights: How often each row counts; None means once.
            groups: Number of each row's list, such as its user, query or session.
        """
        if self.needs_groups and groups is None:
            raise InvalidInput.of(
                "groups", None, f"one list number per row for {type(self).__name__}", "name a group column"
            )
        return self._loss(logits, labels, weights, groups)

    @abstractmethod
    def _loss(self, logits: Tensor, labels: Tensor, weights: Tensor | None, groups: Tensor | None) -> Tensor: ...
