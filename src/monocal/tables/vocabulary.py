"""Values of fields and their ids; id 0 is every value that was not there at fitting time."""

from __future__ import annotations

import json
import mmap
import struct
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monocal.compiled.limits import LONGEST_VALUE
from monocal.core.errors import ArtefactError, InvalidInput, MonocalError, MonocalWarning, UnknownName
from monocal.core.fields import Ids, ids_of_numbers, learn_knots, n_numeric_ids, numbers_of_ids
from monocal.core.files import atomic_file
from monocal.core.format import fingerprint
from monocal.core.spaces import Floats
from monocal.tables.categories import as_text, categorical_columns, distinct_text
from monocal.tables.column import EncodedColumn
from monocal.tables.columns import numbers_or_nan
from monocal.tables.value_index import GrowingDictionary, ValueIndex, hash_text, is_long

if TYPE_CHECKING:
    from monocal.tables.table import Table

SPELLINGS = (("true", "True", "TRUE"), ("false", "False", "FALSE"))
"""As Arrow, JSON and Spark write them, as Python does, and as spreadsheets do."""


def other_spellings(ids_of: Callable[[pa.Array], Ids]) -> dict[str, int]:
    """Returns spellings of true and false that are not among a field's values, with the id of the one that is.

    A data frame's True comes out of a CSV file as another text than out of a Parquet file. Where a field has several
    spellings of one boolean among its values, they were told apart when it was learned, and nothing is added.

    Arguments:
        ids_of: Ids of texts among the values, 0 for one that is not there.

    Example:
        >>> import numpy as np
        >>> other_spellings(lambda texts: np.array([7 if text == "True" else 0 for text in texts.to_pylist()]))
        {'true': 7, 'TRUE': 7}
    """
    found: dict[str, int] = {}
    for words in SPELLINGS:
        ids = ids_of(pa.array(words)).tolist()
        known = [place for place in ids if place > 0]
        if len(known) == 1:
            found |= {word: known[0] for word, place in zip(words, ids, strict=True) if place == 0}
    return found


MOST_TEXT_BYTES = 2**31 - 1
"""Arrow's offsets of a text column end there."""


@final
class ValueCounts:
    """How often each value of a field occurred so far.

    Memory grows with the number of distinct values (32 to 60 bytes and the text of each), not with the rows.

    Example:
        >>> counts = ValueCounts("site")
        >>> counts.add(pa.array(["a", "b", "a"]))
        >>> counts.add(pa.array(["c", "b", "a", None]))
        >>> counts.frequent(min_count=2).to_pylist()
        ['a', 'b']
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._seen = GrowingDictionary()
        self._counts: NDArray[np.int64] = np.zeros(64, dtype=np.int64)
        self._n_null = 0

    def add(self, column: pa.Array) -> None:
        """Counts the values of one more batch."""
        values, counts, _ = distinct_text(column, self.name)
        values, counts = without_long_texts(values, counts, self.name)
        if values.null_count:
            is_null = pc.is_null(values).to_numpy(zero_copy_only=False)
            self._n_null += int(counts[is_null].sum())
            values, counts = values.filter(pc.is_valid(values)), counts[~is_null]
        n_before = len(self._seen)
        numbers = self._seen.add(values)
        if len(self._seen) > n_before:
            self._check_text()
        if len(self._seen) > len(self._counts):
            room = max(len(self._seen), len(self._counts) + len(self._counts) // 2)
            self._counts = np.concatenate((self._counts, np.zeros(room - len(self._counts), dtype=np.int64)))
        np.add.at(self._counts, numbers, counts)

    def _check_text(self) -> None:
        if self._seen.n_text_bytes > MOST_TEXT_BYTES:
            raise InvalidInput.of(
                f"values of field {self.name!r}",
                f"{len(self._seen):,} of them with more than {MOST_TEXT_BYTES:,} bytes of text",
                "less text in one field",
                f"hash the field: hashed_fields={{{self.name!r}: 4_194_304}}",
            )

    def in_order_of_appearance(self) -> pa.Array:
        """Returns every value seen, oldest first; null comes last."""
        texts = self._seen.values()
        return pa.concat_arrays([texts, pa.nulls(1, pa.string())]) if self._n_null else texts

    def counts(self) -> NDArray[np.int64]:
        """Returns how often each of these values occurred, in the same order."""
        counts = self._counts[: len(self._seen)]
        return np.append(counts, self._n_null) if self._n_null else counts

    def frequent(self, *, min_count: int = 1, max_size: int | None = None) -> pa.Array:
        """Returns the values with at least `min_count` rows, the most frequent first, at most `max_size` of them.

        Ties are broken by the value itself (null last), so the result does not depend on row order.
        """
        return most_frequent(self.in_order_of_appearance(), self.counts(), min_count=min_count, max_size=max_size)


def without_long_texts(values: pa.Array, counts: NDArray[np.int64], name: str) -> tuple[pa.Array, NDArray[np.int64]]:
    """Returns values and counts without texts that are too long for categories; says so if there are any.

    One strange row must not end a fit, and nothing can be learned of a text that hardly ever comes again.
    """
    long = is_long(values)
    if long is None:
        return values, counts
    warnings.warn(
        f"field {name!r}: texts of more than {LONGEST_VALUE:,} bytes are no categories; they count as unseen",
        MonocalWarning,
        stacklevel=2,
    )
    return values.filter(pa.array(~long)), counts[~long]


def most_frequent(
    values: pa.Array, counts: NDArray[np.int64], *, min_count: int = 1, max_size: int | None = None
) -> pa.Array:
    """Returns the texts with at least `min_count` rows, the most frequent first, ties by the text itself, null last.

    Example:
        >>> most_frequent(pa.array(["b", "c", "a"]), np.array([2, 7, 2]), max_size=2).to_pylist()
        ['c', 'a']
    """
    chosen = np.flatnonzero(counts >= max(min_count, 1))
    if max_size is not None and 0 < max_size < len(chosen):
        # ties at the edge are settled by the sort below, so all of them must be in it
        edge = np.partition(counts[chosen], len(chosen) - max_size)[len(chosen) - max_size]
        chosen = chosen[counts[chosen] >= edge]
    kept = pa.table({"value": values.take(pa.array(chosen)), "count": pa.array(counts[chosen])})
    order = pc.sort_indices(kept, sort_keys=[("count", "descending"), ("value", "ascending")])
    sorted_values = kept["value"].take(order if max_size is None else order[:max_size])
    return sorted_values.combine_chunks() if sorted_values.num_chunks != 1 else sorted_values.chunk(0)


@final
@dataclass(frozen=True)
class NumericField:
    """The knots of one field of numbers; see `monocal.core.numeric_ids` for the ids between them.

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


