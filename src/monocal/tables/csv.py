"""The one reader of delimited text: every value as it is written, in blocks, so that memory is that of a block.

A text file has no types. What a value means follows from the part that its column plays (`monocal.tables.columns`), and
of categories from what the first rows hold (`monocal.tables.categories`), never from where the file is read.

Lines are counted and their separators checked before anything is parsed: a line with a column too many or too
few can therefore never shift values into a neighbour's column.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, UnknownName
from monocal.tables.categories import holds_numbers
from monocal.tables.columns import null_words
from monocal.tables.problems import RawRows, RowProblems

Bytes = NDArray[np.uint8]

MOST_LINES = 100
"""A quoted value that goes on for more lines counts as a quote that somebody forgot to close."""


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


class Records(NamedTuple):
    """The rows of a block of text.

    Attributes:
        body: Their bytes.
        lines: The first line of each.
        n_used: How many bytes of the block are done with; the rest begins a value that goes on in the next block.
    """

    body: Bytes
    lines: NDArray[np.int64]
    n_used: int


def quotes_are_plain(body: Bytes, form: CsvFormat) -> bool:
    r"""Whether all quotes stand in pairs around whole values, none of them inside a value.

    Example:
        >>> texts = (b'1,"a,b"\n', b'1,"a "" b"\n', b'1,5" pipe\n')
        >>> [quotes_are_plain(np.frombuffer(text, np.uint8), CsvFormat()) for text in texts]
        [True, False, False]
    """
    if form.quote is None:
        return True
    quotes = np.flatnonzero(body == ord(form.quote))
    # what ends the last line also stands before the first one
    before, after = body[quotes[::2] - 1], body[quotes[1::2] + 1]
    opens = (before == ord(form.delimiter)) | (before == 10)
    closes = (after == ord(form.delimiter)) | (after == 10) | (after == 13)
    return len(quotes) % 2 == 0 and bool(opens.all() and closes.all())


def whole_records(
    body: Bytes,
    first_line: int,
    n_columns: int,
    form: CsvFormat,
    problems: RowProblems,
    file: str,
    *,
    is_last: bool = True,
) -> Records:
    r"""Returns the rows that have the right form; the others are reported. Blank lines hold no row.

    A quoted value may hold line breaks if the lines together are one row with all columns, its quotes where they
    belong, and no more than `MOST_LINES` lines. Otherwise the first of them is malformed, and the others stand for
    themselves: a forgotten quote costs its line and nothing else.

    Arguments:
        body: Whole lines.
        first_line: The number of the first one.
        n_columns: How many columns there are.
        form: How values are separated.
        problems: Receives malformed lines.
        file: What errors call the file.
        is_last: Whether nothing follows; otherwise a value that is open at the end may go on.

    Example:
        >>> text = np.frombuffer(b'1,"a\nb"\n\n2,"c\n3,d\n', np.uint8)
        >>> found = whole_records(text, 2, 2, CsvFormat(), RowProblems("skip"), "log.csv")
        >>> found.body.tobytes(), found.lines.tolist()
        (b'1,"a\nb"\n3,d\n', [2, 6])
    """
    ends = np.flatnonzero(body == 10) + 1
    numbers = np.arange(first_line, first_line + len(ends))
    separators = np.flatnonzero(body == ord(form.delimiter))
    open_quote = np.zeros(len(ends), dtype=bool)
    n_used = len(body)
    quotes = np.zeros(0, np.int64) if form.quote is None else np.flatnonzero(body == ord(form.quote))
    if quotes.size:
        open_quote = np.diff(np.searchsorted(quotes, ends), prepend=0) % 2 == 1
        if open_quote.any():
            is_inside, n_lines = _joined_lines(body, ends, np.flatnonzero(open_quote), n_columns, form, is_last)
            ends, is_inside = ends[:n_lines], is_inside[:n_lines]
            n_used = int(ends[-1]) if n_lines else 0
            # a line break inside a value ends no row
            numbers = numbers[:n_lines][~np.append(False, is_inside[:-1])] if n_lines else numbers[:0]
            ends = ends[~is_inside]
            body, separators, quotes = body[:n_used], separators[separators < n_used], quotes[quotes < n_used]
            open_quote = np.diff(np.searchsorted(quotes, ends), prepend=0) % 2 == 1
        starts = np.append(0, ends[:-1])[: len(ends)]
        before_row = np.searchsorted(quotes, starts)
        row_of = np.searchsorted(ends, separators, side="right")
        separators = separators[(np.searchsorted(quotes, separators) - before_row[row_of]) % 2 == 0]
    starts = np.append(0, ends[:-1])[: len(ends)]
    n_found = np.diff(np.searchsorted(separators, ends), prepend=0) + 1
    blank = (ends - starts == 1) | ((ends - starts == 2) & (body[starts] == 13))
    broken = _broken_text(body, starts, ends)
    bad = ~blank & ((n_found != n_columns) | open_quote | broken)
    for row in np.flatnonzero(bad).tolist():
        if broken[row]:
            got, expected = f"the bytes {_excerpt(body[starts[row] : ends[row]])}", "UTF-8 text"
        elif open_quote[row]:
            got, expected = "a quote that is not closed", "quotes in pairs"
        else:
            got, expected = f"{n_found[row]} columns", f"{n_columns} columns"
        problems.report(file, "line", int(numbers[row]), got, expected)
    good = ~(bad | blank)
    if good.all():
        return Records(body, numbers, n_used)
    return Records(body[np.repeat(good, ends - starts)], numbers[good], n_used)


def _joined_lines(
    body: Bytes, ends: NDArray[np.int64], odd: NDArray[np.int64], n_columns: int, form: CsvFormat, is_last: bool
) -> tuple[NDArray[np.bool_], int]:
    """Says which lines end inside a quoted value, and before which line to stop because its value is not over yet."""
    quote, delimiter = re.escape(str(form.quote).encode()), re.escape(form.delimiter.encode())
    # possessive, because the way back would be remembered for every byte of a long value
    inside = b"[^%b]*+(?:%b%b[^%b]*+)*+" % (quote, quote, quote, quote)
    value = b"(?:%b%b%b|[^%b%b\r\n]*+)" % (quote, inside, quote, quote, delimiter)
    row = re.compile(b"%b(?:%b%b){%d}\r?\n" % (value, delimiter, value, n_columns - 1))
    is_inside = np.zeros(len(ends), dtype=bool)
    place = 0
    while place < len(odd):
        first = int(odd[place])
        if place + 1 == len(odd):
            goes_on = not is_last and len(ends) - first < MOST_LINES
            return is_inside, first if goes_on else len(ends)
        last = int(odd[place + 1])
        start = 0 if first == 0 else int(ends[first - 1])
        if last - first < MOST_LINES and row.fullmatch(body[start : ends[last]].tobytes()):
            is_inside[first:last] = True
            place += 1
        place += 1
    return is_inside, len(ends)


def is_utf8(body: Bytes) -> bool:
    """Whether all bytes together are text."""
    return not body.size or int(body.max()) <= 127 or _first_broken_byte(body.tobytes()) is None


def _broken_text(body: Bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Says which rows are not UTF-8."""
    broken = np.zeros(len(ends), dtype=bool)
    if is_utf8(body):
        return broken
    data = body.tobytes()
    for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        broken[row] = _first_broken_byte(data[start:end]) is not None
    return broken


