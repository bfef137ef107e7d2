"""Columns of category values: which types count as categories, their values as text, and rows as ids of values."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.scores import Floats
from monocal.tables.columns import RawRows, codes_of, one_chunk, plain_array
from monocal.tables.texts import NUMBER, WHOLE, is_whole_number, null_words, parse_numbers

IdColumn = NDArray[np.integer[Any]]

_ALWAYS_SMALL = 1 << 16

NUMERIC = "name it under numeric= instead of fields= if it is a quantity, or cast it to whole numbers if it is an id"


def as_text(column: pa.Array, name: str) -> pa.Array:
    """Returns a column of category values as strings; refuses types that are not categories.

    A moment has one text, microseconds in UTC, whatever the unit and zone of its column; one without a zone is taken
    as UTC. Whole numbers have one text whatever the type of their column: a column with nulls often comes as floats,
    where 9 is 9.0, and NaN is a null. Other fractions are no categories.

    Arguments:
        column: The values.
        name: The field, for errors.

    Example:
        >>> as_text(pa.array([0], pa.timestamp("ms", "Europe/Berlin")), "hour").to_pylist()
        ['1970-01-01 00:00:00.000000']
        >>> as_text(pa.array([9.0, float("nan")]), "campaign").to_pylist()
        ['9', None]
        >>> as_text(pa.array([9.5]), "price")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: field 'price': got 9.5 in a column of type double; expected ...
    """
    column = whole_numbers(column, name)
    kind = column.type
    _check_category(kind, name)
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us"), safe=False)
    return column if pa.types.is_string(kind) else column.cast(pa.string())


def whole_numbers(column: pa.Array, name: str) -> pa.Array:
    """Returns a column of floats as integers, NaN as null, and any other column as it is; refuses a fraction."""
    if not pa.types.is_floating(column.type):
        return column
    found = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    missing = np.isnan(found)
    bad = ~missing & ~is_whole_number(found)
    if bad.any():
        value = f"{found[bad][0]:g} in a column of type {column.type}"
        raise InvalidInput.of(f"field {name!r}", value, "a categorical column (text, whole numbers, dates)", NUMERIC)
    return pa.array(np.where(missing, 0.0, found).astype(np.int64), mask=missing)


def categories_of_text(rows: RawRows, names: Iterable[str], slices: Collection[str] = ()) -> RawRows:
    """Returns rows of a text file with its categories as any other table would hold them.

    In a column that holds numbers, 9.0 is 9 (a writer makes floats of whole numbers where some are missing), words such
    as NA are nulls, and a fraction is refused; nulls among booleans are nulls, too. Every other text stays as it is: 07
    is not 7.

    Arguments:
        rows: The rows; those that are not from a text file are returned as they are.
        names: The category columns.
        slices: Of these, the ones that only tell rows apart, where a fraction may stay.

    Example:
        >>> batch = pa.record_batch({"campaign": ["9.0", "", "07"]})
        >>> rows = RawRows(batch, "log.csv", np.arange(2, 5), of_numbers=frozenset(["campaign"]))
        >>> categories_of_text(rows, ["campaign"]).column("campaign").to_pylist()
        ['9', None, '07']
    """
    batch = rows.batch
    for name in rows.of_numbers.intersection(names):
        column = batch.column(name)
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        if pc.all(pc.match_substring_regex(coded.dictionary, WHOLE)).as_py():
            continue
        values, fractions = _whole_texts(coded.dictionary)
        codes = coded.indices.to_numpy(zero_copy_only=False)
        bad = fractions[codes]
        if name not in slices and bad.any():
            at = int(np.argmax(bad))
            raise InvalidInput.of(
                f"field {name!r}",
                f"{coded.dictionary[codes[at]].as_py()} in {rows.where(at)}, in a column of numbers",
                "a categorical column (text, whole numbers, dates)",
                NUMERIC,
            )
        # texts that differed may be one value now
        decoded = pa.DictionaryArray.from_arrays(coded.indices, values).dictionary_decode().dictionary_encode()
        batch = batch.set_column(batch.schema.get_field_index(name), name, decoded)
    return rows._replace(batch=batch)


def _whole_texts(texts: pa.Array) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Returns the texts of whole numbers without a fraction, of null words null; and which are fractions."""
    is_number = pc.and_not(pc.match_substring_regex(texts, NUMBER), pc.match_substring_regex(texts, WHOLE))
    found, _, _ = parse_numbers(pc.if_else(is_number, texts, "0"))
    is_whole = is_whole_number(found)
    fractions = is_number.to_numpy(zero_copy_only=False) & ~is_whole
    whole = pa.array(np.where(is_whole, found, 0.0).astype(np.int64)).cast(pa.string())
    values = pc.if_else(pc.and_(is_number, pa.array(is_whole)), whole, texts)
    return pc.if_else(pa.array(null_words(texts)), pa.scalar(None, pa.string()), values), fractions