Contents = bytes | mmap.mmap
"""A file that was read or mapped."""

Fields = list[tuple[str, pa.Array, int | None]]

_SCHEMA = pa.schema([("field", pa.string()), ("values", pa.large_list(pa.string())), ("n_buckets", pa.int64())])
_MAGIC = b"ARROW1\0\0"
_MOST_BUCKETS = 2**31 - 2
_HEADER, _COMPRESSION = 2, 3
"""Numbers of the entries `Message.header` and `RecordBatch.compression` in the Arrow format."""


def write_vocabulary(
    sink: Any, fields: Sequence[tuple[str, pa.Array, int | None]], metadata: Mapping[bytes, bytes] | None = None
) -> None:
    """Writes name, values in id order and number of buckets of every field, one record batch each.

    Arguments:
        sink: Where to, anything that Arrow can write to.
        fields: The fields, in order.
        metadata: Facts about all of them.
    """
    schema = _SCHEMA.with_metadata(dict(metadata or {}))
    with pa.ipc.new_file(sink, schema) as writer:
        for name, values, n_buckets in fields:
            whole = pa.LargeListArray.from_arrays([0, len(values)], values)
            row = [pa.array([name]), whole, pa.array([n_buckets], pa.int64())]
            writer.write_batch(pa.RecordBatch.from_arrays(row, schema=schema))


def read_vocabulary(contents: Contents, name: str = "") -> tuple[Fields, dict[bytes, bytes]]:
    """Reads what `write_vocabulary` wrote: the fields and the metadata.

    The arrays are views of `contents`: reading takes no more memory than the file has bytes. Compressed buffers,
    which could expand to anything, are refused before they are expanded; offsets and texts are validated in full.

    Example:
        >>> sink = pa.BufferOutputStream()
        >>> write_vocabulary(sink, [("site", pa.array(["news", "games"]), None)])
        >>> [(name, values.to_pylist()) for name, values, _ in read_vocabulary(sink.getvalue().to_pybytes())[0]]
        [('site', ['news', 'games'])]
    """
    try:
        batches, metadata = read_batches(contents, _SCHEMA)
        return [_field(batch) for batch in batches], metadata
    except UNREADABLE as error:
        raise ArtefactError(f"vocabulary {name} cannot be read ({error}); nothing was loaded") from error


UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, struct.error)
"""What reading a damaged file raises."""


def read_batches(contents: Contents, schema: pa.Schema) -> tuple[list[pa.RecordBatch], dict[bytes, bytes]]:
    """Returns the record batches of an Arrow file and its metadata; batches are views of `contents`, checked in full.

    Raises one of `UNREADABLE` for a file that has another schema, is damaged, or is compressed.
    """
    if contents[: len(_MAGIC)] != _MAGIC:
        raise ValueError("not an Arrow file")
    # read as a stream, so that the batches that are looked at here are the ones that are used below
    body = pa.py_buffer(contents)[len(_MAGIC) :]
    with pa.ipc.open_file(pa.py_buffer(contents)) as whole:
        n_left = whole.num_record_batches
    for message in _messages(body):
        n_left -= message.type == "record batch"
        if message.type == "record batch" and _is_compressed(bytes(message.metadata)):
            raise ValueError("its buffers are compressed, which monocal never does")
        if message.type not in ("schema", "record batch"):
            raise ValueError(f"it holds a {message.type}")
    if n_left:
        raise ValueError("its end does not agree with its contents")
    with pa.ipc.open_stream(body) as reader:
        if not reader.schema.equals(schema):
            raise ValueError(f"its columns are {', '.join(reader.schema.names)}")
        batches = list(reader)
        for batch in batches:
            batch.validate(full=True)
        return batches, dict(reader.schema.metadata or {})