def _first_broken_byte(data: bytes) -> int | None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return None


def _excerpt(line: Bytes) -> str:
    data = line.tobytes()
    at = _first_broken_byte(data) or 0
    return f"{data[at : at + 4]!r} at byte {at + 1}"


BLOCK_BYTES = 1 << 24
_LOOKED_AT_BYTES = 1 << 20
_LONGEST_LINE = 1 << 28
_LONGEST_HEADER = 1 << 20
_LONGEST_VALUE = 1 << 24
"""A value with line breaks that goes on for more counts as a quote that somebody forgot to close."""


class TextFile(NamedTuple):
    """A text file, wherever it lies.

    Attributes:
        path: Its place in the file system.
        system: An Arrow file system; None is this machine's.
        parts: Columns that the folder says, as in `day=1`, and their value.
    """

    path: str
    system: Any = None
    parts: Mapping[str, pa.Scalar] = {}

    @property
    def name(self) -> str:
        """What errors call it."""
        return Path(self.path).name

    def open(self) -> Any:
        return pa.OSFile(self.path, "rb") if self.system is None else self.system.open_input_file(self.path)


AnyTextFile = Path | TextFile


def csv_header(path: AnyTextFile, form: CsvFormat) -> list[str]:
    """Returns the column names of a file with a header line."""
    file = _text_file(path)
    block, _ = next(_blocks(file, 1 << 16, RowProblems(), _LONGEST_HEADER))
    if block.size:
        first = block.tobytes().split(b"\n", 1)[0].removeprefix(b"\xef\xbb\xbf").rstrip(b"\r")
        try:
            names = list(pa_csv.read_csv(pa.BufferReader(first + b"\n"), parse_options=_dialect(form)).column_names)
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            raise _unreadable(file, error) from error
        if len(set(names)) < len(names):
            twice = Counter(names).most_common(1)[0][0]
            raise InvalidInput.of(f"{file.name}, line 1", f"column {twice!r} twice", "different names", "rename one")
        return names
    raise InvalidInput.of("table", f"{file.name}, which is empty", "a header line and rows", "check the file")


