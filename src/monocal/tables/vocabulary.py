"""Values of fields and their ids; id 0 is every value that was not there at fitting time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, UnknownName, check_known
from monocal.core.fields import Ids, ids_of_numbers, learn_knots, n_numeric_ids, numbers_of_ids
from monocal.core.folder import fingerprint
from monocal.core.scores import Floats
from monocal.tables.categories import EncodedColumn, as_text, distinct_text, encode_values
from monocal.tables.columns import numbers_or_nan
from monocal.tables.texts import FALSE, TRUE
from monocal.tables.value_index import ValueIndex, hash_text, is_long, most_frequent, without_long_texts


@final
@dataclass(frozen=True)
class NumericField:
    """The knots of one field of numbers; see `monocal.core.fields` for the ids between them.

    Nulls and NaN are a value of their own. Numbers beyond the outer knots count as the knot.

    Arguments:
        name: The field.
        knots: Rising numbers.

    Example:
        >>> price = NumericField("price", (1.0, 2.0))
        >>> price.encode(pa.array([1.0, 1.5, None])).tolist(), price.size
        ([2, 1026, 1], 2051)
    """

    name: str
    knots: tuple[float, ...]

    n_buckets = None

    @classmethod
    def of_column(cls, name: str, column: EncodedColumn) -> NumericField:
        """Learns the knots of rows in memory."""
        values = column.known_values
        counts = np.bincount(column.ids, minlength=len(values))
        return cls(name, learn_knots(numbers_or_nan(values, name), counts))

    @classmethod
    def of_texts(cls, name: str, texts: pa.Array) -> NumericField:
        """Reads knots that were written as text; refuses what does not rise."""
        knots = tuple(float(text) for text in texts.to_pylist())
        if not all(np.isfinite(knots)) or any(knot >= other for knot, other in pairwise(knots)):
            raise ValueError(f"the knots of field {name!r} do not rise")
        return cls(name, knots)

    @property
    def values(self) -> pa.Array:
        """The knots as text that reads back to the same numbers."""
        return pa.array([repr(knot) for knot in self.knots], pa.string())

    @property
    def n_knots(self) -> int:
        return len(self.knots)

    @property
    def size(self) -> int:
        """How many ids there are, those of unseen and null included."""
        return n_numeric_ids(self.n_knots)

    def encode(self, column: pa.Array | pa.ChunkedArray) -> Ids:
        """Returns the id of every row."""
        return self.ids_of(numbers_or_nan(column, self.name))

    def ids_of(self, numbers: Floats) -> Ids:
        """Returns the id of every number; NaN is a null."""
        return ids_of_numbers(numbers, self._knots)

    def numbers_of(self, ids: Ids) -> Floats:
        """Returns the number behind every id; NaN for a null and for an unseen value."""
        return numbers_of_ids(ids, self._knots)

    @cached_property
    def _knots(self) -> NDArray[np.float64]:
        return np.array(self.knots, dtype=np.float64)


@final
@dataclass(frozen=True)
class FieldVocabulary:
    """The values of one field in id order: value k has id k + 1, anything else has id 0.

    A null is a value of its own when it was seen at fitting time; where the empty text was seen instead, as which text
    files may hold it, it counts as that. Values are compared as text, so that 7, "7" and a dictionary-encoded 7 are the
    same value; and so are true, True and TRUE where one of them is known.

    A field with too many values to list may be hashed instead: every text has an id in 1 … n_buckets, different
    texts may share one, and null has id 0. So have texts of more than 4,096 bytes, in every field.

    Arguments:
        name: The field.
        values: Distinct texts, at most one of them null; empty for a hashed field.
        n_buckets: How many ids the texts are hashed to; None for a field with listed values.

    Example:
        >>> site = FieldVocabulary("site", pa.array(["news", "games"]))
        >>> site.encode(pa.array(["games", "shop", "news", None])).tolist(), site.size
        ([2, 0, 1, 0], 3)
        >>> hashed = FieldVocabulary.hashed("device", 1000)
        >>> hashed.encode(pa.array(["a99f214a", None])).tolist(), hashed.size
        ([762, 0], 1001)
    """

    name: str
    values: pa.Array
    n_buckets: int | None = None

    @classmethod
    def hashed(cls, name: str, n_buckets: int) -> FieldVocabulary:
        """Returns a field whose values are hashed to `n_buckets` ids."""
        if not 1 <= n_buckets < 2**31 - 1:
            raise InvalidInput.of(f"buckets of field {name!r}", n_buckets, "1 to 2,147,483,646", "use 1,000,000")
        return cls(name, pa.array([], pa.string()), n_buckets)

    @property
    def size(self) -> int:
        """How many ids there are, the unseen one included."""
        return (len(self.values) if self.n_buckets is None else self.n_buckets) + 1

    def encode(self, column: pa.Array | pa.ChunkedArray) -> Ids:
        """Returns the id of every row; every distinct value is looked up once."""
        if isinstance(column, pa.ChunkedArray):
            if column.num_chunks == 0:
                return np.zeros(0, dtype=np.int32)
            return np.concatenate([self.encode(chunk) for chunk in column.chunks])
        if pa.types.is_string(column.type):
            return self._ids_of_text(column)
        values, _, which = distinct_text(column, self.name)
        ids: Ids = self._ids_of_text(values)[which]
        return ids

    def _ids_of_text(self, text: pa.Array) -> Ids:
        long = is_long(text)
        if long is not None:
            text = pc.if_else(pa.array(long), "", text)
        if self.n_buckets is not None:
            ids = (hash_text(text)[0] % np.uint64(self.n_buckets)).astype(np.int32) + np.int32(1)
        else:
            ids = self._ids_of_values(text)
            for spelling, place in self.spellings.items():
                ids[pc.equal(text, spelling).fill_null(False).to_numpy(zero_copy_only=False)] = place
        if text.null_count:
            ids[pc.is_null(text).to_numpy(zero_copy_only=False)] = self.null_id
        if long is not None:
            ids[long] = 0
        return ids

    def _ids_of_values(self, text: pa.Array) -> Ids:
        # a text that is not there has number -1 and hence id 0; behind the null, ids are one higher
        ids: Ids = self.index.find(text) + np.int32(1)
        if self.values.null_count:
            ids += ids >= self.null_id
        return ids

    @cached_property
    def spellings(self) -> dict[str, int]:
        """Spellings of true and false that are not among the values, with the id of the one that is.

        A data frame's True comes out of a CSV file as another text than out of a Parquet file. Where a field has
        several spellings of one boolean among its values, they were different values when it was learned.
        """
        found: dict[str, int] = {}
        for words in (TRUE, FALSE) if self.n_buckets is None else ():
            ids = self._ids_of_values(pa.array(words)).tolist()
            known = [place for place in ids if place]
            if len(known) == 1:
                found |= {word: known[0] for word, place in zip(words, ids, strict=True) if not place}
        return found

    @cached_property
    def index(self) -> ValueIndex:
        """Finds the place of a text among the values that are not null."""
        index = ValueIndex(self.values.drop_null())
        self._check_distinct(index)
        return index

    def with_index(self, index: ValueIndex) -> FieldVocabulary:
        """Returns the same field with an index that was built before, of the same values."""
        self._check_distinct(index)
        copy = replace(self)
        copy.__dict__["index"] = index
        return copy

    def _check_distinct(self, index: ValueIndex) -> None:
        if len(index) + self.values.null_count != len(self.values) or self.values.null_count > 1:
            raise InvalidInput.of(f"values of field {self.name!r}", "a value twice", "distinct values", "drop one")

    @cached_property
    def null_id(self) -> int:
        """The id of a null: its own, else that of the empty text, else 0."""
        is_null = pc.is_null(self.values) if self.values.null_count else pc.equal(self.values, "")
        return int(pc.index(is_null, True).as_py()) + 1


@final
@dataclass(frozen=True)
class Vocabulary:
    """The vocabularies of all fields, in field order; a field of numbers has knots instead of values.

    Example:
        >>> table = pa.table({"site": ["a", "b", "a"], "hour": [1, 2, 2]})
        >>> vocabulary = Vocabulary.of_table(table, ["site", "hour"])
        >>> vocabulary.sizes, vocabulary.encode(table).tolist()
        ((3, 3), [[1, 2], [2, 1], [1, 1]])
    """

    fields: tuple[FieldVocabulary | NumericField, ...]

    @classmethod
    def of_table(cls, table: pa.Table, fields: Sequence[str], **limits: Any) -> Vocabulary:
        """Counts the values of a table in memory; `limits` are those of `of_columns`."""
        columns = {name: encode_values(_column(table, name), table.num_rows, name) for name in fields}
        return cls.of_columns(columns, **limits)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Ids per field, the unseen one included."""
        return tuple(field.size for field in self.fields)

    @property
    def numeric_knots(self) -> tuple[int, ...] | None:
        """Knots per field, 0 for a field of categories; None if no field holds numbers."""
        found = tuple(field.n_knots if isinstance(field, NumericField) else 0 for field in self.fields)
        return found if any(isinstance(field, NumericField) for field in self.fields) else None

    @property
    def numeric_names(self) -> tuple[str, ...]:
        """The fields of numbers."""
        return tuple(field.name for field in self.fields if isinstance(field, NumericField))

    @property
    def category_names(self) -> tuple[str, ...]:
        """The fields of categories."""
        return tuple(field.name for field in self.fields if not isinstance(field, NumericField))

    def __getitem__(self, name: str) -> FieldVocabulary | NumericField:
        for field in self.fields:
            if field.name == name:
                return field
        raise UnknownName.among("field", name, self.names)

    @classmethod
    def of_columns(
        cls,
        columns: Mapping[str, EncodedColumn],
        *,
        min_count: int = 1,
        max_size: int | None = None,
        numeric: Collection[str] = (),
    ) -> Vocabulary:
        """Counts the values of rows in memory, and learns the knots of fields in `numeric`.

        Example:
            >>> Vocabulary.of_columns({"site": encode_values(["b", "a", "a"], 3, "site")})["site"].values.to_pylist()
            ['a', 'b']
        """
        fields: list[FieldVocabulary | NumericField] = []
        for name, column in columns.items():
            if name in numeric:
                fields.append(NumericField.of_column(name, column))
                continue
            texts = as_text(column.known_values, name).dictionary_encode(null_encoding="encode")
            counts = np.bincount(column.ids, minlength=len(texts))
            # values that differ may have one text, so counts are added up by text
            by_text = np.bincount(texts.indices.to_numpy(), weights=counts, minlength=len(texts.dictionary))
            found, rows = without_long_texts(texts.dictionary, by_text.astype(np.int64), name)
            kept = most_frequent(found, rows, min_count=min_count, max_size=max_size)
            fields.append(FieldVocabulary(name, kept))
        return cls(tuple(fields))

    def encode_columns(self, columns: Mapping[str, EncodedColumn], n_rows: int) -> Ids:
        """Returns the ids `(rows, fields)` of rows in memory; every distinct value is looked up once."""
        ids = np.empty((n_rows, len(self.fields)), dtype=np.int32)
        for index, field in enumerate(self.fields):
            column = columns[field.name]
            ids[:, index] = field.encode(column.known_values)[column.ids]
        return ids

    def encode(self, table: pa.Table | pa.RecordBatch) -> Ids:
        """Returns the ids `(rows, fields)` of a table that has all the fields (other columns are ignored)."""
        columns = [_column(table, name) for name in self.names]
        ids = np.empty((table.num_rows, len(self.fields)), dtype=np.int32)
        for index, field in enumerate(self.fields):
            ids[:, index] = field.encode(columns[index])
        return ids

    @cached_property
    def fingerprint(self) -> str:
        """Changes whenever a field, its place, or any value or knot of it changes."""
        parts = [part for field in self.fields for part in (field.name, field.n_buckets, _ipc_bytes(field.values))]
        return fingerprint(*parts, *([self.numeric_names] if self.numeric_names else []))


def _column(table: pa.Table | pa.RecordBatch, name: str) -> pa.ChunkedArray:
    check_known("field column", name, table.schema.names)
    column = table.column(name)
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


def _ipc_bytes(values: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays([values], names=["values"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())
