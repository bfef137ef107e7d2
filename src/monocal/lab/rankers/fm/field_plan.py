"""Which fields go through the first layer as a matrix product, and which by look-up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

Ints64 = NDArray[np.int64]

FOLDED_VALUES = 2_048
"""Most values that are folded: with 512 hidden units their shares take 4 MB, which caches hold."""


@final
@dataclass(frozen=True)
class FieldPlan:
    """Divides fields into small ones, which are folded, and the rest.

    Attributes:
        field_sizes: Ids per field.
        n_dimensions: Length of an embedding.
        small: The folded fields.

    Example:
        >>> plan = FieldPlan.of((5, 3_000_000, 7), n_dimensions=16)
        >>> plan.small, plan.large, plan.columns.tolist(), plan.n_values
        ((0, 2), (1,), [-1, 0, -1], 12)
    """

    field_sizes: tuple[int, ...]
    n_dimensions: int
    small: tuple[int, ...]

    @classmethod
    def of(cls, field_sizes: tuple[int, ...], n_dimensions: int, most_values: int = FOLDED_VALUES) -> FieldPlan:
        """Folds the smallest fields as long as their values together are at most `most_values`."""
        small: list[int] = []
        n_left = most_values
        for field in sorted(range(len(field_sizes)), key=lambda place: (field_sizes[place], place)):
            n_left -= field_sizes[field]
            if n_left < 0:
                break
            small.append(field)
        return cls(tuple(field_sizes), n_dimensions, tuple(sorted(small)))

    @cached_property
    def large(self) -> tuple[int, ...]:
        """The fields that take part in the matrix product."""
        return tuple(field for field in range(len(self.field_sizes)) if field not in self.small)

    @cached_property
    def sizes(self) -> Ints64:
        return np.asarray(self.field_sizes, dtype=np.int64)

    @cached_property
    def offsets(self) -> Ints64:
        """Where each field begins in the joined table."""
        return np.cumsum(self.sizes) - self.sizes

    @cached_property
    def columns(self) -> Ints64:
        """Where each field's embedding begins in the product's input; −1 for a folded field."""
        places = np.full(len(self.field_sizes), -1, dtype=np.int64)
        places[list(self.large)] = np.arange(len(self.large)) * self.n_dimensions
        return places

    @cached_property
    def small_fields(self) -> Ints64:
        return np.asarray(self.small, dtype=np.int64)

    @cached_property
    def shifts(self) -> Ints64:
        """What turns a folded field's row in the joined table into its row among folded values."""
        sizes = self.sizes[self.small_fields]
        return np.cumsum(sizes) - sizes - self.offsets[self.small_fields]

    @cached_property
    def n_values(self) -> int:
        """How many values are folded."""
        return int(self.sizes[self.small_fields].sum())

    @property
    def n_inputs(self) -> int:
        """Width of the product's input."""
        return len(self.large) * self.n_dimensions

    def values_of(self, place: int) -> tuple[slice, slice, slice]:
        """Returns the `place`-th folded field's rows in the joined table, among folded values, and its weights."""
        field = self.small[place]
        start, size = int(self.offsets[field]), self.field_sizes[field]
        folded = start + int(self.shifts[place])
        weights = slice(field * self.n_dimensions, (field + 1) * self.n_dimensions)
        return slice(start, start + size), slice(folded, folded + size), weights
