"""Values of categorical fields and their ids; id 0 is every value that was not there at fitting time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
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


@final
@dataclass(frozen=True)
class FieldVocabulary:
    """The values of one field in id order: value k has id k + 1, anything else has id 0.

    A null is a value of its own when it was seen at fitting time. Values are compared as text, so that 7, "7"
    and a dictionary-encoded 7 are the same value.

    Example:
        >>> site = FieldVocabulary("site", pa.array(["news", "games"]))
        >>> site.encode(pa.array(["games", "shop", "news", None])).tolist(), site.size
        ([2, 0, 1, 0], 3)
    """

    name: str
    values: pa.Array

    @property
    def size(self) -> int:
        """How many ids there are, the unseen one included."""
        return len(self.values) + 1

    def encode(self, column: pa.Array | pa.ChunkedArray) -> Ids:
        """Returns the id of every row."""
        if isinstance(column, pa.ChunkedArray):
            if column.num_chunks == 0:
                return np.zeros(0, dtype=np.int32)
            return np.concatenate([self.encode(chunk) for chunk in column.chunks])
        if pa.types.is_dictionary(column.type):
            ids_of_codes = self.encode(column.dictionary)
            null_id = self.encode(pa.nulls(1, pa.string()))[0]
            with_null = np.append(ids_of_codes, null_id).astype(np.int32)
            codes = pc.fill_null(column.indices.cast(pa.int64()), len(ids_of_codes))
            ids: Ids = with_null[codes.to_numpy(zero_copy_only=False)]
            return ids
        text = as_text(column, self.name)
        found = pc.fill_null(pc.index_in(text, value_set=self.values), -1)
        positions = found.to_numpy(zero_copy_only=False)
        result: Ids = (positions + 1).astype(np.int32)
        return result


@final
@dataclass(frozen=True)
class Vocabulary:
    """The vocabularies of all fields, in field order.

    Example:
        >>> table = pa.table({"site": ["a", "b", "a"], "hour": [1, 2, 2]})
        >>> vocabulary = Vocabulary.of_table(table, ["site", "hour"])
        >>> vocabulary.sizes, vocabulary.encode(table).tolist()
        ((3, 3), [[1, 2], [2, 1], [1, 1]])
    """

    fields: tuple[FieldVocabulary, ...]

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
        return tuple(one.name for one in self.fields)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Ids per field, the unseen one included."""
        return tuple(one.size for one in self.fields)

    def __getitem__(self, name: str) -> FieldVocabulary:
        for one in self.fields:
            if one.name == name:
                return one
        raise UnknownName.among("field", name, self.names)

    def encode(self, table: pa.Table | pa.RecordBatch) -> Ids:
        """Returns the ids `(rows, fields)` of a table that has all the fields (other columns are ignored)."""
        for name in self.names:
            if name not in table.schema.names:
                raise UnknownName.among("field column", name, table.schema.names)
        ids = np.empty((table.num_rows, len(self.fields)), dtype=np.int32)
        for index, one in enumerate(self.fields):
            ids[:, index] = one.encode(table.column(one.name))
        return ids

    @cached_property
    def fingerprint(self) -> str:
        """Changes whenever a field, its place, or any value of it changes."""
        return fingerprint(*[part for one in self.fields for part in (one.name, _ipc_bytes(one.values))])

    def save(self, path: str | Path) -> None:
        """Writes one Arrow IPC file, atomically."""
        schema = pa.schema([("field", pa.string()), ("values", pa.large_list(pa.string()))])
        with (
            atomic_file(path) as temporary,
            pa.OSFile(str(temporary), "wb") as sink,
            pa.ipc.new_file(sink, schema) as writer,
        ):
            for one in self.fields:
                whole = pa.LargeListArray.from_arrays([0, len(one.values)], one.values)
                writer.write_batch(pa.RecordBatch.from_arrays([pa.array([one.name]), whole], schema=schema))

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        """Reads what `save` wrote; a damaged file is refused."""
        try:
            with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
                batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
                return cls(
                    tuple(
                        FieldVocabulary(batch["field"][0].as_py(), batch["values"][0].values.cast(pa.string()))
                        for batch in batches
                    )
                )
        except (pa.ArrowInvalid, OSError, KeyError) as error:
            raise ArtefactError(f"vocabulary {Path(path).name} cannot be read ({error}); nothing was loaded") from error


