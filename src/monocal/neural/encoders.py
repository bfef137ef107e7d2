"""Torch encoders of field ids for a fit, and their arrays afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput
from monocal.neural.fitted import Weights
from monocal.neural.options import Embeddings

if TYPE_CHECKING:
    from monocal.neural.context import ChosenValues


@dataclass(frozen=True)
class MapInputs:
    """What a method may know when it builds its map.

    Attributes:
        rows: The training rows, with logits as they enter the map.
        context_width: Numbers per context row; 0 if there are none.
        n_dimensions: Length of one field's vector.
        warm_start: Whether the map should start as the identity.
    """

    rows: Dataset
    context_width: int
    n_dimensions: int
    warm_start: bool

    @property
    def n_fields(self) -> int:
        return len(self.rows.fields)


SPARSE_FROM_NUMBERS = 2_000_000
"""Tables with more numbers than this get sparse gradients: updating all of one would cost more than the batch."""


def own_encoder(rows: Dataset, *, n_dimensions: int, min_count: int, seed: int) -> ChosenValues:
    """Returns trainable vectors for the values that have at least `min_count` rows, and for the knots of numbers."""
    import torch

    from monocal.neural.context import ChosenValues, ContextEncoder, between_knots_

    fields = rows.fields
    found = slots_of_common_values(rows, min_count)
    is_large = sum(found.sizes) * n_dimensions > SPARSE_FROM_NUMBERS and fields.is_identity
    table = ContextEncoder(found.sizes, n_dimensions, sparse=is_large, seed=seed)
    if not fields.is_identity:
        between_knots_(table, fields.n_knots)
    return ChosenValues(fields.sizes.tolist(), torch.as_tensor(found.slots), table)


@dataclass(frozen=True)
class ValueSlots:
    """Which row of an embedding table stands for which field value.

    Attributes:
        slots: For every id, field after field, its id in the table; 0 for rare values.
        sizes: How many ids each field has in the table.
    """

    slots: NDArray[np.int64]
    sizes: list[int]


def slots_of_common_values(rows: Dataset, min_count: int) -> ValueSlots:
    """Gives every value with at least `min_count` rows a slot; the others share slot 0 with unseen values.

    All ids of a field of numbers have slots: what stands behind them are the rows around their knots.

    Arguments:
        rows: The rows to train on.
        min_count: Rows that a value needs.

    Example:
        >>> rows = Dataset(np.zeros(3), ids=np.array([[1], [3], [3]], dtype=np.int32))
        >>> found = slots_of_common_values(rows, min_count=2)
        >>> found.slots.tolist(), found.sizes
        ([0, 0, 0, 1], [2])
    """
    fields = rows.fields
    counts = rows.sum(lambda block: [fields.sums(block.ids, block.w)])[0]
    slots, sizes = [], []
    for field, is_numeric in enumerate(fields.is_numeric):
        has_one = counts[fields.ids_of(field)] >= (0 if is_numeric else max(min_count, 1))
        has_one[0] = False
        slots.append(np.where(has_one, np.cumsum(has_one), 0))
        sizes.append(int(has_one.sum()) + 1)
    return ValueSlots(np.concatenate(slots), sizes)


def ranker_encoder(tables: Sequence[NDArray[np.float32]], n_fields: int) -> ChosenValues:
    """Returns a ranker's frozen vectors."""
    import torch

    from monocal.neural.context import ChosenValues, ContextEncoder

    shapes = [np.shape(table) for table in tables]
    if len(tables) != n_fields or any(len(shape) != 2 or shape[1] != shapes[0][1] for shape in shapes):
        raise InvalidInput.of(
            "embeddings",
            f"tables of shapes {shapes}",
            f"{n_fields} tables (values, d), one per field, with the same d",
            "pass the ranker's tables in the order of the features",
        )
    sizes = [int(shape[0]) for shape in shapes]
    slots = torch.cat([torch.arange(size) for size in sizes])
    # a copy, because a memory-mapped table is read-only and torch has no such tensors
    vectors = [torch.from_numpy(np.array(table, dtype=np.float32)) for table in tables]
    return ChosenValues(sizes, slots, ContextEncoder(sizes, table=vectors))


def encoder_for(
    embeddings: Embeddings,
    tables: Sequence[NDArray[np.float32]] | None,
    rows: Dataset,
    **own: int,
) -> ChosenValues | None:
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


def encoder_arrays(encoder: ChosenValues) -> Weights:
    """Returns what `Context` needs."""
    starts = encoder.encoder.offsets.numpy()
    sizes = encoder.sizes.numpy()
    return {
        "encoder.table": encoder.encoder.table.detach().numpy().copy(),
        "encoder.slots": encoder.slots.numpy() + np.repeat(starts, sizes),
        "encoder.offsets": np.concatenate([[0], np.cumsum(sizes)]),
    }
