"""What a neural ranker trains: a long table of vectors and a network over a row's vectors; DeepFM is one."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from monocal.core.errors import InvalidInput
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


START_SCALE = 1e-4
"""Standard deviation of embeddings and linear weights at the start."""

FOLDED_VALUES = 2_048
"""Most values that are folded: with 512 hidden units their shares take 4 MB, which caches hold."""

_BLOCK_ROWS = 1 << 18


@final
class DeepFMNetwork(RankerNetwork):
    r"""A linear part, pairwise products of embeddings, and hidden layers over the same embeddings.

    .. math:: z_t(x) = \sum_f w_{f,t}[x_f] + \alpha_t\,\tfrac12 \sum_d \Big(\big(\sum_f e_{f,d}\big)^2 -
        \sum_f e_{f,d}^2\Big) + v_t^\top \mathrm{DNN}_t(e)

    There is no global bias; with one task :math:`\alpha = 1`. The last hidden layer is as wide as one tower times the
    number of tasks, and each task's head reads its own tower.

    A row of the table holds one field value's embedding and then one linear weight per task.

    Small fields are folded in training: many rows share their few values, so a value's share :math:`W_f\,e_f[v]` of the
    first layer is computed once per batch and then looked up and added. Two thirds of the layer's work become additions
    on a log like Avazu's.

    Arguments:
        field_sizes: Ids per field, id 0 included; an id outside a field counts as 0.
        n_dimensions: Length of an embedding.
        hidden: Widths of the hidden layers, the last one per task.
        n_tasks: How many logits per row.
        rows: The table's numbers; left out, `start` has to draw them.

    Example:
        >>> network = DeepFMNetwork((5, 3), n_dimensions=16, hidden=(8, 4), n_tasks=3).start(seed=0)
        >>> tuple(network.score(torch.tensor([[1, 2], [4, 0]])).shape)
        (2, 3)
    """

    def __init__(
        self,
        field_sizes: Sequence[int],
        n_dimensions: int,
        hidden: Sequence[int],
        n_tasks: int = 1,
        rows: Tensor | None = None,
    ) -> None:
        if not hidden or min(hidden) < 1:
            raise InvalidInput.of("hidden", hidden, "at least one layer of width ≥ 1", "use (512, 256, 128)")
        shape = (int(sum(field_sizes)), n_dimensions + n_tasks)
        super().__init__(LazyTable(torch.from_numpy(np.zeros(shape, np.float32)) if rows is None else rows))
        self.field_sizes, self.n_dimensions, self.n_tasks = tuple(field_sizes), n_dimensions, n_tasks
        widths = (len(field_sizes) * n_dimensions, *hidden[:-1], hidden[-1] * n_tasks)
        # torch's own starting point would draw from the global random generator
        self.layers = nn.ModuleList(
            nn.utils.skip_init(nn.Linear, left, right)  # type: ignore[no-untyped-call]
            for left, right in itertools.pairwise(widths)
        )
        self.heads = TaskHeads(n_tasks, hidden[-1])
        self._sizes = torch.tensor(self.field_sizes)
        self._offsets = self._sizes.cumsum(0) - self._sizes
        folded = smallest_fields(self.field_sizes, FOLDED_VALUES)
        others = [field for field in range(len(self.field_sizes)) if field not in folded]
        self._folded, self._others = torch.tensor(folded, dtype=torch.int64), torch.tensor(others, dtype=torch.int64)

    def start(self, seed: int) -> DeepFMNetwork:
        r"""Draws the starting point.

        Embeddings and linear weights are normal(0, 1e-4), hidden weights Xavier-normal with gain :math:`\sqrt 2`,
        biases 0, heads uniform, scales 1.
        """
        stream, rows = np.random.default_rng([seed, 0]), self.table.rows.detach().numpy()
        for first in range(0, len(rows), _BLOCK_ROWS):
            part = rows[first : first + _BLOCK_ROWS]
            part[...] = START_SCALE * stream.standard_normal(part.shape, np.float32)
        generator = torch.Generator().manual_seed(seed)
        for layer in self.linear_layers():
            nn.init.xavier_normal_(layer.weight, gain=math.sqrt(2.0), generator=generator)
            nn.init.zeros_(layer.bias)
        bound = 1.0 / math.sqrt(self.heads.vectors.shape[1])
        nn.init.uniform_(self.heads.vectors, -bound, bound, generator=generator)
        return self

    def places(self, features: Tensor) -> Tensor:
        ids = features.long()
        return torch.where((ids >= 0) & (ids < self._sizes), ids, 0) + self._offsets

    def prepare(self, places: Tensor, features: Tensor) -> tuple[Tensor | None, Tensor | None]:  # noqa: ARG002
        field_of = torch.searchsorted(self._offsets, self.table.touched, right=True) - 1
        by_field = self._first_by_field()
        rows = [torch.nonzero(field_of == field).flatten() for field in self._folded]
        n_values = sum(len(found) for found in rows)
        if n_values == 0 or n_values > len(places) // 4:
            # a value costs as much as passing a row through its share of the layer
            return None, None
        chosen = torch.cat(rows)
        vectors = self.table.values.index_select(0, chosen)[:, : self.n_dimensions]
        parts = torch.split(vectors, [len(found) for found in rows])
        tables = [part @ by_field[:, field].t() for field, part in zip(self._folded, parts, strict=True)]
        positions = torch.empty(len(field_of), dtype=torch.int64)
        positions[chosen] = torch.arange(n_values)
        return positions[places.index_select(1, self._folded)], torch.cat(tables)

    def forward(self, vectors: Tensor, shared_rows: Tensor | None = None, shared: Tensor | None = None) -> Tensor:
        embeddings, linear = self.split(vectors)
        embeddings = embeddings.contiguous()
        first, *others = self.linear_layers()
        if shared_rows is None or shared is None:
            hidden = functional.relu(first(embeddings.flatten(1)))
        else:
            folded = functional.embedding_bag(shared_rows, shared, mode="sum") + first.bias
            weight = self._first_by_field().index_select(1, self._others).flatten(1)
            inputs = embeddings.index_select(1, self._others).flatten(1)
            hidden = functional.relu(torch.addmm(folded, inputs, weight.t()))
        for layer in others:
            hidden = functional.relu(layer(hidden))
        logits: Tensor = self.heads(hidden, self.second_order(embeddings)) + linear.sum(1)
        return logits

    def _first_by_field(self) -> Tensor:
        weight = self.linear_layers()[0].weight
        by_field: Tensor = weight.view(weight.shape[0], len(self.field_sizes), self.n_dimensions)
        return by_field

    def linear_layers(self) -> list[nn.Linear]:
        """Returns the hidden layers in their order."""
        return [layer for layer in self.layers if isinstance(layer, nn.Linear)]

    def split(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Takes rows of the table `(b, F, width)` apart into embeddings and linear weights."""
        embeddings, linear = torch.split(vectors, [self.n_dimensions, self.n_tasks], dim=2)
        return embeddings, linear

    @staticmethod
    def second_order(embeddings: Tensor) -> Tensor:
        """Returns the sum of products of all pairs of embeddings `(b, F, d)`, row by row.

        Example:
            >>> vectors = torch.tensor([[[0.1, 0.2], [0.3, -0.1], [-0.2, 0.4]]])
            >>> round(DeepFMNetwork.second_order(vectors).item(), 6)
            -0.03
        """
        flat = embeddings.flatten(1)
        squares: Tensor = torch.linalg.vecdot(flat, flat)
        return 0.5 * (embeddings.sum(1).square().sum(1) - squares)

    def embeddings(self) -> Tensor:
        """Returns the table without the linear weights."""
        return self.table.rows.detach()[:, : self.n_dimensions]