@final
@dataclass
class VocabularyBuilder:
    """Counts values over a stream of batches and turns the counts into a vocabulary.

    Memory grows with the number of distinct values, not with the number of rows.
    """

    field_names: Sequence[str]
    _counts: dict[str, pa.Table | None] = field(default_factory=dict)
    _pending: dict[str, list[pa.Table]] = field(default_factory=dict)

    _MERGE_AFTER_ROWS = 2_000_000

    def add(self, batch: pa.Table | pa.RecordBatch) -> None:
        """Counts the values of one more batch."""
        for name in self.field_names:
            if name not in batch.schema.names:
                raise UnknownName.among("field column", name, batch.schema.names)
            pending = self._pending.setdefault(name, [])
            pending.append(_value_counts(batch.column(name), name))
            if sum(part.num_rows for part in pending) > self._MERGE_AFTER_ROWS:
                self._merge(name)

    def build(
        self,
        *,
        min_count: int | dict[str, int] = 1,
        max_size: int | dict[str, int] | None = None,
    ) -> Vocabulary:
        """Returns values with at least `min_count` rows, the most frequent first, at most `max_size` a field.

        Ties are broken by the value itself, so the result does not depend on row order.
        """
        built = []
        for name in self.field_names:
            self._merge(name)
            counts = self._counts.get(name)
            if counts is None:
                built.append(FieldVocabulary(name, pa.array([], pa.string())))
                continue
            least = min_count.get(name, 1) if isinstance(min_count, dict) else min_count
            most = max_size.get(name) if isinstance(max_size, dict) else max_size
            kept = counts.filter(pc.greater_equal(counts["count"], least))
            order = pc.sort_indices(kept, sort_keys=[("count", "descending"), ("value", "ascending")])
            values = kept["value"].take(order if most is None else order[:most])
            built.append(FieldVocabulary(name, values.combine_chunks()))
        return Vocabulary(tuple(built))

    def _merge(self, name: str) -> None:
        parts = self._pending.pop(name, [])
        held = self._counts.get(name)
        if held is not None:
            parts.append(held)
        if not parts:
            return
        grouped = pa.concat_tables(parts).group_by("value").aggregate([("count", "sum")])
        self._counts[name] = pa.table({"value": grouped["value"], "count": grouped["count_sum"]})


def as_text(column: pa.Array, name: str) -> pa.Array:
    """Returns a column of category values as strings; refuses types that are not categories."""
    kind = column.type
    if pa.types.is_string(kind):
        return column
    if pa.types.is_floating(kind) or pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_decimal(kind):
        raise InvalidInput.of(
            f"field {name!r}",
            f"values of type {kind}",
            "a categorical column (text, integers, booleans, dates)",
            "cast it to text, or bin it into a few integer classes first",
        )
    return column.cast(pa.string())


def categorical_columns(schema: pa.Schema, exclude: Iterable[str] = ()) -> list[str]:
    """Returns the columns that could serve as fields: text, dictionaries, integers and booleans."""
    out = set(exclude)

    def fits(kind: Any) -> bool:
        return bool(
            pa.types.is_string(kind)
            or pa.types.is_large_string(kind)
            or pa.types.is_string_view(kind)
            or pa.types.is_dictionary(kind)
            or pa.types.is_integer(kind)
            or pa.types.is_boolean(kind)
        )

    return [one.name for one in schema if one.name not in out and fits(one.type)]


def _value_counts(column: pa.Array | pa.ChunkedArray, name: str) -> pa.Table:
    if isinstance(column, pa.ChunkedArray):
        parts = [_value_counts(chunk, name) for chunk in column.chunks]
        return (
            pa.concat_tables(parts)
            if parts
            else pa.table({"value": pa.array([], pa.string()), "count": pa.array([], pa.int64())})
        )
    if pa.types.is_dictionary(column.type):
        n_values = len(column.dictionary)
        codes = pc.fill_null(column.indices.cast(pa.int64()), n_values).to_numpy(zero_copy_only=False)
        counts = np.bincount(codes, minlength=n_values + 1)
        text = as_text(column.dictionary, name)
        seen = np.flatnonzero(counts)
        values = pa.concat_arrays([text, pa.nulls(1, pa.string())]).take(pa.array(seen))
        return pa.table({"value": values, "count": pa.array(counts[seen], pa.int64())})
    counted = pc.value_counts(as_text(column, name))
    return pa.table({"value": counted.field("values"), "count": counted.field("counts")})


def _ipc_bytes(values: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays([values], names=["values"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())
