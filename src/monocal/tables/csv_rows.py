"""The one reader of delimited text: every value as it is written, in blocks, so that memory is that of a block.

A text file has no types. What a value means follows from the part that its column plays (`monocal.tables.columns`), and
of categories from what the first rows hold (`monocal.tables.categories`), never from where the file is read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, UnknownName
from monocal.tables.categories import holds_numbers
from monocal.tables.csv_records import Bytes, CsvFormat, is_utf8, quotes_are_plain, whole_records
from monocal.tables.row_problems import RawRows, RowProblems

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
