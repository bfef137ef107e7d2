"""Features as callers have them: columns of raw values, turned into the ids that methods learn from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from monocal.core.errors import InvalidInput
from monocal.tables.categories import distinct_text
from monocal.tables.value_index import without_long_texts
from monocal.tables.vocabulary import FieldVocabulary

KnownValues = list[list[str | None]]
"""Per field, the texts that a fit saw; value k has id k + 1."""


def learn_values(features: Any) -> tuple[Any, KnownValues | None]:
    """Returns ids and the values behind them; ids that were given as such are returned as they are, with None.

    Values are compared as text, as in tables, and numbered in alphabetical order, so that the order of rows does not
    matter. A missing value is a value of its own.

    Example:
        >>> ids, known = learn_values([["news", "games", None]])
        >>> ids.tolist(), known
        ([[2], [1], [3]], [['games', 'news', None]])
        >>> learn_values([[3], [1]])
        ([[3], [1]], None)
    """
    columns = _raw_columns(features)
    if columns is None:
        return features, None
    known: KnownValues = []
    for place, column in enumerate(columns):
        values, counts, _ = distinct_text(column, _name(place))
        texts = set(without_long_texts(values, counts, _name(place))[0].to_pylist())
        known.append([*sorted(text for text in texts if text is not None), *([None] if None in texts else [])])
    return _encode(columns, known), known


def known_ids(features: Any, known: KnownValues | None) -> Any:
    """Returns the ids of raw values by what a fit saw, 0 for others; without such values `features` as they are.

    Example:
        >>> known_ids({"site": ["games", "shop"]}, [["games", "news"]]).tolist()
        [[1], [0]]
    """
    if known is None or features is None:
        return features
    columns = _raw_columns(features, numbers_too=True)
    if columns is None or len(columns) != len(known):
        got = "values without columns" if columns is None else f"{len(columns)} columns"
        raise InvalidInput.of("features", got, f"the {len(known)} columns of raw values that fit saw", "pass the same")
    return _encode(columns, known)


def _encode(columns: list[pa.Array], known: KnownValues) -> Any:
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise InvalidInput.of(
            "features", f"columns of {', '.join(map(str, sorted(lengths)))} rows", "columns of one length", "align them"
        )
    return np.column_stack(
        [
            FieldVocabulary(_name(place), pa.array(texts, pa.string())).encode(column)
            for place, (column, texts) in enumerate(zip(columns, known, strict=True))
        ]
    )


def _raw_columns(features: Any, *, numbers_too: bool = False) -> list[pa.Array] | None:
    """The columns of raw values; None where all are whole numbers, which are ids unless `numbers_too`."""
    if isinstance(features, np.ndarray) and features.dtype.kind in "iuf" and not numbers_too:
        return None
    columns = _columns(features)
    if not columns:
        return None
    try:
        arrays = [_array(column) for column in columns]
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidInput.of(
            "features", f"a column of mixed types ({error})", "one type per column", "cast it to text"
        ) from error
    kinds = [column.type.value_type if pa.types.is_dictionary(column.type) else column.type for column in arrays]
    if not numbers_too and all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds):
        return None
    return arrays


def _columns(features: Any) -> list[Any] | None:
    if features is None:
        return None
    if isinstance(features, np.ndarray):
        return [features] if features.ndim == 1 else list(features.T) if features.ndim == 2 else None
    if isinstance(features, Mapping):
        return list(features.values())
    if hasattr(features, "columns") and hasattr(features, "__getitem__") and not isinstance(features, pa.Table):
        return [features[name] for name in features.columns]
    if hasattr(features, "__arrow_c_stream__") and not hasattr(features, "name"):
        return list(pa.table(features).columns)
    if isinstance(features, list | tuple) and features:
        is_column = isinstance(features[0], str) or features[0] is None
        # a list of lists of numbers is a matrix of ids, row by row
        return [features] if is_column else list(features) if _has_text(features[0]) else None
    return [features] if hasattr(features, "__array__") and np.ndim(features) == 1 else None


def _has_text(column: Any) -> bool:
    if isinstance(column, int | float | np.number):
        return False
    values = column if isinstance(column, list | tuple) else np.asarray(column)
    return any(isinstance(value, str) for value in values[:1000])


def _array(column: Any) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks()
    found = column if isinstance(column, pa.Array) else pa.array(column)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _name(place: int) -> str:
    return f"features[{place}]"
