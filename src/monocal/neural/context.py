"""What a map conditions on, in torch: vectors of field values, looked up, joined, or still as ids.

A context that is still field ids makes first layers cheap: they are computed once per distinct value of a batch, and
a row is a sum of such results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize

from monocal.compiled.jit import numba_is_installed
from monocal.core.errors import InvalidInput
from monocal.core.fields import FIRST_ID, STEPS


def runs_compiled(tensor: Tensor) -> bool:
    """Says whether the compiled loops can take this tensor: CPU memory, numba installed, not being traced."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling() and numba_is_installed()


MOST_COLUMNS = 4096


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
class FieldContext:
    """Rows of field ids with the table their vectors come from; stands for the joined vectors `(b, F·d)`.

    Made by `ContextEncoder.fields`. Maps take it wherever they take a context tensor and give the same result; a
    large batch trains about a quarter faster, because the first layer is computed once per distinct value.

    Arguments:
        field_ids: `(b, F)`.
        table: Vectors `(V, d)` of all fields' values, one field after the other.
        field_sizes: How many ids each field has.
        offsets: Where each field starts in the table.
        sparse: Whether the table's gradient is sparse.
    """

    def __init__(self, field_ids: Tensor, table: Tensor, field_sizes: Tensor, offsets: Tensor, sparse: bool) -> None:
        self.field_ids, self.table = field_ids, table
        self.field_sizes, self.offsets, self.sparse = field_sizes, offsets, sparse

    @property
    def shape(self) -> torch.Size:
        return torch.Size([self.field_ids.shape[0], self.field_ids.shape[1] * self.table.shape[1]])

    def joined(self) -> Tensor:
        """Returns the context tensor this stands for."""
        rows = rows_of_ids(self.field_ids, self.field_sizes, self.offsets)
        return functional.embedding(rows, self.table, sparse=self.sparse).reshape(self.shape)

    def linear(self, weights: Tensor, biases: Tensor) -> Tensor:
        """Returns `joined() @ weights.T + biases`, by sums of rows where the compiled loops are there."""
        fits = self.table.dtype == torch.float32 and weights.shape[0] <= MOST_COLUMNS
        if not (fits and runs_compiled(self.table)):
            return functional.linear(self.joined(), weights, biases)
        result: Tensor = _FieldLinear.apply(self.field_ids, self.field_sizes, self.table, self.sparse, weights, biases)
        return result


class _FieldLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        field_ids: Tensor,
        field_sizes: Tensor,
        table: Tensor,
        sparse: bool,
        weights: Tensor,
        biases: Tensor,
    ) -> Tensor:
        from monocal.compiled.first_layer import number_values, sum_rows

        batch = number_values(field_ids.numpy(), field_sizes.numpy())
        rows = torch.from_numpy(batch.rows)
        vectors = table.detach()[rows]
        per_value = vectors.new_empty(rows.shape[0], weights.shape[0])
        for part, columns in _by_field(batch.starts, table.shape[1]):
            torch.mm(vectors[part], weights.detach()[:, columns].t(), out=per_value[part])
        result = vectors.new_empty(field_ids.shape[0], weights.shape[0])
        sum_rows(batch.slots, per_value.numpy(), biases.detach().numpy(), result.numpy())
        ctx.batch, ctx.sparse = batch, sparse
        ctx.save_for_backward(rows, vectors, weights, table)
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> Any:
        from monocal.compiled.first_layer import scatter_rows

        rows, vectors, weights, table = ctx.saved_tensors
        pulled = vectors.new_zeros(rows.shape[0], weights.shape[0])
        scatter_rows(ctx.batch.slots, upstream.contiguous().numpy(), pulled.numpy())
        d_weights = torch.empty_like(weights)
        d_vectors = torch.empty_like(vectors) if ctx.needs_input_grad[2] else None
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
        return None, None, d_table, None, d_weights, upstream.sum(dim=0)


def _by_field(starts: NDArray[np.int64], n_dimensions: int) -> list[tuple[slice, slice]]:
    """Pairs every field's distinct values with its columns of the weights."""
    return [
        (slice(int(starts[f]), int(starts[f + 1])), slice(f * n_dimensions, (f + 1) * n_dimensions))
        for f in range(len(starts) - 1)
    ]


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


