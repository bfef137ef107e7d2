"""What a neural ranker trains: a long table of vectors and a network over the vectors of a row."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from monocal.lab.rankers.lazy_table import LazyTable


class RankerNetwork(nn.Module, ABC):
    """Turns field ids into one logit per task, through one table of vectors.

    The look-up is apart from the rest, because a step of training must not touch the table's other rows: `places`
    says which rows of the table a log row needs, `forward` gets their vectors.

    Arguments:
        table: Vectors of all field values.
    """

    def __init__(self, table: LazyTable) -> None:
        super().__init__()
        self.table = table

    @abstractmethod
    def places(self, features: Tensor) -> Tensor:
        """Returns rows of the table `(b, k)` for field ids `(b, F)`, or whatever integers the ranker reads of a row."""

    @abstractmethod
    def forward(self, vectors: Tensor, shared_rows: Tensor | None = None, shared: Tensor | None = None) -> Tensor:
        """Returns logits `(b, tasks)` for vectors `(b, k, width)`.

        Arguments:
            vectors: What the table holds at the row's `places`.
            shared_rows: These rows of what `prepare` returned first.
            shared: What `prepare` returned second.
        """

    def prepare(self, places: Tensor, features: Tensor) -> tuple[Tensor | None, Tensor | None]:  # noqa: ARG002  # a hook
        """Computes once per batch of training what many of its rows share.

        Returns integers per row and the shared numbers that they point at; (None, None) if there is nothing to share.

        Arguments:
            places: Rows of `table.values` `(b, k)`.
            features: What `places` was made of.
        """
        return None, None

    def score(self, features: Tensor) -> Tensor:
        """Returns logits `(b, tasks)` for field ids `(b, F)`."""
        logits: Tensor = self(self.table(self.places(features)))
        return logits

    def dense_parameters(self) -> list[nn.Parameter]:
        """Returns all weights but the table, in a fixed order."""
        return [weight for weight in self.parameters() if weight is not self.table.rows]

    def sum_of_squares(self) -> Tensor:
        """Returns the sum of squares of weight matrices and of the touched vectors; biases and scales are left out."""
        matrices = [weight.square().sum() for weight in self.dense_parameters() if weight.ndim > 1]
        return torch.stack([*matrices, self.table.values.square().sum()]).sum()
