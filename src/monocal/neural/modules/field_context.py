"""A context that is still field ids: first layers on it cost a sum of rows instead of a matrix product."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from monocal.neural.modules.compiled_path import runs_compiled

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


def joined(context: Tensor | FieldContext) -> Tensor:
    """Returns the context as a tensor."""
    return context.joined() if isinstance(context, FieldContext) else context


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