def field_offsets(field_sizes: Sequence[int]) -> Tensor:
    """Returns where each field starts in the concatenated table.

    Example:
        >>> field_offsets([3, 2, 5]).tolist()
        [0, 3, 5]
    """
    if not field_sizes or any(size < 1 for size in field_sizes):
        raise InvalidInput.of(
            "field_sizes", list(field_sizes), "at least one field with at least one value", "leave out empty fields"
        )
    sizes = torch.as_tensor(list(field_sizes), dtype=torch.int64)
    return torch.cumsum(sizes, 0) - sizes


def check_field_ids(field_ids: Tensor, sizes: Tensor) -> None:
    """Refuses ids that do not have one column per field."""
    if field_ids.ndim != 2 or field_ids.shape[1] != sizes.shape[0]:
        raise InvalidInput.of(
            "field_ids",
            f"a tensor of shape {tuple(field_ids.shape)}",
            f"shape (rows, {sizes.shape[0]})",
            "pass one column per field, in the order of field_sizes",
        )


@final
class ContextEncoder(nn.Module):
    """Looks up one vector per field and joins them: ids `(b, F)` become a context `(b, F·n_dimensions)`.

    All fields share one table with an offset per field, so a batch needs a single gather.

    With `table=None` the vectors are trained. They start at normal(0, `scale`), except id 0 (unseen value)
    of every field, which starts at the zero vector: the neutral middle of the others. It is trained like any
    other id, because rare values that a vocabulary folded into 0 do carry information; if no fitting row has
    it, it stays zero. With a `table` the vectors are frozen, as a ranker learned them.

    Arguments:
        field_sizes: How many ids each field has, id 0 included.
        n_dimensions: Length of a trainable vector; ignored with a `table`.
        table: Frozen vectors `(sum(field_sizes), d)`, or one `(field_sizes[f], d)` per field.
        sparse: Makes gradients of the trainable table sparse, for optimisers that support it.
        scale: Standard deviation of the trainable vectors at the start.
        seed: Seed of the trainable vectors.

    Example:
        >>> import torch
        >>> encoder = ContextEncoder([3, 2], n_dimensions=4)
        >>> encoder(torch.tensor([[1, 1], [0, 0]], dtype=torch.int32)).shape, encoder.width
        (torch.Size([2, 8]), 8)
        >>> encoder(torch.tensor([[0, 0]])).abs().sum().item()
        0.0
    """

    field_sizes: Tensor
    offsets: Tensor

    def __init__(
        self,
        field_sizes: Sequence[int],
        n_dimensions: int = 16,
        *,
        table: Tensor | Sequence[Tensor] | None = None,
        sparse: bool = False,
        scale: float = 0.05,
        seed: int = 0,
    ) -> None:
        super().__init__()
        offsets = field_offsets(field_sizes)
        self.register_buffer("field_sizes", torch.as_tensor(list(field_sizes), dtype=torch.int64), persistent=False)
        self.register_buffer("offsets", offsets, persistent=False)
        self.sparse = sparse
        self.is_frozen = table is not None
        n_values = int(sum(field_sizes))
        if table is None:
            vectors = torch.empty(n_values, n_dimensions)
            nn.init.normal_(vectors, std=scale, generator=generator_of(seed))
            vectors[offsets] = 0.0
            self.table: Tensor = nn.Parameter(vectors)
        else:
            self.register_buffer("table", _joined(table, n_values))

    @property
    def n_dimensions(self) -> int:
        """Length of one field's vector."""
        return int(self.table.shape[1])

    @property
    def width(self) -> int:
        """Length of a context row."""
        return int(self.field_sizes.shape[0]) * self.n_dimensions

    def fields(self, field_ids: Tensor) -> FieldContext:
        """Returns the context without joining the vectors: maps take it too, and train faster on large batches."""
        check_field_ids(field_ids, self.field_sizes)
        sparse = self.sparse and not self.is_frozen
        return FieldContext(field_ids, self.table, self.field_sizes, self.offsets, sparse)

    def forward(self, field_ids: Tensor) -> Tensor:
        return self.fields(field_ids).joined()


def _joined(table: Tensor | Sequence[Tensor], n_values: int) -> Tensor:
    joined = table if isinstance(table, Tensor) else torch.cat(list(table), dim=0)
    if joined.ndim != 2 or joined.shape[0] != n_values:
        raise InvalidInput.of(
            "table",
            f"a tensor of shape {tuple(joined.shape)}",
            f"{n_values} rows, one per value of every field",
            "pass the ranker's table and the field sizes it was trained with",
        )
    return joined.detach().clone().to(torch.float32)


