"""The one reader of delimited text: every value as it is written, in blocks, so that memory is that of a block.

A text file has no types. What a value means follows from the part that its column plays (`monocal.tables.columns`), and
of categories from what the first rows hold (`monocal.tables.categories`), never from where the file is read.

Arrow parses blocks whose lines are all whole. In any other block the lines are counted and their separators checked
before anything is parsed: a line with a column too many or too few can therefore never shift values into a neighbour's
column, and a forgotten quote costs its line and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, UnknownName
from monocal.tables.columns import RawRows, check_names
from monocal.tables.files import DataFile, not_readable, reading
from monocal.tables.texts import holds_numbers

OnError = Literal["raise", "skip"]
"""What happens to a malformed row: reading stops, or the row is left out and counted."""

_EXAMPLES_KEPT = 10

BLOCK_BYTES = 1 << 24
_LOOKED_AT_BYTES = 1 << 20
_LONGEST_HEADER = 1 << 20
_LONGEST_LINE = 1 << 28
_LONGEST_VALUE = 1 << 24
"""A value with line breaks that goes on for more counts as a quote that somebody forgot to close."""

_MOST_LINES = 100
"""So does a quoted value that goes on for more lines."""


@final
@dataclass(frozen=True)
class CsvFormat:
    """How a text file separates its values.

    Attributes:
        delimiter: One byte.
        quote: The quote character, or None if quotes are ordinary characters.
        names: The columns, for files without a header line; None reads them from the first line.
    """

    delimiter: str = ","
    quote: str | None = '"'
    names: tuple[str, ...] | None = None

    @classmethod
    def of_name(cls, name: str) -> CsvFormat:
        """Returns the format that the ending of a file's name says: tabs in `.tsv`, else commas."""
        return cls(delimiter="\t" if ".tsv" in name.lower() else ",")

    def options(self, *, ignore_empty_lines: bool = False) -> pa_csv.ParseOptions:
        """Returns the same for Arrow."""
        return pa_csv.ParseOptions(
            delimiter=self.delimiter,
            quote_char=self.quote or False,
            ignore_empty_lines=ignore_empty_lines,
            newlines_in_values=self.quote is not None,
        )


@final
class RowProblems:
    """Collects malformed rows and decides what happens to them.

    Arguments:
        on_error: "raise" refuses the first malformed row; "skip" leaves such rows out and counts them.
        on_bytes: Receives how many bytes of the files were read since it was last called; for a bar.
        hint: How rows could be left out, where `on_error` is no argument of the caller.

    Example:
        >>> problems = RowProblems("skip")
        >>> problems.report("train.csv", "line", 7, "23 columns", "24 columns")
        >>> problems.n_rows, problems.examples[0]
        (1, 'train.csv, line 7: got 23 columns; expected 24 columns')
        >>> RowProblems("raise").report("train.csv", "line", 7, "23 columns", "24 columns")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: train.csv, line 7: got 23 columns; expected 24 columns. Hint: ...
    """

    def __init__(
        self,
        on_error: OnError = "raise",
        on_bytes: Callable[[int], None] | None = None,
        hint: str = 'pass on_error="skip" to leave it out',
    ) -> None:
        if on_error not in get_args(OnError):
            raise InvalidInput.of("on_error", repr(on_error), '"raise" or "skip"', "say what to do with malformed rows")
        self.on_error = on_error
        self.on_bytes = on_bytes or (lambda _n_bytes: None)
        self._hint = hint
        self.n_rows = 0
        self.examples: list[str] = []

    def report(self, file: str, unit: str, number: int, got: str, expected: str) -> None:
        """Reports one malformed row."""
        if self.on_error == "raise":
            raise InvalidInput.of(f"{file}, {unit} {number}", got, expected, f"fix the {unit}, or {self._hint}")
        self.n_rows += 1
        if len(self.examples) < _EXAMPLES_KEPT:
            self.examples.append(f"{file}, {unit} {number}: got {got}; expected {expected}")


AnyFile = Path | DataFile


def csv_header(path: AnyFile, form: CsvFormat) -> list[str]:
    """Returns the column names of a file with a header line."""
    file = _text_file(path)
    block, _ = next(blocks_of_lines(file, 1 << 16, _LONGEST_HEADER))
    if not block:
        raise InvalidInput.of("table", f"{file.name}, which is empty", "a header line and rows", "check the file")
    first = block.split(b"\n", 1)[0].removeprefix(b"\xef\xbb\xbf").rstrip(b"\r")
    if not _is_utf8(first):
        raise not_readable(file.name, "text rows", f"the bytes {_excerpt(first)}")
    with reading(file.name, "text rows"):
        names = list(pa_csv.read_csv(pa.BufferReader(first + b"\n"), parse_options=form.options()).column_names)
    check_names(names, f"{file.name}, line 1")
    return names


