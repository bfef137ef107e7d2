"""Turns rows of field ids into the context vectors that maps condition on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from monocal.core.errors import InvalidInput
from monocal.neural.modules.field_context import FieldContext
from monocal.neural.modules.mlp import generator_of


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
