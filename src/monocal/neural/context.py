"""What a map conditions on, in torch: one vector per field value, looked up and joined, or still as rows of a table.

In large batches a context stays rows of the table: a first layer is then computed once per distinct value of the batch,
and a row is a sum of such results. Training takes four fifths of the time that way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from monocal.compiled.first_layer import BatchValues, number_values, scatter_rows, sum_rows
from monocal.compiled.jit import MOST_COLUMNS, numba_is_installed
from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput
from monocal.core.fields import FIRST_ID, STEPS
from monocal.neural.fitted import Weights
from monocal.neural.options import Embeddings

MANY_ROWS = 1024
"""Batches from this size on gain from sums of rows; in smaller ones nearly every value is a distinct one."""

SPARSE_FROM_NUMBERS = 2_000_000
"""Tables with more numbers than this get sparse gradients: updating all of one would cost more than the batch."""

_START_SCALE = 0.05


def generator_of(seed: int) -> torch.Generator:
    """Returns a fresh generator, so that building a module never touches torch's global one.

    Example:
        >>> import torch
        >>> before = torch.random.get_rng_state()
        >>> _ = torch.randn(3, generator=generator_of(0))
        >>> bool((torch.random.get_rng_state() == before).all())
        True
    """
    return torch.Generator().manual_seed(seed)


@final
class FieldContext:
    """Rows of a table whose joined vectors `(b, F·d)` are a context; maps take it in place of these.

    Arguments:
        rows: Of the table, `(b, F)`.
        table: Vectors `(V, d)` of all fields' values, one field after the other.
        sparse: Whether the table's gradient is sparse.
    """

    def __init__(self, rows: Tensor, table: Tensor, sparse: bool) -> None:
        self.rows, self.table, self.sparse = rows, table, sparse

    @cached_property
    def batch(self) -> BatchValues:
        """The distinct values of the batch."""
        return number_values(self.rows.numpy(), self.table.shape[0])

    def joined(self) -> Tensor:
        """Returns the context tensor this stands for."""
        return functional.embedding(self.rows, self.table, sparse=self.sparse).flatten(1)


def affine(layer: nn.Linear, context: Tensor | FieldContext) -> Tensor:
    """Returns what a first layer makes of a context."""
    if isinstance(context, Tensor):
        return layer(context)  # type: ignore[no-any-return]
    if layer.out_features > MOST_COLUMNS:
        return layer(context.joined())  # type: ignore[no-any-return]
    result: Tensor = _FieldLinear.apply(context.batch, context.table, context.sparse, layer.weight, layer.bias)
    return result


class _FieldLinear(torch.autograd.Function):
    """An affine layer on joined vectors, one matrix product per field with one row per distinct value."""

    @staticmethod
    def forward(ctx: Any, batch: BatchValues, table: Tensor, sparse: bool, weights: Tensor, biases: Tensor) -> Tensor:
        rows = torch.from_numpy(batch.rows)
        vectors = table.detach()[rows]
        per_value = vectors.new_empty(rows.shape[0], weights.shape[0])
        for part, columns in _by_field(batch.starts, table.shape[1]):
            torch.mm(vectors[part], weights.detach()[:, columns].t(), out=per_value[part])
        result = vectors.new_empty(batch.slots.shape[0], weights.shape[0])
        sum_rows(batch.slots, per_value.numpy(), biases.detach().numpy(), result.numpy())
        ctx.batch, ctx.sparse = batch, sparse
        ctx.save_for_backward(rows, vectors, weights, table)
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> Any:
        rows, vectors, weights, table = ctx.saved_tensors
        pulled = vectors.new_zeros(rows.shape[0], weights.shape[0])
        scatter_rows(ctx.batch.slots, upstream.contiguous().numpy(), pulled.numpy())
        d_weights = torch.empty_like(weights)
        d_vectors = torch.empty_like(vectors) if ctx.needs_input_grad[1] else None
        for part, columns in _by_field(ctx.batch.starts, vectors.shape[1]):
            d_weights[:, columns] = pulled[part].t() @ vectors[part]
            if d_vectors is not None:
                torch.mm(pulled[part], weights[:, columns], out=d_vectors[part])
        d_table = None
        if d_vectors is not None and ctx.sparse:
            d_table = torch.sparse_coo_tensor(rows[None], d_vectors, table.shape, check_invariants=False)
        elif d_vectors is not None:
            d_table = torch.zeros_like(table)
            d_table[rows] = d_vectors
        return None, d_table, None, d_weights, upstream.sum(dim=0)


def _by_field(starts: NDArray[np.int64], n_dimensions: int) -> list[tuple[slice, slice]]:
    """Pairs every field's distinct values with its columns of the weights."""
    return [
        (slice(int(starts[f]), int(starts[f + 1])), slice(f * n_dimensions, (f + 1) * n_dimensions))
        for f in range(len(starts) - 1)
    ]