def csv_schema(path: AnyTextFile, form: CsvFormat) -> pa.Schema:
    """Returns the columns with the types that the first rows suggest; malformed lines are passed over."""
    file = _text_file(path)
    names = _names(file, form)
    types = pa.schema([(name, pa.null()) for name in names])
    block, _ = next(_blocks(file, _LOOKED_AT_BYTES, RowProblems()))
    body, first_line = _without_header(block, form)
    found = whole_records(body, first_line, len(names), form, RowProblems("skip"), file.name)
    if found.lines.size:
        reading = pa_csv.ReadOptions(column_names=names, block_size=len(found.body) + 1)
        dialect = _dialect(form)
        dialect.invalid_row_handler = lambda _row: "skip"
        types = pa_csv.read_csv(pa.BufferReader(pa.py_buffer(found.body)), reading, dialect).schema
    return pa.schema([*types, *((name, value.type) for name, value in file.parts.items())])


def csv_rows(
    path: AnyTextFile,
    form: CsvFormat,
    problems: RowProblems,
    columns: Sequence[str] | None = None,
    plain_columns: Sequence[str] = (),
    categories: Sequence[str] = (),
) -> Iterator[RawRows]:
    """Yields the rows of a text file (plain, gzip or zstd) with every value as text.

    A line with the wrong number of columns, an open quote or broken UTF-8 is reported with its number and left
    out; blank lines hold no row and are passed over. See `whole_records` for values with line breaks.

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
    coded = pa.dictionary(pa.int32(), pa.string())
    inside = [name for name in wanted if name not in file.parts]
    convert = pa_csv.ConvertOptions(
        # without any column the rows could not be counted
        include_columns=inside or names[:1],
        column_types={name: pa.string() if name in plain_columns else coded for name in inside or names[:1]},
        strings_can_be_null=False,
        null_values=[],
    )
    next_line, rest, of_numbers = 0, _as_bytes(b""), None
    for block, is_last in _blocks(file, BLOCK_BYTES, problems):
        body, first_line = (np.append(rest, block) if rest.size else block), next_line
        if not next_line:
            body, first_line = _without_header(block, form)
        parsed = _quickly_parsed(body, first_line, names, form, convert)
        n_used = len(body)
        if parsed is None:
            ends_here = is_last or rest.size > _LONGEST_VALUE
            found = whole_records(body, first_line, len(names), form, problems, file.name, is_last=ends_here)
            parsed = _parsed(found.body, found.lines, names, form, convert, problems, file)
            n_used = found.n_used
        next_line = first_line + int(np.count_nonzero(body[:n_used] == 10))
        rest = body[n_used:]
        batch, lines = parsed
        if not lines.size:
            continue
        if of_numbers is None:
            of_numbers = frozenset(name for name in categories if name in inside and holds_numbers(batch.column(name)))
        for name, value in file.parts.items():
            if name in wanted:
                batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
        yield RawRows(batch.select(wanted), file.name, lines, "line", of_numbers)


def _text_file(path: AnyTextFile) -> TextFile:
    return path if isinstance(path, TextFile) else TextFile(str(path))


def _names(file: TextFile, form: CsvFormat) -> list[str]:
    return list(form.names) if form.names is not None else csv_header(file, form)


def _without_header(block: Bytes, form: CsvFormat) -> tuple[Bytes, int]:
    """The lines of a file's first block that hold rows, and the number of the first of them."""
    if form.names is not None:
        return block, 1
    return block[int(np.argmax(block == 10)) + 1 :], 2


def _as_bytes(block: bytes) -> Bytes:
    return np.frombuffer(block, dtype=np.uint8)


def _blocks(
    file: TextFile, n_bytes: int, problems: RowProblems, longest: int = _LONGEST_LINE
) -> Iterator[tuple[Bytes, bool]]:
    """Yields blocks of whole lines, the last of them perhaps empty; says how far the file, packed or not, was read."""
    open_line: list[bytes] = []  # pieces, because joining them with every block would cost the square of their length
    n_told, n_open, has_returns = 0, 0, None
    try:
        with file.open() as opened, _unpacked(opened, file.path) as stream:
            while chunk := stream.read(n_bytes):
                if has_returns is None:
                    chunk += stream.read(1) if chunk.endswith(b"\r") else b""
                    has_returns = _ends_in_returns(chunk)
                if has_returns:
                    chunk = chunk.replace(b"\r", b"\n")
                position = opened.tell()
                problems.on_bytes(position - n_told)
                n_told = position
                cut = chunk.rfind(b"\n") + 1
                if cut:
                    yield _as_bytes(b"".join([*open_line, chunk[:cut]])), False
                    open_line, n_open = [], 0
                open_line.append(chunk[cut:])
                n_open += len(chunk) - cut
                if n_open > longest:
                    raise InvalidInput.of(
                        "table", f"{file.name}, with a line of more than {longest >> 20} MiB", "lines", "check the file"
                    )
    except OSError as error:
        raise _unreadable(file, error) from error
    yield _as_bytes(b"".join([*open_line, b"\n"]) if n_open else b""), True


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


