"""Values of categorical fields and their ids; id 0 is every value that was not there at fitting time."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monocal.core.errors import ArtefactError, InvalidInput, UnknownName
from monocal.core.files import atomic_file
from monocal.core.fingerprint import fingerprint
from monocal.core.samples import Ids
from monocal.tables.categories import as_text, categorical_columns, distinct_text
from monocal.tables.encoded_column import EncodedColumn
from monocal.vocabulary.boolean_words import other_spellings
from monocal.vocabulary.numeric_field import NumericField
from monocal.vocabulary.text_hash import hash_text, is_long
from monocal.vocabulary.value_counts import ValueCounts, most_frequent, without_long_texts
from monocal.vocabulary.value_index import ValueIndex
from monocal.vocabulary.vocabulary_file import Contents, read_vocabulary, write_vocabulary

__all__ = ["FieldVocabulary", "NumericField", "Vocabulary", "VocabularyBuilder", "as_text", "categorical_columns"]

_NUMERIC_KEY = b"numeric"


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
        """Ids of true and false in spellings that are not among the values; see `other_spellings`."""
        return {} if self.n_buckets is not None else other_spellings(self._ids_of_values)

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
    def of_table(
        cls, table: pa.Table, fields: Sequence[str], *, min_count: int = 1, max_size: int | None = None
    ) -> Vocabulary:
        """Counts the values of a table in memory; see `VocabularyBuilder` for streams."""
        builder = VocabularyBuilder(fields)
        builder.add(table)
        return builder.build(min_count=min_count, max_size=max_size)

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
            >>> from monocal.tables.encoded_column import encode_values
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
        for name in self.names:
            if name not in table.schema.names:
                raise UnknownName.among("field column", name, table.schema.names)
        ids = np.empty((table.num_rows, len(self.fields)), dtype=np.int32)
        for index, field in enumerate(self.fields):
            ids[:, index] = field.encode(table.column(field.name))
        return ids

    @cached_property
    def fingerprint(self) -> str:
        """Changes whenever a field, its place, or any value or knot of it changes."""
        parts = [part for field in self.fields for part in (field.name, field.n_buckets, _ipc_bytes(field.values))]
        return fingerprint(*parts, *([self.numeric_names] if self.numeric_names else []))

    def save(self, path: str | Path) -> None:
        """Writes one Arrow IPC file, atomically."""
        with atomic_file(path) as temporary, pa.OSFile(str(temporary), "wb") as sink:
            self._write(sink)

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        """Reads what `save` wrote; a damaged file is refused."""
        try:
            contents = Path(path).read_bytes()
        except OSError as error:
            raise ArtefactError(f"vocabulary {Path(path).name} cannot be read ({error}); nothing was loaded") from error
        return cls.of_bytes(contents, name=Path(path).name)

    @classmethod
    def of_bytes(cls, contents: Contents, *, name: str = "") -> Vocabulary:
        """Reads the contents of a file that `save` wrote; damaged, invalid or compressed ones are refused."""
        fields, metadata = read_vocabulary(contents, name)
        try:
            numeric = json.loads(metadata.get(_NUMERIC_KEY, b"[]"))
            found = [
                NumericField.of_texts(field[0], field[1]) if field[0] in numeric else FieldVocabulary(*field)
                for field in fields
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise ArtefactError(f"vocabulary {name} cannot be read ({error}); nothing was loaded") from error
        return cls(tuple(found))

    def to_bytes(self) -> bytes:
        """Returns what `save` writes."""
        sink = pa.BufferOutputStream()
        self._write(sink)
        return bytes(sink.getvalue())

    def _write(self, sink: Any) -> None:
        fields = [(field.name, field.values, field.n_buckets) for field in self.fields]
        write_vocabulary(sink, fields, {_NUMERIC_KEY: json.dumps(self.numeric_names).encode()})


@final
class VocabularyBuilder:
    """Counts values over a stream of batches and turns the counts into a vocabulary.

    Memory grows with the number of distinct values, not with the number of rows.

    Arguments:
        field_names: The fields, in order.
        hashed_fields: Field to number of buckets, for fields whose values are hashed instead of listed.
    """

    def __init__(self, field_names: Sequence[str], hashed_fields: Mapping[str, int] | None = None) -> None:
        self.field_names = tuple(field_names)
        self.hashed_fields = dict(hashed_fields or {})
        for name in self.hashed_fields:
            if name not in self.field_names:
                raise UnknownName.among("hashed field", name, self.field_names)
        self._counts = {name: ValueCounts(name) for name in self.field_names if name not in self.hashed_fields}

    def add(self, batch: pa.Table | pa.RecordBatch) -> None:
        """Counts the values of one more batch."""
        for name, counts in self._counts.items():
            if name not in batch.schema.names:
                raise UnknownName.among("field column", name, batch.schema.names)
            column = batch.column(name)
            for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
                counts.add(chunk)

    def build(
        self,
        *,
        min_count: int | Mapping[str, int] = 1,
        max_size: int | Mapping[str, int] | None = None,
    ) -> Vocabulary:
        """Returns values with at least `min_count` rows, the most frequent first, at most `max_size` a field.

        Ties are broken by the value itself, so the result does not depend on row order.

        Arguments:
            min_count: One number, or one per field (1 where a field is not mentioned).
            max_size: One number, or one per field (no limit where a field is not mentioned).
        """
        built = []
        for name in self.field_names:
            if name in self.hashed_fields:
                built.append(FieldVocabulary.hashed(name, self.hashed_fields[name]))
                continue
            least = min_count.get(name, 1) if isinstance(min_count, Mapping) else min_count
            most = max_size.get(name) if isinstance(max_size, Mapping) else max_size
            built.append(FieldVocabulary(name, self._counts[name].frequent(min_count=least, max_size=most)))
        return Vocabulary(tuple(built))


def _ipc_bytes(values: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays([values], names=["values"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())