def csv_schema(path: AnyFile, form: CsvFormat) -> pa.Schema:
    """Returns the columns with the types that the first rows suggest; malformed lines are passed over."""
    file = _text_file(path)
    names = _names(file, form)
    types = pa.schema([(name, pa.null()) for name in names])
    block, _ = next(blocks_of_lines(file, _LOOKED_AT_BYTES))
    body, first_line = _without_header(block, form)
    if not _is_utf8(body) or not _quotes_are_plain(body, form):
        body = _whole_records(body, first_line, len(names), form, RowProblems("skip"), file.name).body
    if body.strip():
        # one thread, because what others take of the memory stays with them
        reading = pa_csv.ReadOptions(column_names=names, use_threads=False, block_size=len(body) + 1)
        dialect = form.options(ignore_empty_lines=True)
        dialect.invalid_row_handler = lambda _row: "skip"
        types = pa_csv.read_csv(pa.BufferReader(body), reading, dialect).schema
    return file.schema_with_parts(types)


def csv_rows(
    path: AnyFile,
    form: CsvFormat,
    problems: RowProblems,
    columns: Sequence[str] | None = None,
    plain_columns: Sequence[str] = (),
    categories: Sequence[str] = (),
) -> Iterator[RawRows]:
    """Yields the rows of a text file (plain, gzip or zstd) with every value as text.

    A line with the wrong number of columns, an open quote or broken UTF-8 is reported with its number and left
    out; blank lines hold no row and are passed over. See `_whole_records` for values with line breaks.

    Arguments:
        path: The file.
        form: How it separates values.
        problems: Receives malformed lines.
        columns: Which columns; None means all.
        plain_columns: Columns whose values hardly repeat; the others come dictionary-encoded.
        categories: Columns of which the rows say whether they hold numbers; see `RawRows.of_numbers`.
    """
    file = _text_file(path)
    names = _names(file, form)
    wanted = [*names, *file.parts] if columns is None else list(columns)
    for name in wanted:
        if name not in names and name not in file.parts:
            raise UnknownName.among(f"column of {file.name}", name, [*names, *file.parts])
    inside = [name for name in wanted if name not in file.parts]
    parser = _Parser(file, names, form, inside, plain_columns)
    next_line, rest, of_numbers = 0, b"", None
    for block, is_last in blocks_of_lines(file, BLOCK_BYTES, on_bytes=problems.on_bytes):
        body, first_line = rest + block, next_line
        if not next_line:
            body, first_line = _without_header(block, form)
        ends_here = is_last or len(rest) > _LONGEST_VALUE
        batch, lines, n_used = parser.rows(body, first_line, problems, is_last=ends_here)
        next_line = first_line + body.count(b"\n", 0, n_used)
        rest = body[n_used:]
        if batch is None or not lines.size:
            continue
        if of_numbers is None:
            of_numbers = frozenset(name for name in categories if name in inside and holds_numbers(batch.column(name)))
        yield RawRows(file.with_parts(batch, wanted), file.name, lines, "line", of_numbers)


def blocks_of_lines(
    file: DataFile, n_bytes: int, longest: int = _LONGEST_LINE, on_bytes: Callable[[int], None] | None = None
) -> Iterator[tuple[bytes, bool]]:
    """Yields blocks of whole lines, the last of them perhaps empty; says how far the file, packed or not, was read."""
    open_line: list[bytes] = []  # pieces, because joining them with every block would cost the square of their length
    n_reported, n_open, has_returns = 0, 0, None
    with reading(file.name, "text rows"), file.open() as opened, _unpacked(opened, file.path) as stream:
        while chunk := stream.read(n_bytes):
            if has_returns is None:
                chunk += stream.read(1) if chunk.endswith(b"\r") else b""
                has_returns = _ends_in_returns(chunk)
            if has_returns:
                chunk = chunk.replace(b"\r", b"\n")
            position = opened.tell()
            if on_bytes is not None:
                on_bytes(position - n_reported)
            n_reported = position
            cut = chunk.rfind(b"\n") + 1
            if cut:
                yield b"".join([*open_line, chunk[:cut]]), False
                open_line, n_open = [], 0
            open_line.append(chunk[cut:])
            n_open += len(chunk) - cut
            if n_open > longest:
                got = f"{file.name}, with a line of more than {longest >> 20} MiB"
                raise InvalidInput.of("table", got, "lines", "check the file")
    yield b"".join([*open_line, b"\n"]) if n_open else b"", True


