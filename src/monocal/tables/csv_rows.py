"""Delimited text, read in blocks so that a malformed line costs that line and nothing else.

Lines are counted and their separators checked before anything is parsed: a line with a column too many or too
few can therefore never shift values into a neighbour's column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, UnknownName
from monocal.tables.row_problems import RawRows, RowProblems

_BLOCK_BYTES = 1 << 24
_LONGEST_LINE = 1 << 28


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


def csv_header(path: Path, form: CsvFormat) -> list[str]:
    """Returns the column names of a file with a header line."""
    for line in _blocks(path, 1 << 16, RowProblems()):
        first = line.split(b"\n", 1)[0].removeprefix(b"\xef\xbb\xbf").rstrip(b"\r")
        try:
            names = list(pa_csv.read_csv(pa.BufferReader(first + b"\n"), parse_options=_dialect(form)).column_names)
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            raise _unreadable(path, error) from error
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInput.of(f"{path.name}, line 1", f"column {twice!r} twice", "different names", "rename one")
        return names
    raise InvalidInput.of("table", f"{path.name}, which is empty", "a header line and rows", "check the file")


def csv_rows(
    path: Path,
    form: CsvFormat,
    problems: RowProblems,
    columns: Sequence[str] | None = None,
    plain_columns: Sequence[str] = (),
) -> Iterator[RawRows]:
    """Yields the rows of a text file (plain, gzip or zstd) with every value as text.

    A line with the wrong number of columns, an open quote or broken UTF-8 is reported with its number and left
    out; blank lines hold no row and are passed over. Quoted values may contain the delimiter but no line break.

    Arguments:
        path: The file.
        form: How it separates values.
        problems: Receives malformed lines.
        columns: Which columns; None means all.
        plain_columns: Columns whose values hardly repeat; the others come dictionary-encoded.
    """
    names = list(form.names) if form.names is not None else csv_header(path, form)
    wanted = names if columns is None else list(columns)
    for name in wanted:
        if name not in names:
            raise UnknownName.among(f"column of {path.name}", name, names)
    coded = pa.dictionary(pa.int32(), pa.string())
    convert = pa_csv.ConvertOptions(
        include_columns=wanted,
        column_types={name: pa.string() if name in plain_columns else coded for name in wanted},
        strings_can_be_null=False,
        null_values=[],
    )
    next_line = 1
    for block in _blocks(path, _BLOCK_BYTES, problems):
        body = np.frombuffer(block, dtype=np.uint8)
        first_line = next_line
        next_line += int(np.count_nonzero(body == 10))
        if first_line == 1 and form.names is None:
            start = block.index(b"\n") + 1
            body, first_line = body[start:], 2
            if not body.size:
                continue
        kept, lines = _whole_lines(body, first_line, len(names), form, problems, path.name)
        if lines.size:
            yield _parse(kept, lines, names, form, convert, problems, path)


def _blocks(path: Path, n_bytes: int, problems: RowProblems) -> Iterator[bytes]:
    """Yields blocks of whole lines, each ending in a line break; says how far the file, packed or not, was read."""
    rest, n_told = b"", 0
    try:
        with pa.OSFile(str(path), "rb") as file, _unpacked(file, path) as stream:
            while chunk := stream.read(n_bytes):
                position = file.tell()
                problems.on_bytes(position - n_told)
                n_told = position
                chunk = rest + chunk
                cut = chunk.rfind(b"\n") + 1
                rest = chunk[cut:]
                if cut:
                    yield chunk[:cut]
                if len(rest) > _LONGEST_LINE:
                    raise InvalidInput.of(
                        "table", f"{path.name}, with a line of more than 256 MiB", "lines", "check the file"
                    )
    except OSError as error:
        raise _unreadable(path, error) from error
    if rest:
        yield rest + b"\n"


def _unpacked(file: pa.NativeFile, path: Path) -> AbstractContextManager[Any]:
    for ending, codec in ((".gz", "gzip"), (".zst", "zstd"), (".bz2", "bz2")):
        if path.name.lower().endswith(ending):
            packed: AbstractContextManager[Any] = pa.CompressedInputStream(file, codec)
            return packed
    return nullcontext(file)


def _whole_lines(
    body: NDArray[np.uint8], first_line: int, n_columns: int, form: CsvFormat, problems: RowProblems, file: str
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Returns the bytes and numbers of the lines that have the right form."""
    ends = np.flatnonzero(body == 10) + 1
    starts = np.concatenate(([0], ends[:-1]))
    separators = np.flatnonzero(body == ord(form.delimiter))
    open_quote = np.zeros(len(ends), dtype=bool)
    if form.quote is not None:
        quotes = np.flatnonzero(body == ord(form.quote))
        if quotes.size:
            before_line = np.searchsorted(quotes, starts)
            open_quote = (np.searchsorted(quotes, ends) - before_line) % 2 == 1
            line_of = np.searchsorted(ends, separators, side="right")
            outside = (np.searchsorted(quotes, separators) - before_line[line_of]) % 2 == 0
            separators = separators[outside]
    n_found = np.searchsorted(separators, ends) - np.searchsorted(separators, starts) + 1
    blank = (ends - starts == 1) | ((ends - starts == 2) & (body[starts] == 13))
    broken = np.zeros(len(ends), dtype=bool)
    if body.size and int(body.max()) > 127:
        broken = _broken_text(body, starts, ends)
    bad = ~blank & ((n_found != n_columns) | open_quote | broken)
    for line in np.flatnonzero(bad).tolist():
        if broken[line]:
            got, wanted = f"the bytes {_excerpt(body[starts[line] : ends[line]])}", "UTF-8 text"
        elif open_quote[line]:
            got, wanted = "a quote that is not closed", "quotes in pairs"
        else:
            got, wanted = f"{n_found[line]} columns", f"{n_columns} columns"
        problems.report(file, "line", first_line + line, got, wanted)
    good = ~(bad | blank)
    lines = np.flatnonzero(good) + first_line
    if good.all():
        return body, lines
    return body[np.repeat(good, ends - starts)], lines