_Parsed = tuple[pa.RecordBatch, NDArray[np.int64]]


def _quickly_parsed(
    body: Bytes, first_line: int, names: list[str], form: CsvFormat, convert: pa_csv.ConvertOptions
) -> _Parsed | None:
    """Parses lines that are all whole, which one pass of the parser shows; None if one of them needs a closer look."""
    if not body.size or len(names) == 1 or not is_utf8(body) or not quotes_are_plain(body, form):
        return None
    refused: list[int] = []
    n_lines = int(np.count_nonzero(body == 10))
    try:
        # blank lines are no rows and make the count differ
        batch = _batch(body, names, _dialect(form, ignore_empty_lines=True), convert, refused)
    except pa.ArrowInvalid:
        return None
    if refused or batch.num_rows != n_lines:
        return None
    return batch, np.arange(first_line, first_line + n_lines)


def _parsed(
    body: Bytes,
    lines: NDArray[np.int64],
    names: list[str],
    form: CsvFormat,
    convert: pa_csv.ConvertOptions,
    problems: RowProblems,
    file: TextFile,
) -> _Parsed:
    if not lines.size:
        return pa.RecordBatch.from_pylist([], schema=pa.schema([])), lines
    refused: list[int] = []
    try:
        batch = _batch(body, names, _dialect(form), convert, refused)
    except pa.ArrowInvalid as error:
        raise _unreadable(file, error) from error
    for row in refused:
        problems.report(file.name, "line", int(lines[row]), "misplaced quotes", f"{len(names)} columns")
    lines = np.delete(lines, refused)
    if batch.num_rows != len(lines):
        raise _unreadable(file, f"{len(lines)} lines were read as {batch.num_rows} rows from line {lines[0]}")
    return batch, lines


def _batch(
    body: Bytes, names: list[str], dialect: pa_csv.ParseOptions, convert: pa_csv.ConvertOptions, refused: list[int]
) -> pa.RecordBatch:
    def refuse(row: pa_csv.InvalidRow) -> str:
        refused.append(row.number - 1)
        return "skip"

    dialect.invalid_row_handler = refuse
    # one thread, because only then does the parser number the rows it refuses
    reading = pa_csv.ReadOptions(column_names=names, use_threads=False, block_size=len(body) + 1)
    table = pa_csv.read_csv(pa.BufferReader(pa.py_buffer(body)), reading, dialect, convert)
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _dialect(form: CsvFormat, *, ignore_empty_lines: bool = False) -> pa_csv.ParseOptions:
    return pa_csv.ParseOptions(
        delimiter=form.delimiter,
        quote_char=form.quote or False,
        ignore_empty_lines=ignore_empty_lines,
        newlines_in_values=form.quote is not None,
    )


def _unreadable(file: TextFile, error: object) -> InvalidInput:
    return InvalidInput.of(
        "table", f"{file.name}, which does not read as text rows ({error})", "a whole file", "fetch or write it again"
    )


def typed_columns(rows: RawRows, types: pa.Schema, columns: Sequence[str]) -> pa.RecordBatch:
    """Returns the named columns with the types of a schema; where that says text, as they are written.

    Arguments:
        rows: Columns as text, or with these types already.
        types: The wanted types.
        columns: Which columns.

    Example:
        >>> import numpy as np
        >>> rows = RawRows(pa.record_batch({"hour": ["07", "NA"], "site": ["a", "NA"]}), "log.csv", np.arange(2, 4))
        >>> typed_columns(rows, pa.schema({"hour": pa.int64(), "site": pa.string()}), ["hour", "site"]).to_pylist()
        [{'hour': 7, 'site': 'a'}, {'hour': None, 'site': 'NA'}]
    """
    return pa.RecordBatch.from_pydict({name: _typed(rows, name, types.field(name).type) for name in columns})


def _typed(rows: RawRows, name: str, kind: pa.DataType) -> pa.Array:
    values = rows.column(name)
    if pa.types.is_dictionary(values.type) and rows.unit == "line":
        values = values.cast(pa.string())
    if values.type == kind:
        return values
    try:
        if pa.types.is_string(values.type) and not pa.types.is_large_string(kind):
            values = pc.if_else(pa.array(null_words(values)), pa.scalar(None, pa.string()), values)
            values = pc.ascii_trim_whitespace(values)
        return values.cast(kind)
    except pa.ArrowInvalid as error:
        raise InvalidInput.of(
            f"column {name!r}",
            f"a value that is no {kind} ({error}) in {rows.file}",
            "the type of the file's first rows throughout",
            "mend that row, or write CSV instead of Parquet",
        ) from error