def _ends_in_returns(text: bytes) -> bool | None:
    r"""Whether lines end with carriage returns alone, as the first end of a line tells; None if there is none yet.

    Example:
        >>> [_ends_in_returns(text) for text in (b"a,b\r1,2\r", b"a,b\r\n1,2", b"a,b\n", b"a,")]
        [True, False, False, None]
    """
    first = re.search(rb"\r\n?|\n", text)
    return None if first is None else first[0] == b"\r"


def _unpacked(file: pa.NativeFile, path: str) -> AbstractContextManager[Any]:
    for ending, codec in ((".gz", "gzip"), (".zst", "zstd"), (".bz2", "bz2")):
        if path.lower().endswith(ending):
            packed: AbstractContextManager[Any] = pa.CompressedInputStream(file, codec)
            return packed
    return nullcontext(file)


class _Parser:
    """Blocks of one file into batches of text columns, with the number of every row's line."""

    def __init__(
        self, file: DataFile, names: list[str], form: CsvFormat, columns: list[str], plain: Sequence[str]
    ) -> None:
        self._file, self._names, self._form = file, names, form
        coded = pa.dictionary(pa.int32(), pa.string())
        columns = columns or names[:1]  # without any column the rows could not be counted
        self._convert = pa_csv.ConvertOptions(
            include_columns=columns,
            column_types={name: pa.string() if name in plain else coded for name in columns},
            strings_can_be_null=False,
            null_values=[],
        )

    def rows(
        self, body: bytes, first_line: int, problems: RowProblems, *, is_last: bool
    ) -> tuple[pa.RecordBatch | None, NDArray[np.int64], int]:
        """Returns the rows of whole lines, the number of each, and how many bytes are done with."""
        batch = self._of_whole_lines(body)
        if batch is not None:
            return batch, np.arange(first_line, first_line + batch.num_rows), len(body)
        form, name, n_columns = self._form, self._file.name, len(self._names)
        found = _whole_records(body, first_line, n_columns, form, problems, name, is_last=is_last)
        lines = np.array(found.lines, dtype=np.int64)
        if not lines.size:
            return None, lines, found.n_used
        with reading(name, "text rows"):
            batch, refused = self._batch(found.body, form.options())
        for row in refused:
            problems.report(name, "line", int(lines[row]), "misplaced quotes", f"{n_columns} columns")
        lines = np.delete(lines, refused)
        if batch.num_rows != len(lines):
            message = f"{len(lines)} lines were read as {batch.num_rows} rows from line {found.lines[0]}"
            raise not_readable(name, "text rows", message)
        return batch, lines, found.n_used

    def _of_whole_lines(self, body: bytes) -> pa.RecordBatch | None:
        """Parses lines that are all whole, which one pass of Arrow shows; None if one needs a closer look."""
        if not body or len(self._names) == 1 or not _is_utf8(body) or not _quotes_are_plain(body, self._form):
            return None
        try:
            # blank lines are no rows and make the count differ
            batch, refused = self._batch(body, self._form.options(ignore_empty_lines=True))
        except pa.ArrowInvalid:
            return None
        return None if refused or batch.num_rows != body.count(b"\n") else batch

    def _batch(self, body: bytes, dialect: pa_csv.ParseOptions) -> tuple[pa.RecordBatch, list[int]]:
        """Returns rows, and the places of those that Arrow refuses."""
        refused: list[int] = []

        def refuse(row: pa_csv.InvalidRow) -> str:
            refused.append(row.number - 1)
            return "skip"

        dialect.invalid_row_handler = refuse
        # one thread, because only then does the parser number the rows it refuses
        reading = pa_csv.ReadOptions(column_names=self._names, use_threads=False, block_size=len(body) + 1)
        table = pa_csv.read_csv(pa.BufferReader(body), reading, dialect, self._convert)
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema), refused


class _Records(NamedTuple):
    """The rows of a block of text.

    Attributes:
        body: Their bytes.
        lines: The first line of each.
        n_used: How many bytes of the block are done with; the rest begins a value that goes on in the next block.
    """

    body: bytes
    lines: list[int]
    n_used: int


