"""Text as numbers: one rule for every file of text and every column of texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

NULL_WORDS = tuple(pa_csv.ConvertOptions().null_values)
"""What stands for no value where a number is wanted: nothing, NA, null, NaN and their like."""

_TRUE, _FALSE = (("true", "True", "TRUE"), ("false", "False", "FALSE"))

_FORMS = {
    pa.int64(): r"^[-+]?\d+$",
    pa.float64(): r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$|^[-+]?(inf|Inf|INF|infinity|Infinity)$",
}


def trimmed(text: pa.Array) -> pa.Array:
    """Returns texts without blanks around them."""
    return pc.ascii_trim_whitespace(text)


def null_words(text: pa.Array) -> NDArray[np.bool_]:
    """Says which texts are no value: nulls, and words such as NA.

    Example:
        >>> null_words(pa.array(["1", "NA", "", None, "no"])).tolist()
        [False, True, True, True, False]
    """
    found = pc.or_(pc.is_null(text), pc.is_in(text, value_set=pa.array(NULL_WORDS)))
    result: NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
    return result


def parse_numbers(text: pa.Array) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Returns texts as numbers, which of them are missing, and which are no numbers.

    Blanks around a number do not count, and true and false are 1 and 0.

    Example:
        >>> numbers, missing, bad = parse_numbers(pa.array(["0.5", " 2", "true", "NA", "high"]))
        >>> numbers.tolist(), missing.tolist(), bad.tolist()
        ([0.5, 2.0, 1.0, 0.0, 0.0], [False, False, False, True, False], [False, False, False, False, True])
    """
    try:
        return _filled(text.cast(pa.float64())), _nulls(text), np.zeros(len(text), dtype=bool)
    except pa.ArrowInvalid:
        coded = pc.dictionary_encode(text)
    words = trimmed(coded.dictionary)
    missing = null_words(words)
    words = pc.if_else(pc.is_in(words, value_set=pa.array(_TRUE)), "1", words)
    words = pc.if_else(pc.is_in(words, value_set=pa.array(_FALSE)), "0", words)
    numbers, bad = parse_text(pc.if_else(pa.array(missing), "0", words), pa.float64())
    codes = pc.fill_null(coded.indices, len(words)).to_numpy(zero_copy_only=False)
    return np.append(numbers, 0.0)[codes], np.append(missing, True)[codes], np.append(bad, False)[codes]


def parse_text(text: pa.Array, kind: pa.DataType) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Returns texts as values of a type, and which of them are none; a value that is none is 0.

    All are parsed at once; if that fails, those that have the form of a number; if that fails, too, each distinct one.
    """
    try:
        return _filled(text.cast(kind)), np.zeros(len(text), dtype=bool)
    except pa.ArrowInvalid:
        pass
    if kind in _FORMS:
        fits = pc.fill_null(pc.match_substring_regex(text, _FORMS[kind]), False)
        try:
            values = _filled(pc.if_else(fits, text, "0").cast(kind))
        except pa.ArrowInvalid:  # beyond 64 bits
            pass
        else:
            return values, ~fits.to_numpy(zero_copy_only=False)
    coded = text.dictionary_encode()
    scalars = [_parse_one(value, kind) for value in coded.dictionary]
    codes = coded.indices.to_numpy(zero_copy_only=False)
    bad = np.array([value is None for value in scalars], dtype=bool)
    return _filled(pa.array(scalars, kind))[codes], bad[codes]


def _parse_one(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar | None:
    try:
        return value.cast(kind)
    except pa.ArrowInvalid:
        return None


def _filled(column: pa.Array) -> NDArray[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: NDArray[Any] = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    return values.copy()


def _nulls(column: pa.Array) -> NDArray[np.bool_]:
    nulls: NDArray[np.bool_] = pc.is_null(column).to_numpy(zero_copy_only=False)
    return nulls
