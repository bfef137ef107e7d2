"""What texts mean where numbers, moments or categories are wanted, in a text file or in a column of texts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from monocal.core.scores import Floats

NULL_WORDS = tuple(pa_csv.ConvertOptions().null_values)
"""What stands for no value where a number is wanted: nothing, NA, null, NaN and their like."""

TRUE, FALSE = (("true", "True", "TRUE"), ("false", "False", "FALSE"))
"""As Arrow, JSON and Spark write them, as Python does, and as spreadsheets do."""

LARGEST_WHOLE = 2.0**53
"""Beyond, neighbouring whole numbers are one float."""

WHOLE = r"^[-+]?\d+$"
_DIGITS = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
NUMBER = rf"^\s*{_DIGITS}\s*$"
_FORMS = {pa.int64(): WHOLE, pa.float64(): rf"^{_DIGITS}$|^[-+]?(inf|Inf|INF|infinity|Infinity)$"}


def mask_of(found: pa.Array) -> NDArray[np.bool_]:
    """Returns a column of yes and no as numpy has it."""
    mask: NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
    return mask


def null_words(text: pa.Array) -> NDArray[np.bool_]:
    """Says which texts are no value: nulls, and words such as NA.

    Example:
        >>> null_words(pa.array(["1", "NA", "", None, "no"])).tolist()
        [False, True, True, True, False]
    """
    return mask_of(pc.or_(pc.is_null(text), pc.is_in(text, value_set=pa.array(NULL_WORDS))))


class Numbers(NamedTuple):
    """A column as numbers; where there is none, the value is 0.

    Attributes:
        values: One per row.
        missing: Which rows hold nothing.
        bad: Which rows hold something that is no number; NaN is one.
    """

    values: Floats
    missing: NDArray[np.bool_]
    bad: NDArray[np.bool_]


def parse_numbers(text: pa.Array) -> Numbers:
    """Returns texts as numbers.

    Blanks around a number do not count, and true and false are 1 and 0.

    Example:
        >>> numbers, missing, bad = parse_numbers(pa.array(["0.5", " 2", "true", "NA", "high"]))
        >>> numbers.tolist(), missing.tolist(), bad.tolist()
        ([0.5, 2.0, 1.0, 0.0, 0.0], [False, False, False, True, False], [False, False, False, False, True])
    """
    try:
        return Numbers(_filled(text.cast(pa.float64())), mask_of(pc.is_null(text)), np.zeros(len(text), dtype=bool))
    except pa.ArrowInvalid:
        coded = text.dictionary_encode(null_encoding="encode")
    words = pc.ascii_trim_whitespace(coded.dictionary)
    missing = null_words(words)
    words = pc.if_else(pc.is_in(words, value_set=pa.array(TRUE)), "1", words)
    words = pc.if_else(pc.is_in(words, value_set=pa.array(FALSE)), "0", words)
    numbers, bad = parse_text(pc.if_else(pa.array(missing), "0", words), pa.float64())
    codes = coded.indices.to_numpy()
    return Numbers(numbers[codes], missing[codes], bad[codes])


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
            return _filled(pc.if_else(fits, text, "0").cast(kind)), ~mask_of(fits)
        except pa.ArrowInvalid:  # beyond 64 bits
            pass
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


def parse_moments(text: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Returns texts as whole numbers, or as moments in microseconds since 1970; and which of them are neither."""
    text = pc.ascii_trim_whitespace(pc.fill_null(text.cast(pa.string()), ""))
    values, bad = np.zeros(len(text), dtype=np.int64), np.ones(len(text), dtype=bool)
    try:
        return _filled(text.cast(pa.int64())), ~bad
    except pa.ArrowInvalid:
        pass
    is_number = mask_of(pc.match_substring_regex(text, NUMBER))
    for kind in (pa.int64(), pa.float64(), pa.timestamp("us"), pa.timestamp("us", "UTC")):
        rows = np.flatnonzero(bad & (is_number != pa.types.is_timestamp(kind)))
        if rows.size:
            found, wrong = parse_text(text.take(pa.array(rows)), kind)
            wrong = wrong | ~is_whole_number(found) if pa.types.is_floating(kind) else wrong
            values[rows], bad[rows] = np.where(wrong, 0, found), wrong
    return values, bad


def _filled(column: pa.Array) -> NDArray[Any]:
    """Returns the values of a column, 0 where there is none; moments are microseconds."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: NDArray[Any] = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    return values


def is_whole_number(numbers: Floats) -> NDArray[np.bool_]:
    """Says which numbers are whole, and small enough that no neighbour is the same float."""
    found: NDArray[np.bool_] = (np.rint(numbers) == numbers) & (np.abs(numbers) <= LARGEST_WHOLE)
    return found


def holds_numbers(column: pa.Array) -> bool:
    """Whether a column of texts holds numbers or booleans: at least one, and beside them only words for no value.

    Example:
        >>> [holds_numbers(pa.array(texts)) for texts in (["9.0", ""], ["True", "NA"], ["9.0", "9.1.2"], [""])]
        [True, True, False, False]
    """
    texts = column.dictionary if pa.types.is_dictionary(column.type) else pc.unique(column)
    missing = null_words(texts)
    for found in (pc.match_substring_regex(texts, NUMBER), pc.is_in(texts, value_set=pa.array([*TRUE, *FALSE]))):
        is_such = mask_of(pc.fill_null(found, False))
        if is_such.any() and (missing | is_such).all():
            return True
    return False