def _whole_records(
    body: bytes,
    first_line: int,
    n_columns: int,
    form: CsvFormat,
    problems: RowProblems,
    file: str,
    *,
    is_last: bool = True,
) -> _Records:
    r"""Returns the rows that have the right form; the others are reported. Blank lines hold no row.

    A quoted value may hold line breaks if the lines together are one row with all columns, its quotes where they
    belong, and no more than `_MOST_LINES` lines. Otherwise the first of them is malformed, and the others stand for
    themselves.

    Arguments:
        body: Whole lines.
        first_line: The number of the first one.
        n_columns: How many columns there are.
        form: How values are separated.
        problems: Receives malformed lines.
        file: What errors call the file.
        is_last: Whether nothing follows; otherwise a value that is open at the end may go on.

    Example:
        >>> found = _whole_records(b'1,"a\nb"\n\n2,"c\n3,d\n', 2, 2, CsvFormat(), RowProblems("skip"), "log.csv")
        >>> found.body, found.lines
        (b'1,"a\nb"\n3,d\n', [2, 6])
    """
    lines = body.split(b"\n")[:-1]
    quote, delimiter = (form.quote or "").encode(), form.delimiter.encode()
    one_row = _one_row(quote, delimiter, n_columns) if quote and quote in body else None
    in_quotes = re.compile(b"%b[^%b]*+%b" % (quote, quote, quote)) if quote else None
    is_text, place = _is_utf8(body), 0
    whole: list[bytes] = []
    numbers: list[int] = []
    while place < len(lines):
        line, number, n_lines = lines[place], first_line + place, 1
        is_open = one_row is not None and line.count(quote) % 2 == 1
        if is_open:
            closed = next((at for at in range(place + 1, len(lines)) if lines[at].count(quote) % 2), None)
            if closed is None and not is_last and len(lines) - place < _MOST_LINES:
                break
            if one_row is not None and closed is not None and closed - place < _MOST_LINES:
                together = b"\n".join(lines[place : closed + 1])
                if one_row.fullmatch(together):
                    line, n_lines, is_open = together, closed + 1 - place, False
        place += n_lines
        if line in (b"", b"\r"):
            continue
        n_found = line.count(delimiter) + 1
        if in_quotes is not None and not is_open:
            n_found -= sum(value[0].count(delimiter) for value in in_quotes.finditer(line))
        if not is_text and not _is_utf8(line):
            problems.report(file, "line", number, f"the bytes {_excerpt(line)}", "UTF-8 text")
        elif is_open:
            problems.report(file, "line", number, "a quote that is not closed", "quotes in pairs")
        elif n_found != n_columns:
            problems.report(file, "line", number, f"{n_found} columns", f"{n_columns} columns")
        else:
            whole.append(line)
            numbers.append(number)
    n_used = len(body) if place == len(lines) else sum(map(len, lines[:place])) + place
    return _Records(b"".join(line + b"\n" for line in whole), numbers, n_used)


def _one_row(quote: bytes, delimiter: bytes, n_columns: int) -> re.Pattern[bytes]:
    """Returns what a row with quoted values looks like, line breaks inside them allowed."""
    quote, delimiter = re.escape(quote), re.escape(delimiter)
    # possessive, because the way back would be remembered for every byte of a long value
    inside = b"[^%b]*+(?:%b%b[^%b]*+)*+" % (quote, quote, quote, quote)
    value = b"(?:%b%b%b|[^%b%b\r\n]*+)" % (quote, inside, quote, quote, delimiter)
    return re.compile(b"%b(?:%b%b){%d}\r?" % (value, delimiter, value, n_columns - 1))


def _quotes_are_plain(body: bytes, form: CsvFormat) -> bool:
    r"""Whether all quotes stand in pairs around whole values, none of them inside a value.

    Example:
        >>> [_quotes_are_plain(text, CsvFormat()) for text in (b'1,"a,b"\n', b'1,"a "" b"\n', b'1,5" pipe\n')]
        [True, False, False]
    """
    if form.quote is None or form.quote.encode() not in body:
        return True
    text = np.frombuffer(body, dtype=np.uint8)
    quotes = np.flatnonzero(text == ord(form.quote))
    # what ends the last line also stands before the first one
    before, after = text[quotes[::2] - 1], text[quotes[1::2] + 1]
    opens = (before == ord(form.delimiter)) | (before == 10)
    closes = (after == ord(form.delimiter)) | (after == 10) | (after == 13)
    return len(quotes) % 2 == 0 and bool(opens.all() and closes.all())


def _is_utf8(text: bytes) -> bool:
    return _broken_byte(text) is None


def _broken_byte(text: bytes) -> int | None:
    if text.isascii():
        return None
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return None


def _excerpt(line: bytes) -> str:
    at = _broken_byte(line) or 0
    bytes_there = (line + b"\n")[at : at + 4]
    return f"{bytes_there!r} at byte {at + 1}"


def _text_file(path: AnyFile) -> DataFile:
    return path if isinstance(path, DataFile) else DataFile(str(path))


def _names(file: DataFile, form: CsvFormat) -> list[str]:
    return list(form.names) if form.names is not None else csv_header(file, form)


def _without_header(block: bytes, form: CsvFormat) -> tuple[bytes, int]:
    """The lines of a file's first block that hold rows, and the number of the first of them."""
    return (block, 1) if form.names is not None else (block.partition(b"\n")[2], 2)
