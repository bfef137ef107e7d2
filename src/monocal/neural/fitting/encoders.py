"""Torch encoders of field ids for a fit, and their arrays afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.core.team import Shards
from monocal.neural.fitted import Weights
from monocal.neural.fitting.field_values import slots_of_common_values

if TYPE_CHECKING:
    from monocal.neural.context import ChosenValues

Embeddings = Literal["auto", "own", "ranker", "none"]

SPARSE_FROM_NUMBERS = 2_000_000
"""Tables with more numbers than this get sparse gradients: updating all of one would cost more than the batch."""


def own_encoder(
    features: Ids,
    sizes: Sequence[int],
    *,
    weights: Floats | None,
    shards: Shards | None,
    n_dimensions: int,
    min_count: int,
    seed: int,
    numeric_knots: Sequence[int] | None = None,
) -> ChosenValues:
    """Returns trainable vectors for the values that have at least `min_count` rows, and for the knots of numbers."""
    import torch

    from monocal.neural.context import ChosenValues, ContextEncoder, between_knots_

    found = slots_of_common_values(features, sizes, min_count, weights, numeric_knots, shards)
    is_large = sum(found.sizes) * n_dimensions > SPARSE_FROM_NUMBERS and numeric_knots is None
    table = ContextEncoder(found.sizes, n_dimensions, sparse=is_large, seed=seed)
    if numeric_knots is not None:
        between_knots_(table, numeric_knots)
    return ChosenValues(sizes, torch.as_tensor(found.slots), table)


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
    features: Ids,
    sizes: Sequence[int],
    **own: Any,
) -> ChosenValues | None:
    """Chooses an encoder by name; None if the map is to ignore features."""
    if embeddings == "none":
        return None
    if embeddings == "own" or (embeddings == "auto" and tables is None):
        return own_encoder(features, sizes, **own)
    if tables is None:
        raise InvalidInput.of(
            "embeddings", '"ranker" without any table', "the ranker's tables", 'pass fit(embeddings=...), or use "own"'
        )
    return ranker_encoder(tables, features.shape[1])


def encoder_arrays(encoder: ChosenValues) -> Weights:
    """Returns what `Context` needs."""
    starts = encoder.encoder.offsets.numpy()
    sizes = encoder.sizes.numpy()
    return {
        "encoder.table": encoder.encoder.table.detach().numpy().copy(),
        "encoder.slots": encoder.slots.numpy() + np.repeat(starts, sizes),
        "encoder.offsets": np.concatenate([[0], np.cumsum(sizes)]),
    }
