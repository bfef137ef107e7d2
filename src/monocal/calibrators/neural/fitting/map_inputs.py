"""What a method may know when it builds its map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from monocal.calibrators.neural.arrays.context_table import SHARED, Weights
from monocal.calibrators.neural.fitting.field_values import field_sizes
from monocal.core.samples import Samples
from monocal.core.spaces import Floats


@dataclass(frozen=True)
class MapInputs:
    """The surroundings of a map.

    Attributes:
        rows: The training rows, with logits as they enter the map.
        field_sizes: How many ids each field has; empty without features.
        context_width: Numbers per context row; 0 if there are none.
        n_dimensions: Length of one field's vector.
        warm_start: Whether the map should start as the identity.
        knots: Those of the map to go on from, if there is one and it has any.
        keeps_hidden: Whether its hidden layers stay as they are, because other tasks have them, too.
    """

    rows: Samples
    field_sizes: Sequence[int]
    context_width: int
    n_dimensions: int
    warm_start: bool
    knots: Floats | None = None
    keeps_hidden: bool = False

    @classmethod
    def going_on(cls, weights: Weights, rows: Samples, warm_start: bool) -> Self:
        """Returns what the map of a fitted calibrator was built from, as its arrays tell.

        Arguments:
            weights: All arrays of the calibrator.
            rows: The rows to go on with.
            warm_start: Whether the map started as the identity.
        """
        sizes = [] if rows.features is None else field_sizes(rows.features)
        table = weights.get("encoder.table", np.zeros((0, 0)))
        n_dimensions = int(table.shape[1])
        knots = weights.get("curve.curve.knots")
        return cls(rows, sizes, len(sizes) * n_dimensions, n_dimensions, warm_start, knots, SHARED in weights)

    @property
    def n_fields(self) -> int:
        return len(self.field_sizes)
