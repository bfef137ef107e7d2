"""Numbers of a request to ids."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from monocal.core.errors import InvalidInput, shown
from monocal.tables.vocabulary import NumericField


@final
class NumberLookup:
    """The ids of one field of numbers, as `NumericField.encode` gives them offline; a null is a value of its own.

    Example:
        >>> price = NumberLookup(NumericField("price", (1.0, 2.0)))
        >>> price[1.5], price[2], price[None], price.ids_of([1.0, None])
        (1026, 2050, 1, [2, 1])
        >>> price["cheap"]
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: field 'price': got 'cheap'; expected a number or null. Hint: ...
    """

    __slots__ = ("_field", "name")

    n_bytes = 0

    def __init__(self, field: NumericField) -> None:
        self.name = field.name
        self._field = field

    def __getitem__(self, value: Any) -> int:
        return self.ids_of([value])[0]

    __missing__ = __getitem__

    def ids_of(self, column: list[Any]) -> list[int]:
        """Returns the ids of many numbers."""
        numbers = np.array([self._number(value) for value in column], dtype=np.float64)
        ids: list[int] = self._field.ids_of(numbers).tolist()
        return ids

    def _number(self, value: Any) -> float:
        if value is None:
            return float("nan")
        if isinstance(value, int | float | np.integer | np.floating | np.bool_):
            try:
                return float(value)
            except OverflowError:
                return float("inf") if value > 0 else float("-inf")
        raise InvalidInput.of(
            f"field {self.name!r}",
            shown(repr(value) if isinstance(value, str) else value),
            "a number or null",
            "send 9.5, not the text of it",
        )