def _messages(body: pa.Buffer) -> Iterator[pa.Message]:
    reader = pa.ipc.MessageReader.open_stream(body)
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _field(batch: pa.RecordBatch) -> tuple[str, pa.Array, int | None]:
    if batch.num_rows != 1 or any(batch.column(name).null_count for name in ("field", "values")):
        raise ValueError("a batch is not one field")
    values, n_buckets = batch.column("values")[0].values, batch.column("n_buckets")[0].as_py()
    if n_buckets is not None and (not 1 <= n_buckets <= _MOST_BUCKETS or len(values)):
        raise ValueError(f"a hashed field with {n_buckets} buckets and {len(values)} values")
    return batch.column("field")[0].as_py(), values, n_buckets


def _is_compressed(metadata: bytes) -> bool:
    """Whether a record batch says that its buffers are compressed (a FlatBuffers table inside another)."""
    message = _unsigned(metadata, 0)
    header = _entry(metadata, message, _HEADER)
    return header is not None and _entry(metadata, header + _unsigned(metadata, header), _COMPRESSION) is not None


def _entry(metadata: bytes, table: int, number: int) -> int | None:
    """Returns where the numbered entry of a FlatBuffers table lies, or None if the table does not have it."""
    places = table - struct.unpack_from("<i", metadata, table)[0]
    n_bytes = struct.unpack_from("<H", metadata, places)[0]
    at = 4 + 2 * number
    if places < 0 or at + 2 > n_bytes:
        return None
    offset = struct.unpack_from("<H", metadata, places + at)[0]
    return table + offset if offset else None


def _unsigned(metadata: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", metadata, at)[0])


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
            >>> from monocal.tables.column import encode_values
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


INDEXED_VALUES = 100_000
"""Fields with as many values bring their index along; smaller ones are indexed in milliseconds where they are used."""

_INDEX_SCHEMA = pa.schema(
    [
        ("field", pa.string()),
        ("first", pa.large_list(pa.uint64())),
        ("second", pa.large_list(pa.uint64())),
        ("slots", pa.large_list(pa.int32())),
        ("salt", pa.uint64()),
    ]
)


def write_indexes(vocabulary: Vocabulary, least: int = INDEXED_VALUES) -> bytes:
    """Returns the indexes of all fields with at least that many listed values; nothing if there is no such field.

    Example:
        >>> vocabulary = Vocabulary.of_table(pa.table({"site": ["news", "games"]}), ["site"])
        >>> read = read_indexes(write_indexes(vocabulary, least=2), vocabulary)
        >>> read["site"].encode(pa.array(["news", "shop", "games"])).tolist(), write_indexes(vocabulary)
        ([2, 0, 1], b'')
    """
    large = [field for field in vocabulary.fields if isinstance(field, FieldVocabulary) and len(field.values) >= least]
    if not large:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, _INDEX_SCHEMA) as writer:
        for field in large:
            lists = [pa.LargeListArray.from_arrays([0, len(part)], pa.array(part)) for part in field.index.arrays()]
            salt = pa.array([field.index.salt], pa.uint64())
            writer.write_batch(pa.RecordBatch.from_arrays([pa.array([field.name]), *lists, salt], schema=_INDEX_SCHEMA))
    return bytes(sink.getvalue())


def read_indexes(contents: Contents, vocabulary: Vocabulary, name: str = "") -> Vocabulary:
    """Returns the vocabulary with the indexes that `write_indexes` wrote for it; the arrays are views of `contents`."""
    try:
        fields = {field.name: field for field in vocabulary.fields}
        for batch in read_batches(contents, _INDEX_SCHEMA)[0]:
            if batch.num_rows != 1 or any(column.null_count for column in batch.columns):
                raise ValueError("a batch is not one field")
            first, second, slots = (
                batch.column(part)[0].values.to_numpy(zero_copy_only=True) for part in ("first", "second", "slots")
            )
            salt = batch.column("salt")[0].as_py()
            field = fields[batch.column("field")[0].as_py()]
            if not isinstance(field, FieldVocabulary):
                raise ValueError(f"an index of {field.name!r}, whose values are numbers")
            fields[field.name] = field.with_index(ValueIndex.of_arrays(first, second, slots, salt))
        return Vocabulary(tuple(fields.values()))
    except (*UNREADABLE, MonocalError) as error:
        raise ArtefactError(f"{name} cannot be read ({error}); nothing was loaded") from error


MOST_BINS = 10


def binned(rows: Table, vocabulary: Vocabulary) -> Table:
    """Returns the rows with every field of numbers as intervals between some of its knots; a null stays a null.

    Rows of two tables have the same intervals, because they are the model's.

    Example:
        >>> from monocal.tables.roles import Roles
        >>> from monocal.tables.table import Table
        >>> rows = Table.read({"y": [0, 1, 0], "p": [1.0, 2.5, None]}, Roles("y", numeric=["p"]))
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
