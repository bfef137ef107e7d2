"""Lines of delimited text into rows: which lines are whole, which belong together, which are malformed.

Lines are counted and their separators checked before anything is parsed: a line with a column too many or too
few can therefore never shift values into a neighbour's column.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from monocal.tables.row_problems import RowProblems

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
