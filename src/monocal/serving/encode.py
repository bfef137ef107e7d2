"""The fields of one request as a matrix of ids, the same that `Vocabulary.encode` gives to a table."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monocal.compiled.jit import TEXT_ROOM, numba_is_installed
from monocal.core.errors import InvalidInput, check_known, shown
from monocal.core.fields import Ids
from monocal.tables.texts import LARGEST_WHOLE
from monocal.tables.value_index import hash_text
from monocal.tables.vocabulary import NumericField, Vocabulary

Value = str | int | float | bool | None
"""A raw field value; the vocabulary compares categories as text, so 7 and "7" are the same one."""

_END, _PADDING = "\0", "\0" * TEXT_ROOM
"""What ends a text, and what follows the last one."""

_LISTS = {list}
_MOST_LAYOUTS = 64
"""Different ways to give the fields that are remembered; callers have one or two, and none can make it grow."""

_SMALLEST_INTEGER, _LARGEST_INTEGER = -(2**63), 2**64 - 1
_NO_LENGTHS = np.zeros(0, np.int64)


class _Layout(NamedTuple):
    """Which fields a request has, and how: known by the names it gives, so that these are checked once."""

    columns: NDArray[np.int64]
    n_varying: int
    has_only_categories: bool


@final
class FieldEncoder:
    """Turns a request's raw values into the ids that `Vocabulary.encode` would give them.

    Arguments:
        vocabulary: Values and ids of the model's fields.
        refuses_missing: Whether a request without one of the fields is refused; else its values count as unseen.
    """

    def __init__(self, vocabulary: Vocabulary, *, refuses_missing: bool) -> None:
        self._fields = {field.name: field for field in vocabulary.fields}
        self._places = {name: place for place, name in enumerate(self._fields)}
        self._sizes = np.array(vocabulary.sizes, dtype=np.int64)
        self._refuses_missing = refuses_missing
        # without numba, Arrow finds the same ids; without categories, numba need not be loaded
        self._table = TextTable(vocabulary) if vocabulary.category_names and numba_is_installed() else None
        self._layouts: dict[Any, _Layout] = {}

    def encode(
        self, fields: Mapping[str, Sequence[Value]], shared: Mapping[str, Value], given_ids: Any, n_rows: int
    ) -> Ids:
        """Returns the ids `(n_rows, fields)`.

        Arguments:
            fields: Values of fields, one per row.
            shared: Values of the other fields, one for all rows.
            given_ids: Ids instead of values; None if values are given.
            n_rows: How many rows there are.
        """
        if given_ids is not None:
            if fields or shared:
                raise InvalidInput.of("ids", "ids and field values", "one of the two", "leave out fields and shared")
            return self._checked_ids(given_ids, n_rows)
        names = (*fields, None, *shared)
        layout = self._layouts.get(names) or self._new_layout(names, fields, shared)
        ids = np.zeros((n_rows, self._sizes.shape[0]), dtype=np.int32)
        columns: Any = fields.values()
        values: Any = shared.values()
        if (
            layout.has_only_categories
            and _LISTS.issuperset(map(type, columns))
            and (n_rows == 1 or {n_rows}.issuperset(map(len, columns)))
        ):
            try:
                given = [text for (text,) in columns] if n_rows == 1 else [*map(_END.join, columns)]
                texts = _END.join([*given, *values, _PADDING])
            except (TypeError, ValueError):  # not all of them are text, or one list has not one
                pass
            else:
                if self._table is not None and self._table.find(texts, layout.columns, layout.n_varying, ids):
                    return ids
        all_columns = {name: as_list(column, f"field {name!r}") for name, column in fields.items()}
        for name, column in all_columns.items():
            check_n_rows(f"field {name!r}", len(column), n_rows)
        all_columns |= {name: [value] for name, value in shared.items()}
        return self._encode_mixed(all_columns, layout, ids)

    def _encode_mixed(self, columns: dict[str, list[Any]], layout: _Layout, ids: Ids) -> Ids:
        """Looks up values of all kinds: texts, integers, nulls, numbers of numeric fields."""
        texts: dict[str, list[str | None]] = {}
        for name, column in columns.items():
            field = self._fields[name]
            if isinstance(field, NumericField):
                numbers = np.array([_number_of(value, name) for value in column], dtype=np.float64)
                ids[:, self._places[name]] = field.ids_of(numbers)
            else:
                texts[name] = [value if isinstance(value, str) else _text_of(value, name) for value in column]
        if self._table is not None:
            given = [text or "" for column in texts.values() for text in column]
            joined = _END.join([*given, _PADDING])
            if not self._table.find(joined, layout.columns, layout.n_varying, ids):
                self._table.find_each(given, layout.columns, layout.n_varying, ids)
        for name, column in texts.items():
            place, field = self._places[name], self._fields[name]
            assert not isinstance(field, NumericField)
            if self._table is None:
                # half a character is no text that a table could hold, so it is unseen
                whole = [text and text.encode("utf-8", "backslashreplace").decode() for text in column]
                ids[:, place] = field.encode(pa.array(whole, pa.string()))
            elif None in column:
                is_null = np.array([text is None for text in column])
                ids[:, place] = np.where(is_null, field.null_id, ids[:, place])
        return ids

    def _new_layout(self, names: tuple[Any, ...], fields: Mapping[str, Any], shared: Mapping[str, Any]) -> _Layout:
        """Checks which fields are given; a request with the same names need not be checked again."""
        for name in (*fields, *shared):
            check_known("field", name, self._fields)
        twice = next((name for name in fields if name in shared), None)
        if twice is not None:
            got = "values under both fields and shared"
            raise InvalidInput.of(f"field {twice!r}", got, "one of the two", "drop one")
        missing = next((name for name in self._fields if name not in fields and name not in shared), None)
        if missing is not None and self._refuses_missing:
            hint = 'send it under fields or shared, or start the service with missing fields taken as "unseen"'
            raise InvalidInput.of(f"field {missing!r}", "no values", "every field the model was fitted on", hint)
        varying, single = (
            [self._places[name] for name in part if not isinstance(self._fields[name], NumericField)]
            for part in (fields, shared)
        )
        columns = np.array([*varying, *single], np.int64)
        layout = _Layout(columns, len(varying), len(columns) == len(fields) + len(shared))
        if len(self._layouts) >= _MOST_LAYOUTS:
            self._layouts.clear()
        self._layouts[names] = layout
        return layout

    def _checked_ids(self, given: Any, n_rows: int) -> Ids:
        shape = (n_rows, self._sizes.shape[0])
        hint = "send one id per candidate and field, in the model's field order"
        try:
            ids = np.asarray(given)
        except ValueError:
            raise InvalidInput.of("ids", "rows of different lengths", f"integers of shape {shape}", hint) from None
        if ids.shape != shape or (ids.size and ids.dtype.kind not in "iu"):
            got = f"an array of shape {ids.shape} and type {ids.dtype}"
            raise InvalidInput.of("ids", got, f"integers of shape {shape}", hint)
        if self._table is not None and ids.dtype == np.int32 and ids.flags.carray and self._table.has_all(ids):
            return ids
        if ids.size and int(ids.min()) < 0:
            raise InvalidInput.of("ids", int(ids.min()), "ids ≥ 0", "use 0 for unseen")
        if ids.size and (ids >= self._sizes).any():
            ids = np.where(ids < self._sizes, ids, 0)
        # compiled loops would be compiled anew for ids that are read-only or in another order
        return np.require(ids, np.int32, ["C", "W"])


@final
class TextTable:
    """Finds the ids of texts by the hashes that `FieldVocabulary.encode` compares, so both give the same ids.

    The values of all fields lie in one table that a compiled look-up searches. Asking never adds an entry, so strange
    traffic does not grow it. It takes 32 to 64 bytes per value. No two tables place values alike, so that nobody
    knows which ones would collide.

    Arguments:
        vocabulary: Values and ids of the model's fields.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        from monocal.compiled import text_ids as loops

        self._loops = loops
        self._sizes = np.minimum(np.array(vocabulary.sizes, np.int64), np.iinfo(np.int32).max).astype(np.int32)
        self._facts = np.zeros((len(vocabulary.fields), loops.N_FACTS), np.int64)
        self._salt = np.uint64(secrets.randbits(64))
        salt = int(self._salt)
        tables = []
        n_slots = 0
        for place, field in enumerate(vocabulary.fields):
            if isinstance(field, NumericField):
                continue
            values, spellings = field.values, field.spellings
            size = 1 << max(2 * (len(values) + len(spellings)) - 1, 1).bit_length()
            entries = np.zeros((size, 2), np.uint64)
            ids = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False)) + 1
            loops.place_values(*hash_text(values.drop_null(), salt), ids, entries)
            if spellings:
                ids = np.array(list(spellings.values()))
                loops.place_values(*hash_text(pa.array(list(spellings)), salt), ids, entries)
            self._facts[place, [loops.FIRST_SLOT, loops.MASK, loops.N_BUCKETS]] = (
                n_slots,
                size - 1,
                field.n_buckets or 0,
            )
            tables.append(entries)
            n_slots += size
        self._entries = np.concatenate(tables) if tables else np.zeros((0, 2), np.uint64)

    def has_all(self, ids: Ids) -> bool:
        """Says whether every id lies in its field's range."""
        return bool(self._loops.all_known(ids, self._sizes))

    def find(self, joined: str, columns: NDArray[np.int64], n_varying: int, ids: Ids) -> bool:
        """Writes the ids of texts into `ids`; says no if it cannot: a zero byte in a text, or half a character.

        Arguments:
            joined: The texts, each ended by a zero byte, and `TEXT_ROOM` zero bytes more.
            columns: The fields in the order of their texts.
            n_varying: How many of them have a text per row; the others have one for all.
            ids: `(rows, fields)`.
        """
        try:
            data = joined.encode()
        except UnicodeEncodeError:
            return False
        return self._find(data, _NO_LENGTHS, columns, n_varying, ids)

    def find_each(self, texts: Iterable[str], columns: NDArray[np.int64], n_varying: int, ids: Ids) -> None:
        """Writes the ids of texts whatever they hold; `find` does so for plain ones a few times as fast."""
        # half a character is no text that a table could hold, so it is unseen
        parts = [text.encode("utf-8", "backslashreplace") for text in texts]
        data = b"\0".join([*parts, bytes(TEXT_ROOM)])
        self._find(data, np.array([*map(len, parts)], np.int64), columns, n_varying, ids)

    def _find(
        self, data: bytes, lengths: NDArray[np.int64], columns: NDArray[np.int64], n_varying: int, ids: Ids
    ) -> bool:
        texts = np.frombuffer(data, np.uint8)
        found = self._loops.find_ids(texts, lengths, columns, n_varying, self._facts, self._entries, self._salt, ids)
        return bool(found == self._loops.FOUND)