def check_categories(schema: pa.Schema, fields: Iterable[str]) -> None:
    """Refuses the first field whose column cannot hold categories; floats are looked at when they are read."""
    for name in fields:
        kind = schema.field(name).type
        _check_category(kind.value_type if pa.types.is_dictionary(kind) else kind, name)


def _check_category(kind: pa.DataType, name: str) -> None:
    # some systems hand over large integers as decimals without a fraction
    has_fraction = pa.types.is_decimal(kind) and kind.scale != 0
    if has_fraction or pa.types.is_nested(kind) or _is_bytes(kind):
        raise InvalidInput.of(
            f"field {name!r}",
            f"values of type {kind}",
            "a categorical column (text, integers, booleans, dates)",
            NUMERIC if has_fraction else "turn it into one value per row first",
        )


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def distinct_text(column: pa.Array, name: str) -> tuple[pa.Array, NDArray[np.int64], NDArray[np.int64]]:
    """Returns the distinct values of a column as text, how often each occurs, and which one each row has.

    Values of a dictionary that no row uses are left out: readers hand over dictionaries of a whole row group with
    every batch of it. The text may hold one null; equal texts may occur twice if the dictionary repeats them.

    Example:
        >>> values, counts, which = distinct_text(pa.array([7, 8, 7, None]), "hour")
        >>> values.to_pylist(), counts.tolist(), which.tolist()
        (['7', '8', None], [2, 1, 1], [0, 1, 0, 2])
    """
    found = coded(plain_array(column))
    codes = codes_of(found)
    counts = np.bincount(codes, minlength=len(found.dictionary))
    text = as_text(found.dictionary, name)
    if len(counts) > len(text):
        text = pa.concat_arrays([text, pa.nulls(1, pa.string())])
    return text, counts, codes


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
    try:
        if hasattr(values, "__arrow_c_stream__") and not isinstance(values, pa.Array | pa.ChunkedArray):
            values = pa.chunked_array(values)
        column = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInput.of(
            argument, f"values that are not one column ({error})", "values of one type", "turn them into strings first"
        ) from None
    _check_rows(len(column), n_rows, argument)
    column = plain_array(one_chunk(column))
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    encoded = column.dictionary_encode(null_encoding="encode")
    return EncodedColumn(encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary)


def _check_rows(found: int, n_rows: int, argument: str) -> None:
    if found != n_rows:
        raise InvalidInput.of(
            argument, f"{found} rows", f"{n_rows} rows, as many as probabilities", "pass columns of the same table"
        )


def coded_numbers(values: Floats) -> pa.DictionaryArray:
    """Returns numbers as a dictionary of the distinct ones; NaN is a null."""
    return pa.array(values, from_pandas=True).dictionary_encode()


def coded(column: pa.Array) -> pa.DictionaryArray:
    """Returns a column as a dictionary of the values in these rows alone, in the order of the first row with each.

    Readers hand over the dictionary of a whole row group with every batch of it; text and integers come in several
    widths, which files of one log may mix.

    Example:
        >>> found = coded(pa.array(["b", None, "a", "b"]).dictionary_encode())
        >>> found.indices.to_pylist(), found.dictionary.to_pylist()
        ([0, None, 1, 0], ['b', 'a'])
    """
    if not pa.types.is_dictionary(column.type):
        return column.cast(_common_type(column.type)).dictionary_encode()
    common = _common_type(column.type.value_type)
    used = pc.unique(column.indices).drop_null()
    values = column.dictionary.take(used).cast(common)
    if values.null_count or len(pc.unique(values)) < len(values):
        return column.dictionary_decode().cast(common).dictionary_encode()
    codes = codes_of(column)
    place = np.zeros(len(column.dictionary) + 1, dtype=np.int32)
    place[used.to_numpy()] = np.arange(len(used), dtype=np.int32)
    indices = pa.array(place[codes], mask=codes == len(column.dictionary) if column.null_count else None)
    return pa.DictionaryArray.from_arrays(indices, values)


def join_coded(chunks: list[pa.DictionaryArray]) -> EncodedColumn:
    """Returns chunks of `coded` as one column; ids are given by first row, and a null has the last one."""
    column = pa.chunked_array(chunks).unify_dictionaries()
    values = column.chunk(column.num_chunks - 1).dictionary
    indices = pa.chunked_array([chunk.indices for chunk in column.chunks])
    if indices.null_count:
        indices = pc.fill_null(indices, len(values))
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
    return EncodedColumn(indices.to_numpy(), values)


def _common_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_null(kind) or pa.types.is_large_string(kind):
        return pa.string()
    return pa.int64() if pa.types.is_integer(kind) and not pa.types.is_uint64(kind) else kind