def rows_of_ids(field_ids: Tensor, sizes: Tensor, offsets: Tensor) -> Tensor:
    """Returns the concatenated table's row of every id; an id the field does not have becomes 0, "unseen".

    Example:
        >>> import torch
        >>> rows_of_ids(torch.tensor([[2, 7]]), torch.tensor([3, 2]), torch.tensor([0, 3])).tolist()
        [[2, 3]]
    """
    ids = field_ids.to(torch.int64)
    return torch.where((ids < sizes) & (ids >= 0), ids, 0) + offsets


@final
class ContextEncoder(nn.Module):
    """Looks up one vector per field and joins them: ids `(b, F)` become a context `(b, F·d)`.

    All fields share one table, so a batch needs a single gather. Ids are first looked up in `slots`, which says which
    row of the table a value has: rare values share that of unseen ones, because too few rows stand behind them to
    learn a vector.

    Arguments:
        field_sizes: How many ids each field has.
        slots: For every id, field after field, its row in the table.
        table: Vectors `(V, d)`.
        trained: Whether they are; otherwise they stay, as a ranker learned them.
        between: Makes the table from vectors of categories and of the knots of numbers; None without numbers.

    Example:
        Value 2 of the only field is rare and takes the place of the unseen value.

        >>> import torch
        >>> encoder = ContextEncoder([3], np.array([0, 1, 0]), torch.tensor([[0.0], [7.0]]), trained=False)
        >>> encoder(torch.tensor([[1], [2], [9]])).tolist()
        [[7.0], [0.0], [0.0]]
    """

    sizes: Tensor
    offsets: Tensor
    slots: Tensor

    def __init__(
        self,
        field_sizes: Sequence[int],
        slots: NDArray[np.int64],
        table: Tensor,
        *,
        trained: bool = True,
        between: BetweenKnots | None = None,
    ) -> None:
        super().__init__()
        sizes = torch.as_tensor(list(field_sizes), dtype=torch.int64)
        self.register_buffer("sizes", sizes, persistent=False)
        self.register_buffer("offsets", torch.cumsum(sizes, 0) - sizes, persistent=False)
        self.register_buffer("slots", torch.as_tensor(slots), persistent=False)
        self.between = between
        self.sparse = trained and between is None and table.numel() > SPARSE_FROM_NUMBERS
        self.vectors = nn.Parameter(table if between is None else between.own(table), requires_grad=trained)

    @property
    def table(self) -> Tensor:
        """One vector per slot."""
        return self.vectors if self.between is None else self.between(self.vectors)

    @property
    def width(self) -> int:
        """Length of a context row."""
        return self.sizes.shape[0] * int(self.vectors.shape[1])

    def hide_(self, fields: Sequence[int]) -> None:
        """Makes all values of some fields count as unseen."""
        for field in fields:
            first = int(self.offsets[field])
            self.slots[first : first + int(self.sizes[field])] = self.slots[first].clone()

    def forward(self, field_ids: Tensor) -> Tensor | FieldContext:
        rows = self.slots[rows_of_ids(field_ids, self.sizes, self.offsets)]
        context = FieldContext(rows, self.table, self.sparse)
        return context if rows.shape[0] >= MANY_ROWS and numba_is_installed() else context.joined()

    def arrays(self) -> Weights:
        """Returns what a fitted map keeps of it."""
        ends = np.cumsum(self.sizes.numpy())
        table = self.table.detach().numpy().copy()
        return {
            "encoder.table": table,
            "encoder.slots": self.slots.numpy(),
            "encoder.offsets": np.concatenate([[0], ends]),
        }


# Numbers


@final
class BetweenKnots(nn.Module):
    """Makes a table, one vector per id, from one vector per category and per knot of a number.

    The vectors of all numbers between two knots are tied to those of the knots: the context is then linear in the hat
    functions of the knots, the basis that shifts have, too.

    Arguments:
        sizes: How many rows each field has in the table.
        n_knots: Knots per field, 0 for categories.

    Example:
        >>> between = BetweenKnots([FIRST_ID + STEPS + 1], [2])
        >>> own = between.own(torch.rand(FIRST_ID + STEPS + 1, 3))
        >>> table = between(own)
        >>> own.shape, bool(torch.allclose(table[FIRST_ID + STEPS // 2], (table[FIRST_ID] + table[-1]) / 2))
        (torch.Size([4, 3]), True)
    """

    def __init__(self, sizes: Sequence[int], n_knots: Sequence[int]) -> None:
        super().__init__()
        self.sizes, self.n_knots = tuple(sizes), tuple(n_knots)
        for n in set(self.n_knots) - {0}:
            self.register_buffer(f"hats_{n}", hat_functions(n), persistent=False)

    def forward(self, vectors: Tensor) -> Tensor:
        own = [FIRST_ID + n if n else size for size, n in zip(self.sizes, self.n_knots, strict=True)]
        parts = zip(torch.split(vectors, own), self.n_knots, strict=True)
        return torch.cat([self.get_buffer(f"hats_{n}") @ part if n else part for part, n in parts])

    def own(self, table: Tensor) -> Tensor:
        """Returns the table's own vectors of categories and knots."""
        parts = zip(torch.split(table, list(self.sizes)), self.n_knots, strict=True)
        return torch.cat([torch.cat([part[:FIRST_ID], part[FIRST_ID::STEPS]]) if n else part for part, n in parts])


