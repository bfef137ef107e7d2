"""Rows as they are read, and their columns as checked numbers and moments: scores, labels, weights, rates, times."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.scores import ASK_FOR_SOFT, Floats
from monocal.tables.texts import Numbers, is_whole_number, null_words, parse_moments, parse_numbers

Moments = NDArray[np.int64]


class RawRows(NamedTuple):
    """Rows as they are in the log, and where they came from.

    Attributes:
        batch: The columns.
        file: The file, as errors call it.
        numbers: The line (or row) of each row in that file.
        unit: "line" for text files, counted from 1 with the header; "row" for tables, counted from 0.
        of_numbers: Of a text file's categories, the columns that hold numbers or booleans, as its first rows tell.
    """

    batch: pa.RecordBatch
    file: str
    numbers: NDArray[np.int64]
    unit: str = "line"
    of_numbers: frozenset[str] = frozenset()

    def column(self, name: str) -> pa.Array:
        return self.batch.column(name)

    def where(self, position: int) -> str:
        """Returns the place of one of these rows in words."""
        return f"{self.unit} {int(self.numbers[position])} of {self.file}"

    def keep(self, good: NDArray[np.bool_]) -> RawRows:
        """Returns the rows that are good."""
        if good.all():
            return self
        return self._replace(batch=self.batch.filter(pa.array(good)), numbers=self.numbers[good])

    def slice(self, start: int, n_rows: int) -> RawRows:
        """Returns at most `n_rows` rows from `start` on."""
        return self._replace(batch=self.batch.slice(start, n_rows), numbers=self.numbers[start : start + n_rows])


def with_places(batches: Iterable[pa.RecordBatch], file: str) -> Iterator[RawRows]:
    """Yields batches that hold rows, in types as they are read here, with the row of the file each row is."""
    first_row = 0
    for batch in map(plain_batch, batches):
        if batch.num_rows:
            yield RawRows(batch, file, np.arange(first_row, first_row + batch.num_rows), "row")
        first_row += batch.num_rows


def check_names(names: Sequence[str], source: str) -> None:
    """Refuses a table that has a column twice."""
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise InvalidInput.of(source, f"column {twice!r} twice", "different names", "rename or drop one of the two")


def one_chunk(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Returns a column in one piece."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def codes_of(column: pa.DictionaryArray) -> NDArray[np.int64]:
    """Returns which value of its dictionary each row has; a null has the place behind the last one.

    Example:
        >>> codes_of(pa.array(["b", None, "b", "a"]).dictionary_encode()).tolist()
        [0, 2, 0, 1]
    """
    codes: NDArray[np.int64] = pc.fill_null(column.indices.cast(pa.int64()), len(column.dictionary)).to_numpy()
    return codes


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type of a column's values as they are read here: text and bytes never as views.

    Example:
        >>> plain_type(pa.dictionary(pa.uint32(), pa.string_view(), ordered=True))
        DictionaryType(dictionary<values=string, indices=uint32, ordered=1>)
    """
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, plain_type(kind.value_type), ordered=kind.ordered)
    return {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(kind, kind)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Returns a schema with `plain_type` of every column."""
    return pa.schema([column.with_type(plain_type(column.type)) for column in schema], schema.metadata)


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch with `plain_type` of every column."""
    schema = plain_schema(batch.schema)
    if schema == batch.schema:
        return batch
    return pa.RecordBatch.from_arrays([plain_array(column) for column in batch.columns], schema=schema)


def plain_array(column: pa.Array) -> pa.Array:
    """Returns a column as values of `plain_type`."""
    kind = plain_type(column.type)
    if kind == column.type:
        return column
    if not pa.types.is_dictionary(kind):
        return column.cast(kind)
    return pa.DictionaryArray.from_arrays(column.indices, plain_array(column.dictionary), ordered=kind.ordered)


_KINDS = {
    "null": pa.types.is_null,
    "text": lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
    "integer": pa.types.is_integer,
    "boolean": pa.types.is_boolean,
    "float": pa.types.is_floating,
    "decimal": pa.types.is_decimal,
    "date": pa.types.is_date,
    "naive": lambda kind: pa.types.is_timestamp(kind) and kind.tz is None,
    "zoned": pa.types.is_timestamp,
}


def kind_of(kind: pa.DataType) -> str:
    """Returns what a column holds whatever the width of its type, and whether or not it has a dictionary.

    Example:
        >>> [kind_of(kind) for kind in (pa.int8(), pa.dictionary(pa.int32(), pa.large_string()), pa.binary())]
        ['integer', 'text', 'binary']
    """
    kind = plain_type(kind)
    if pa.types.is_dictionary(kind):
        return kind_of(kind.value_type)
    return next((name for name, fits in _KINDS.items() if fits(kind)), str(kind))


def _of_rows(found: Numbers, column: pa.DictionaryArray) -> Numbers:
    """Returns the numbers of rows, if these are the numbers of their dictionary."""
    codes, with_null = codes_of(column), zip(found, (0.0, True, False), strict=True)
    return Numbers(*(np.append(values, of_null)[codes] for values, of_null in with_null))


def is_null(column: pa.Array) -> NDArray[np.bool_]:
    """Says which rows hold nothing."""
    nulls: NDArray[np.bool_] = pc.is_null(column).to_numpy(zero_copy_only=False)
    return nulls


def numbers_in(
    column: pa.Array | pa.ChunkedArray, argument: str = "column", hint: str = "convert the column first"
) -> Numbers:
    """Returns the numbers of a column of any type: the one conversion of scores, labels, weights, rates and fields.

    Integers beyond 2^53 are rounded. See `monocal.tables.texts` for text.

    Arguments:
        column: The values.
        argument: What errors call the column.
        hint: What to do with a column that holds no numbers, such as dates.

    Example:
        >>> numbers_in(pa.array([True, None])).values.tolist(), numbers_in(pa.array(["7", "x"])).bad.tolist()
        ([1.0, 0.0], [False, True])
    """
    column = one_chunk(column)
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _of_rows(numbers_in(column.dictionary, argument, hint), column)
    if kind_of(kind) == "text":
        return parse_numbers(column)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif kind_of(kind) not in ("integer", "float", "decimal", "null"):
        raise InvalidInput.of(argument, f"values of type {kind}", "numbers", hint)
    missing = is_null(column)
    values = pc.fill_null(column.cast(pa.float64(), safe=False), 0.0).to_numpy(zero_copy_only=False)
    return Numbers(values, missing, np.zeros(len(values), dtype=bool))


def numbers(rows: RawRows, column: str, role: str) -> Floats:
    """Returns a column without nulls as float64.

    Example:
        >>> (rows,) = with_places([pa.record_batch({"pctr": [0.1, 0.2], "rank": ["high", "low"]})], "the table")
        >>> numbers(rows, "pctr", "score").tolist()
        [0.1, 0.2]
        >>> numbers(rows, "rank", "score")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: score column 'rank': got 'high' at row 0 of the table; expected a number. ...
    """
    values, argument = rows.column(column), f"{role} column {column!r}"
    found = numbers_in(values, argument)
    n_missing = int(found.missing.sum())
    if n_missing:
        raise InvalidInput.of(
            argument,
            f"null at {rows.where(int(np.argmax(found.missing)))} ({n_missing} such rows)",
            "a number in every row",
            "drop or fill those rows first",
        )
    is_text = bool(found.bad.all())
    hint = "name a column of numbers, or convert this one first" if is_text else "fix or drop that row"
    return _checked(values, found, argument, "a number", hint, rows)


def numbers_or_nan(column: pa.Array | pa.ChunkedArray, name: str, rows: RawRows | None = None) -> Floats:
    """Returns a field of numbers as float64, NaN where it is null.

    Arguments:
        column: The values.
        name: The field.
        rows: Where they are from.

    Example:
        >>> numbers_or_nan(pa.array([9, None]), "price").tolist()
        [9.0, nan]
        >>> numbers_or_nan(pa.array(["cheap"]), "price")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: numeric field 'price': got 'cheap' at row 0; expected a number. Hint: ...
    """
    hint = "convert it to numbers, or name it under fields= of the fit, if it holds categories"
    values, argument = one_chunk(column), f"numeric field {name!r}"
    found = numbers_in(values, argument, hint)
    return np.where(found.missing, np.nan, _checked(values, found, argument, "a number", hint, rows))


def labels_or_missing(rows: RawRows, column: str, *, soft: bool = False) -> NDArray[Any]:
    """Returns 0/1 labels as int8, soft ones in [0, 1] as float64; −1 where null, as the task was not observed there.

    Example:
        >>> (rows,) = with_places([pa.record_batch({"click": ["1", None], "share": [0.25, None]})], "the table")
        >>> labels_or_missing(rows, "click").tolist(), labels_or_missing(rows, "share", soft=True).tolist()
        ([1, -1], [0.25, -1.0])
    """
    values, argument = rows.column(column), f"label column {column!r}"
    found = numbers_in(values, argument)
    fits = (found.values == 0.0) | (found.values == 1.0)
    expected, hint = "0 or 1 (or null where the task was not observed)", ASK_FOR_SOFT
    if soft:
        fits = (found.values >= 0.0) & (found.values <= 1.0)
        expected = "numbers in [0, 1] (or null where the task was not observed), as soft_labels=True says"
        hint = "divide counts by their number of trials, and name the trials as weight"
    labels = _checked(values, found._replace(bad=found.bad | ~fits), argument, expected, hint, rows)
    return np.where(found.missing, -1.0, labels).astype(np.float64 if soft else np.int8)


def _checked(values: pa.Array, found: Numbers, argument: str, expected: str, hint: str, rows: RawRows | None) -> Floats:
    """Returns the numbers; refuses the first row that holds another thing."""
    bad = found.bad & ~found.missing
    if bad.any():
        row = int(np.argmax(bad))
        value = values[row].as_py()
        shown = repr(value) if isinstance(value, str) else f"{float(value):g}"
        place = f"row {row}" if rows is None else rows.where(row)
        raise InvalidInput.of(argument, f"{shown} at {place}", expected, hint)
    return found.values


Kind = Literal["number", "naive", "zoned"]

EXPECTED = "a whole number, a date or a timestamp"
_NO_FRACTIONS = "write fractions of seconds as timestamps, or multiply the column until its numbers are whole"


def moments(column: pa.Array, name: str = "time") -> tuple[Moments, NDArray[np.bool_]]:
    """Returns a time column as int64, and which rows hold no moment.

    Dates, timestamps and text become microseconds since 1970; a timestamp without a zone is taken as UTC. Whole numbers
    are kept as they are, also where they are stored as floats; a fraction is no moment, because rounding it would
    silently reorder rows. Text may hold either.

    Example:
        >>> values, bad = moments(pa.array([3.0, 4.5, None]))
        >>> values.tolist(), bad.tolist()
        ([3, 0, 0], [False, True, True])
        >>> moments(pa.array(["1970-01-01T00:00:01", "86400"]))[0].tolist()
        [1000000, 86400]
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        values, bad = moments(column.dictionary)
        codes = codes_of(column)
        return np.append(values, 0)[codes], np.append(bad, True)[codes]
    if pa.types.is_null(kind):
        return np.zeros(len(column), dtype=np.int64), np.ones(len(column), dtype=bool)
    if pa.types.is_integer(kind):
        return _whole_numbers(column), is_null(column)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _whole_numbers(column.cast(pa.timestamp("us"), safe=False)), is_null(column)
    if pa.types.is_floating(kind):
        numbers = pc.fill_null(column.cast(pa.float64()), np.nan).to_numpy(zero_copy_only=False)
        whole = is_whole_number(numbers)
        return np.where(whole, numbers, 0.0).astype(np.int64), ~whole
    if kind_of(kind) != "text":
        raise InvalidInput.of(f"time column {name!r}", f"values of type {kind}", EXPECTED, "convert the column first")
    return parse_moments(column)


def _whole_numbers(column: pa.Array) -> Moments:
    found: Moments = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return found


def kinds_of_moments(column: pa.Array) -> set[Kind]:
    """Says which kinds of moments a column holds: numbers, times without a zone (dates, too), times with one.

    Example:
        >>> sorted(kinds_of_moments(pa.array(["2024-05-01T10:00", "2024-05-01T10:00+02:00", "7"])))
        ['naive', 'number', 'zoned']
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return kinds_of_moments(column.dictionary)
    if pa.types.is_timestamp(kind):
        return {"naive" if kind.tz is None else "zoned"}
    if pa.types.is_date(kind):
        return {"naive"}
    if kind_of(kind) != "text":
        return {"number"}
    text = pc.unique(column.cast(pa.string())).drop_null()
    found: set[Kind] = set()
    date = pc.match_substring_regex(text, r"^\s*\d{4}-\d\d-\d\d")
    number = pc.match_substring_regex(text, r"^\s*[-+]?\d+(\.\d*)?\s*$")
    zoned = pc.match_substring_regex(text, r":\d\d(\.\d*)?\s*(Z|[-+]\d\d(:?\d\d)?)$|:\d\d[-+]\d\d(:?\d\d)?$")
    for name, mask in (("number", number), ("zoned", zoned), ("naive", pc.and_not(date, zoned))):
        if pc.any(mask).as_py():
            found.add(name)  # type: ignore[arg-type]
    return found


def check_one_kind(found: set[Kind], column: str) -> None:
    """Refuses times that cannot be compared: with and without a zone, or moments and bare numbers."""
    if len(found) > 1:
        names = {"number": "bare numbers", "naive": "times without a zone", "zoned": "times with a zone"}
        raise InvalidInput.of(
            f"time column {column!r}",
            " mixed with ".join(names[kind] for kind in sorted(found)),
            "one kind of time in all rows and files",
            "write all of them in UTC with a zone, or all without one",
        )


def moments_of(rows: RawRows, column: str, *, may_be_missing: bool = False) -> Moments:
    """Returns a time column as int64 by the rule of `moments`; refuses the first row without a moment.

    Arguments:
        rows: The rows.
        column: The column.
        may_be_missing: Whether a null, or a text for nothing, is −1 instead.

    Example:
        >>> (rows,) = with_places([pa.record_batch({"came": [3, None], "day": [1.0, 1.5]})], "the table")
        >>> moments_of(rows, "came", may_be_missing=True).tolist()
        [3, -1]
        >>> moments_of(rows, "day")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: time column 'day': got 1.5 at row 1 of the table; expected a whole ...
    """
    values = rows.column(column)
    found, bad = moments(values, column)
    if may_be_missing and bad.any():
        plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
        missing = bad & (null_words(plain) if kind_of(plain.type) == "text" else is_null(plain))
        found, bad = np.where(missing, -1, found), bad & ~missing
    if bad.any():
        row = int(np.argmax(bad))
        got = f"{values[row].as_py()} at {rows.where(row)}"
        raise InvalidInput.of(f"time column {column!r}", got, EXPECTED, _NO_FRACTIONS)
    return found


class TimeWindow(NamedTuple):
    """Moments `first ≤ moment < end` of a time column."""

    column: str
    first: float
    end: float

    @classmethod
    def of(cls, schema: pa.Schema, time: str | None, since: str | None, until: str | None) -> TimeWindow | None:
        """Returns the window that two texts say, or None where neither is given."""
        if since is None and until is None:
            return None
        if time is None:
            raise InvalidInput.of(
                "time", None, "the column that since= and until= refer to", 'name the time column, time="timestamp"'
            )
        kind = schema.field(time).type
        first = -math.inf if since is None else moment_of(since, kind, "since")
        return cls(time, first, math.inf if until is None else moment_of(until, kind, "until"))

    def rows_of(self, rows: RawRows) -> RawRows:
        """Returns the rows that lie in the window."""
        at = moments_of(rows, self.column)
        return rows.keep((at >= self.first) & (at < self.end))


def moment_of(text: str, kind: pa.DataType, argument: str = "moment") -> int:
    """Returns a moment as the integer that a time column of this type is read as.

    Timestamps, dates and text are microseconds since 1970 (UTC); a column of numbers is compared with a number. Which
    of the two it is follows from the column, never from the value.

    Arguments:
        text: A date, a date and time, or a number.
        kind: The type of the time column.
        argument: What the moment is called in errors.

    Example:
        >>> moment_of("1970-01-02", pa.timestamp("s")), moment_of("86400", pa.int64())
        (86400000000, 86400)
        >>> moment_of("1970-01-02", pa.int64(), "since")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: since: got '1970-01-02'; expected a number, as in the time column (int64). ...
    """
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        try:
            return int(float(text))
        except ValueError:
            raise InvalidInput.of(
                argument, repr(text), f"a number, as in the time column ({kind})", "write it in the column's unit"
            ) from None
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput.of(argument, repr(text), "a date or time", "write 2024-05-01 or 2024-05-01T12:00") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return (moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
