"""Batches of a column as one column of ids and distinct values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monocal.core.spaces import Floats
from monocal.tables.encoded_column import EncodedColumn


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
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    common = _common_type(kind)
    if not pa.types.is_dictionary(column.type):
        return column.cast(common).dictionary_encode()
    n_values = len(column.dictionary)
    codes = pc.fill_null(column.indices.cast(pa.int64()), n_values).to_numpy(zero_copy_only=False)
    first = np.full(n_values + 1, len(codes), dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    order = np.argsort(first[:n_values], kind="stable")[: int(np.count_nonzero(first[:n_values] < len(codes)))]
    values = column.dictionary.take(pa.array(order)).cast(common)
    if values.null_count or len(pc.unique(values)) < len(values):
        return column.dictionary_decode().cast(common).dictionary_encode()
    place = np.zeros(n_values + 1, dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    indices = pa.array(place[codes], mask=codes == n_values if column.null_count else None)
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