def _parse(
    kept: NDArray[np.uint8],
    lines: NDArray[np.int64],
    names: list[str],
    form: CsvFormat,
    convert: pa_csv.ConvertOptions,
    problems: RowProblems,
    path: Path,
) -> RawRows:
    refused: list[int] = []

    def refuse(row: pa_csv.InvalidRow) -> str:
        refused.append(row.number - 1)
        return "skip"

    dialect = _dialect(form)
    dialect.invalid_row_handler = refuse
    # one thread, because only then does the parser number the rows it refuses
    reading = pa_csv.ReadOptions(column_names=names, use_threads=False, block_size=len(kept) + 1)
    try:
        table = pa_csv.read_csv(pa.BufferReader(pa.py_buffer(kept)), reading, dialect, convert)
    except pa.ArrowInvalid as error:
        raise _unreadable(path, error) from error
    if refused:
        for row in refused:
            problems.report(path.name, "line", int(lines[row]), "misplaced quotes", f"{len(names)} columns")
        lines = np.delete(lines, refused)
    if table.num_rows != len(lines):
        raise _unreadable(path, f"{len(lines)} lines were read as {table.num_rows} rows from line {lines[0]}")
    batches = table.combine_chunks().to_batches()
    batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
    return RawRows(batch, path.name, lines)


def _dialect(form: CsvFormat) -> pa_csv.ParseOptions:
    return pa_csv.ParseOptions(delimiter=form.delimiter, quote_char=form.quote or False, ignore_empty_lines=False)


def _broken_text(body: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.bool_]:
    data = body.tobytes()
    broken = np.zeros(len(ends), dtype=bool)
    if _first_broken_byte(data) is None:
        return broken
    for line, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        broken[line] = _first_broken_byte(data[start:end]) is not None
    return broken


def _first_broken_byte(data: bytes) -> int | None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return None


def _excerpt(line: NDArray[np.uint8]) -> str:
    data = line.tobytes()
    at = _first_broken_byte(data) or 0
    return f"{data[at : at + 4]!r} at byte {at + 1}"


def _unreadable(path: Path, error: object) -> InvalidInput:
    return InvalidInput.of(
        "table", f"{path.name}, which does not read as text rows ({error})", "a whole file", "fetch or write it again"
    )
