"""A column of values as small integer ids; made without Arrow where the values allow it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput

IdColumn = NDArray[np.integer[Any]]

_ALWAYS_SMALL = 1 << 16


@final
@dataclass(frozen=True, eq=False)
class EncodedColumn:
    """Ids of a column's values.

    Attributes:
        ids: One id ≥ 0 per row.
        values: The value behind each id; None when the ids are the values themselves.
    """

    ids: IdColumn
    values: Any | None

    def decode(self, ids: IdColumn) -> list[Any]:
        """Returns the values behind some ids; a missing value is None."""
        if self.values is None:
            return list(ids.tolist())
        known = self.values.to_pylist()
        return [known[number] for number in ids.tolist()]

    @property
    def known_values(self) -> Any:
        """The value behind each id, from 0 to the largest, as an Arrow array."""
        import pyarrow as pa

        return pa.array(np.arange(int(self.ids.max(initial=-1)) + 1)) if self.values is None else self.values

    def take(self, rows: Any) -> EncodedColumn:
        """Returns the chosen rows."""
        return EncodedColumn(self.ids[rows], self.values)


def encode_values(values: Any, n_rows: int, argument: str) -> EncodedColumn:
    """Numbers the values of a column: strings, integers, floats, dates, with or without missing ones.

    Integers that are already small and not negative are used as they are, without a copy.

    Arguments:
        values: A numpy array, list, pandas or polars series, or Arrow array.
        n_rows: How many rows it must have.
        argument: Its name in error messages.

    Example:
        >>> column = encode_values(["b", "a", "b"], 3, "site")
        >>> column.ids.tolist(), column.decode(np.array([0, 1]))
        ([0, 1, 0], ['b', 'a'])
    """
    plain = values if isinstance(values, np.ndarray) else None
    if plain is None and not hasattr(values, "__arrow_c_stream__") and not hasattr(values, "__arrow_c_array__"):
        plain = np.asarray(values) if not isinstance(values, list) else _numbers_or_none(values)
    if plain is not None:
        if plain.ndim != 1:
            raise InvalidInput.of(argument, f"an array of shape {plain.shape}", "one value per row", "pass one column")
        _check_rows(plain.shape[0], n_rows, argument)
        if plain.dtype.kind == "b":
            return EncodedColumn(plain.astype(np.int8), None)
        if plain.dtype.kind in "iu" and _is_small(plain):
            return EncodedColumn(plain, None)
    return _by_arrow(values if plain is None else plain, n_rows, argument)


def _numbers_or_none(values: list[Any]) -> Any | None:
    integers = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    return np.array(values) if values and integers and all(-(2**63) <= value < 2**63 for value in values) else None


def _is_small(column: Any) -> bool:
    if column.size == 0:
        return True
    return bool(column.min() >= 0 and column.max() < max(_ALWAYS_SMALL, 2 * column.shape[0]))


def _by_arrow(values: Any, n_rows: int, argument: str) -> EncodedColumn:
    import pyarrow as pa

    from monocal.tables.rows import plain_array

    try:
        if hasattr(values, "__arrow_c_stream__") and not isinstance(values, pa.Array | pa.ChunkedArray):
            values = pa.chunked_array(values)
        column = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInput.of(
            argument, f"values that are not one column ({error})", "values of one type", "turn them into strings first"
        ) from None
    _check_rows(len(column), n_rows, argument)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    column = plain_array(column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    encoded = column.dictionary_encode(null_encoding="encode")
    return EncodedColumn(encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary)


def _check_rows(found: int, n_rows: int, argument: str) -> None:
    if found != n_rows:
        raise InvalidInput.of(
            argument, f"{found} rows", f"{n_rows} rows, as many as probabilities", "pass columns of the same table"
        )