@final
class TaskHeads(nn.Module):
    """One vector per task over the task's tower and, with several tasks, one scale of the second-order term.

    Arguments:
        n_tasks: How many tasks.
        tower: Width of a tower.
    """

    def __init__(self, n_tasks: int, tower: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.empty(n_tasks, tower))
        self.scales = nn.Parameter(torch.ones(n_tasks)) if n_tasks > 1 else None

    def forward(self, hidden: Tensor, pairs: Tensor) -> Tensor:
        """Returns `(b, tasks)` for towers `(b, tasks · tower)` and second-order terms `(b,)`."""
        deep = torch.einsum("btk,tk->bt", hidden.view(len(hidden), *self.vectors.shape), self.vectors)
        return deep + (pairs[:, None] if self.scales is None else pairs[:, None] * self.scales)


def smallest_fields(field_sizes: tuple[int, ...], most_values: int) -> list[int]:
    """Returns the smallest fields whose values together are at most `most_values`, in field order.

    Example:
        >>> smallest_fields((5, 3_000_000, 7), 1000)
        [0, 2]
    """
    chosen: list[int] = []
    n_left = most_values
    for field in sorted(range(len(field_sizes)), key=lambda place: (field_sizes[place], place)):
        n_left -= field_sizes[field]
        if n_left < 0:
            break
        chosen.append(field)
    return sorted(chosen)
