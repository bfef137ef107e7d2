"""Fields of numbers as a few intervals, for tables and metrics by field value."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from monocal.tables.columns import numbers_or_nan
from monocal.tables.encoded_column import EncodedColumn
from monocal.tables.rows import Rows
from monocal.vocabulary.numeric_field import NumericField
from monocal.vocabulary.vocabulary import Vocabulary

MOST_BINS = 10


def binned(rows: Rows, vocabulary: Vocabulary) -> Rows:
    """Returns the rows with every field of numbers as intervals between some of its knots; a null stays a null.

    Rows of two tables have the same intervals, because they are the model's.

    Example:
        >>> from monocal.core.roles import Roles
        >>> from monocal.tables.read import read
        >>> rows = read({"y": [0, 1, 0], "p": [1.0, 2.5, None]}, Roles("y", numeric=["p"]))
        >>> shown = binned(rows, Vocabulary((NumericField("p", (1.0, 2.0, 3.0)),))).fields["p"]
        >>> shown.decode(shown.ids)
        ['below 2', '2 to 3', None]
    """
    fields = dict(rows.fields)
    for name in vocabulary.numeric_names:
        field = vocabulary[name]
        if name in fields and isinstance(field, NumericField):
            fields[name] = _intervals(field, fields[name])
    return replace(rows, fields=fields)


def _intervals(field: NumericField, column: EncodedColumn) -> EncodedColumn:
    inner = np.array(field.knots[1:], dtype=np.float64)
    if len(inner) >= MOST_BINS:
        inner = inner[np.linspace(0, len(inner) - 1, MOST_BINS - 1).round().astype(np.int64)]
    texts = [f"{edge:.6g}" for edge in inner]
    names = [f"below {texts[0]}", *(f"{a} to {b}" for a, b in pairwise(texts))] if texts else []
    names.append(f"from {texts[-1]}" if texts else "any number")
    numbers = numbers_or_nan(column.known_values, field.name)
    place = np.where(np.isnan(numbers), len(names), np.searchsorted(inner, numbers, side="right"))
    return EncodedColumn(place[column.ids], pa.array([*names, None], pa.string()))
