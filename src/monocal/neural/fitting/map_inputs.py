"""What a method may know when it builds its map."""

from __future__ import annotations

from dataclasses import dataclass

from monocal.core.dataset import Dataset


@dataclass(frozen=True)
class MapInputs:
    """The surroundings of a map.

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
