"""The interface of a ranker's objective, log-loss row by row, and the objectives by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, final

import torch
from torch import Tensor, nn

from monocal.core.errors import InvalidInput
from monocal.neural.losses import cross_entropy


class LossRows(NamedTuple):
    """What a loss knows of the rows of a batch beside their logits, `(b,)` each.

    Attributes:
        labels: 0 or 1, as floats.
        weights: How often each row counts; None means once.
        counts: The same as numbers.
        groups: Number of each row's list; 0 where there are no lists.
        references: What is known of each row beforehand; 0 where nothing is.
    """

    labels: Tensor
    weights: Tensor | None
    counts: Tensor
    groups: Tensor
    references: Tensor


class RankingLoss(nn.Module, ABC):
    """Turns logits and labels of one task in one batch into one number to minimise.

    A row of weight k counts as k rows. Rows of a list need not stand beside each other. A subclass writes `_loss`, and
    sets `needs_groups` if it compares rows of a list, `needs_references` if it learns from another ranker's answers.

    Attributes:
        n_logits: Logits per row that the loss is about; a network has so many per task.
    """

    needs_groups: bool = False
    needs_references: bool = False
    n_logits: int = 1

    @final  # type: ignore[misc]  # torch declares forward as a plain attribute
    def forward(
        self,
        logits: Tensor,
        labels: Tensor,
        weights: Tensor | None = None,
        groups: Tensor | None = None,
        references: Tensor | None = None,
    ) -> Tensor:
        """Returns a scalar.

        Arguments:
            logits: Logits `(b,)`, or `(b, n_logits)` if there are several, of the rows where the task was observed.
            labels: 0 or 1 per row.
            weights: How often each row counts; None means once.
            groups: Number of each row's list, such as its user, query or session.
            references: What is known of each row beforehand; the class says what it is.
        """
        for name, value, is_needed in (
            ("groups", groups, self.needs_groups),
            ("references", references, self.needs_references),
        ):
            if is_needed and value is None:
                raise InvalidInput.of(
                    name, None, f"one number per row for {type(self).__name__}", "name the column, or use LogLoss"
                )
        labels = labels.to(logits.dtype)
        counts = torch.ones_like(labels) if weights is None else weights.to(logits.dtype)
        known = torch.zeros_like(labels) if references is None else references.detach().to(logits.dtype)
        lists = torch.zeros_like(labels, dtype=torch.int64) if groups is None else groups
        return self._loss(logits, LossRows(labels, weights, counts, lists, known))

    def decode(self, logits: Tensor) -> Tensor:
        """Turns a trained network's logits into logits of probabilities; most losses need no such step."""
        return logits

    @abstractmethod
    def _loss(self, logits: Tensor, rows: LossRows) -> Tensor: ...


def check_share(name: str, value: float) -> float:
    """Returns a number between 0 and 1, or explains what is wrong with it."""
    if not 0.0 <= value <= 1.0:
        raise InvalidInput.of(name, value, "a share from 0 to 1", "use 0.5")
    return value


@final
class LogLoss(RankingLoss):
    r"""The weighted mean of :math:`\ln(1 + e^z) - y z`; lists do not matter.

    Example:
        >>> import torch
        >>> z, y = torch.tensor([0.6, -0.4, 0.2, 1.1]), torch.tensor([1.0, 0.0, 0.0, 1.0])
        >>> round(LogLoss()(z, y).item(), 6)
        0.508994
    """

    def _loss(self, logits: Tensor, rows: LossRows) -> Tensor:
        return cross_entropy(logits, rows.labels, rows.weights)