def hat_functions(n_knots: int) -> Tensor:
    """Returns `(ids, unseen, null and knots)`: the weight that each of those has at every id of a field of numbers.

    Example:
        >>> hats = hat_functions(2)
        >>> hats[[0, 1, FIRST_ID, FIRST_ID + STEPS // 4]].tolist()
        [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.75, 0.25]]
    """
    n_ids = FIRST_ID + (n_knots - 1) * STEPS + 1
    places = torch.arange(n_ids, dtype=torch.float64)
    places[FIRST_ID:] = FIRST_ID + (places[FIRST_ID:] - FIRST_ID) / STEPS
    distance = (places[:, None] - torch.arange(FIRST_ID + n_knots)).abs()
    return (1.0 - distance).clamp(min=0.0).to(torch.float32)


# Encoders of a fit


def encoder_for(
    embeddings: Embeddings, tables: Sequence[NDArray[np.float32]] | None, rows: Dataset, **own: int
) -> ContextEncoder | None:
    """Chooses an encoder by name; None if the map is to ignore features."""
    if embeddings == "none":
        return None
    if embeddings == "own" or (embeddings == "auto" and tables is None):
        return own_encoder(rows, **own)
    if tables is None:
        raise InvalidInput.of(
            "embeddings", '"ranker" without any table', "the ranker's tables", 'pass fit(embeddings=...), or use "own"'
        )
    return ranker_encoder(tables, len(rows.fields))


def own_encoder(rows: Dataset, *, n_dimensions: int, min_count: int, seed: int) -> ContextEncoder:
    """Returns trained vectors for the values that have at least `min_count` rows, and for the knots of numbers.

    They start at normal(0, 0.05), except that of unseen values, which starts at zero: the neutral middle of the others.
    It is trained like any other, because rare values that share it do carry information.
    """
    fields = rows.fields
    slots, starts, n_slots = slots_of_common_values(rows, min_count)
    table = torch.empty(n_slots, n_dimensions)
    nn.init.normal_(table, std=_START_SCALE, generator=generator_of(seed))
    table[starts] = 0.0
    between = None
    if not fields.is_identity:
        between = BetweenKnots(np.diff(starts, append=n_slots).tolist(), fields.n_knots)
    return ContextEncoder(fields.sizes.tolist(), slots, table, between=between)


def slots_of_common_values(rows: Dataset, min_count: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Gives every value with at least `min_count` rows a row of a table; the others share that of unseen values.

    All ids of a field of numbers have one: what stands behind them are the rows around their knots. Returns the slot of
    every id, field after field, the first slot of every field, and how many there are.

    Arguments:
        rows: The rows to train on.
        min_count: Rows that a value needs.

    Example:
        >>> rows = Dataset(np.zeros(3), ids=np.array([[1, 1], [3, 1], [3, 1]], dtype=np.int32))
        >>> [np.asarray(found).tolist() for found in slots_of_common_values(rows, min_count=2)]
        [[0, 0, 0, 1, 2, 3], [0, 2], 4]
    """
    fields = rows.fields
    counts = rows.sum(lambda block: [fields.sums(block.ids, block.w)])[0]
    slots, starts, n_slots = [], [], 0
    for field, is_numeric in enumerate(fields.is_numeric):
        has_one = counts[fields.ids_of(field)] >= (0 if is_numeric else max(min_count, 1))
        has_one[0] = False
        slots.append(n_slots + np.where(has_one, np.cumsum(has_one), 0))
        starts.append(n_slots)
        n_slots += int(has_one.sum()) + 1
    return np.concatenate(slots), np.array(starts), n_slots


def ranker_encoder(tables: Sequence[NDArray[np.float32]], n_fields: int) -> ContextEncoder:
    """Returns a ranker's frozen vectors."""
    shapes = [np.shape(table) for table in tables]
    if len(tables) != n_fields or any(len(shape) != 2 or shape[1] != shapes[0][1] for shape in shapes):
        raise InvalidInput.of(
            "embeddings",
            f"tables of shapes {shapes}",
            f"{n_fields} tables (values, d), one per field, with the same d",
            "pass the ranker's tables in the order of the features",
        )
    sizes = [int(shape[0]) for shape in shapes]
    # a copy, because a memory-mapped table is read-only and torch has no such tensors
    vectors = torch.from_numpy(np.concatenate(tables, dtype=np.float32))
    return ContextEncoder(sizes, np.arange(sum(sizes)), vectors, trained=False)