@final
class BetweenKnots(nn.Module):
    """Makes an encoder's table, one vector per id, from one vector per category and per knot.

    Arguments:
        field_sizes: How many ids each field has in the table.
        n_knots: Knots per field, 0 for categories.
    """

    def __init__(self, field_sizes: Sequence[int], n_knots: Sequence[int]) -> None:
        super().__init__()
        self.sizes, self.n_knots = tuple(field_sizes), tuple(n_knots)
        for n in set(self.n_knots) - {0}:
            self.register_buffer(f"hats_{n}", hat_functions(n), persistent=False)

    def forward(self, vectors: Tensor) -> Tensor:
        own = [FIRST_ID + n if n else size for size, n in zip(self.sizes, self.n_knots, strict=True)]
        parts = torch.split(vectors, own)
        hats = [getattr(self, f"hats_{n}") if n else None for n in self.n_knots]
        return torch.cat([part if hat is None else hat @ part for part, hat in zip(parts, hats, strict=True)])

    def right_inverse(self, table: Tensor) -> Tensor:
        """Returns the table's own vectors of categories and knots."""
        parts = torch.split(table, list(self.sizes))
        return torch.cat(
            [
                torch.cat([part[:FIRST_ID], part[FIRST_ID::STEPS]]) if n else part
                for part, n in zip(parts, self.n_knots, strict=True)
            ]
        )


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


def between_knots_(encoder: ContextEncoder, n_knots: Sequence[int]) -> None:
    """Ties the vectors of all numbers between two knots to those of the knots.

    The context is then linear in the hat functions of the knots: the basis that shifts have, too.

    Example:
        >>> encoder = ContextEncoder([FIRST_ID + STEPS + 1], n_dimensions=3)
        >>> between_knots_(encoder, [2])
        >>> table = encoder.table
        >>> sum(weight.numel() for weight in encoder.parameters()), bool(torch.allclose(
        ...     table[FIRST_ID + STEPS // 2], (table[FIRST_ID] + table[-1]) / 2))
        (12, True)
    """
    rule = BetweenKnots(encoder.field_sizes.tolist(), n_knots)
    parametrize.register_parametrization(encoder, "table", rule)


@final
class ChosenValues(nn.Module):
    """Encodes ids of which only some have a vector of their own.

    Values are first looked up in `slots`, which says which row of the encoder's field a value has. Rare values
    share row 0 with unseen ones: too few rows stand behind them to learn a vector.

    Arguments:
        field_sizes: How many ids each field has.
        slots: For every id, field after field, its id in the encoder.
        encoder: Has one vector per slot.

    Example:
        Value 2 of the only field is rare and takes the place of the unseen value.

        >>> import torch
        >>> encoder = ContextEncoder([2], table=torch.tensor([[0.0], [7.0]]))
        >>> chosen = ChosenValues([3], torch.tensor([0, 1, 0]), encoder)
        >>> chosen(torch.tensor([[1], [2], [9]])).joined().tolist()
        [[7.0], [0.0], [0.0]]
    """

    sizes: Tensor
    offsets: Tensor
    slots: Tensor

    def __init__(self, field_sizes: Sequence[int], slots: Tensor, encoder: ContextEncoder) -> None:
        super().__init__()
        sizes = torch.as_tensor(list(field_sizes), dtype=torch.int64)
        self.register_buffer("sizes", sizes, persistent=False)
        self.register_buffer("offsets", torch.cumsum(sizes, 0) - sizes, persistent=False)
        self.register_buffer("slots", slots.to(torch.int64), persistent=False)
        self.encoder = encoder

    @property
    def width(self) -> int:
        """Length of a context row."""
        return self.encoder.width

    def hide_(self, fields: Sequence[int]) -> None:
        """Makes all values of some fields count as unseen."""
        for field in fields:
            first = int(self.offsets[field])
            self.slots[first : first + int(self.sizes[field])] = 0

    def forward(self, field_ids: Tensor) -> FieldContext:
        rows = rows_of_ids(field_ids, self.sizes, self.offsets)
        return self.encoder.fields(self.slots[rows])