def _text_of(value: Any, name: str) -> str | None:
    """Returns the text by which a vocabulary knows a value that is no text; None for a null.

    Integers and booleans are compared as text, 9.0 is 9, and other fractions are refused, as in tables.
    """
    if value is None:
        return None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer) and _SMALLEST_INTEGER <= value <= _LARGEST_INTEGER:
        return str(value)
    number = float(value) if isinstance(value, float | np.floating) else 0.5
    if number.is_integer() and abs(number) <= LARGEST_WHOLE:
        return str(int(number))
    if np.isnan(number):
        return None
    got = "an integer beyond 64 bits" if isinstance(value, int) else shown(value)
    hint = "send the category as text; a quantity is a field that the model was fitted on with numeric"
    raise InvalidInput.of(f"field {name!r}", got, "text, an integer, true, false or null", hint)


def _number_of(value: Any, name: str) -> float:
    """Returns a value of a numeric field; NaN for a null, which is a value of its own."""
    if value is None:
        return float("nan")
    if isinstance(value, int | float | np.integer | np.floating | np.bool_):
        try:
            return float(value)
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
    got = shown(repr(value) if isinstance(value, str) else value)
    raise InvalidInput.of(f"field {name!r}", got, "a number or null", "send 9.5, not the text of it")


def as_list(column: Any, argument: str) -> list[Any]:
    """Returns the values of a list, a tuple or an array; a single value is refused."""
    if isinstance(column, np.ndarray) and column.ndim == 1:
        return list(column.tolist())
    if isinstance(column, Sequence) and not isinstance(column, str | bytes | bytearray):
        return list(column)
    got = f"a {type(column).__name__}"
    raise InvalidInput.of(argument, got, "a list with one value per candidate", "wrap it in a list")


def check_n_rows(argument: str, n: int, n_rows: int) -> None:
    """Refuses a column that has not one value per candidate."""
    if n != n_rows:
        hint = "send one per candidate; a value that all candidates share goes once under shared"
        raise InvalidInput.of(argument, f"{n} values", f"{n_rows}, one per candidate", hint)
