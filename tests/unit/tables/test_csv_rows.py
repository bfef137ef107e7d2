import gzip
import tracemalloc

import numpy as np
import pytest

from monocal.core.errors import InvalidInput, UnknownName
from monocal.tables import csv as module
from monocal.tables.csv import CsvFormat, csv_rows
from monocal.tables.problems import RowProblems

PLAIN = CsvFormat(quote=None)


def _read(path, form=None, on_error="skip", **options):
    problems = RowProblems(on_error)
    found = list(csv_rows(path, form or CsvFormat(), problems, **options))
    rows = [tuple(row.values()) for part in found for row in part.batch.to_pylist()]
    lines = np.concatenate([part.numbers for part in found]).tolist() if found else []
    return rows, lines, problems


def _file(tmp_path, content, name="log.csv"):
    path = tmp_path / name
    path.write_bytes(content)
    return path


@pytest.fixture(params=[16, 1 << 24], ids=["tiny blocks", "one block"])
def _blocks(request, monkeypatch):
    monkeypatch.setattr(module, "BLOCK_BYTES", request.param)


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize(
    ("content", "rows", "lines"),
    [
        (b"a,b\n1,2\n3,4\n", [("1", "2"), ("3", "4")], [2, 3]),
        (b"a,b\r\n1,2\r\n\r\n3,4", [("1", "2"), ("3", "4")], [2, 4]),
        (b"\xef\xbb\xbfa,b\n,\n", [("", "")], [2]),
        (b'a,b\n"x,y","say ""hi"""\n1,2\n', [("x,y", 'say "hi"'), ("1", "2")], [2, 3]),
        ("a,b\nß,日本\n".encode(), [("ß", "日本")], [2]),
        (b"a,b\r1,2\r3,4\r", [("1", "2"), ("3", "4")], [2, 3]),
        (b"a,b\r1,2\n\r3,4", [("1", "2"), ("3", "4")], [2, 4]),
        (b"a_long_name,b\r\n1,2\r\n", [("1", "2")], [2]),
        (b"a_longer_name,b\r\n1,2\r\n", [("1", "2")], [2]),
        (b"a,b\n", [], []),
        (b"a,b", [], []),
    ],
)
def test_whole_files_are_read_as_text_with_line_numbers(content, rows, lines, tmp_path):
    found, numbers, problems = _read(_file(tmp_path, content))
    assert (found, numbers, problems.n_rows) == (rows, lines, 0)


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize(
    ("bad", "got", "expected"),
    [
        (b"5,6,7", "3 columns", "2 columns"),
        (b"5", "1 columns", "2 columns"),
        (b"5,6\r7,8", "3 columns", "2 columns"),
        (b"5,\xff\xfe", "the bytes b'\\xff\\xfe\\n' at byte 3", "UTF-8 text"),
        (b"\xff", "the bytes b'\\xff\\n' at byte 1", "UTF-8 text"),
        (b'5,"6', "a quote that is not closed", "quotes in pairs"),
        (b'5,6"', "a quote that is not closed", "quotes in pairs"),
        (b'5,"6" x", "', "misplaced quotes", "2 columns"),
    ],
)
def test_a_malformed_line_is_reported_with_its_number_and_shifts_nothing(bad, got, expected, tmp_path):
    path = _file(tmp_path, b"a,b\n1,2\n" + bad + b"\n3,4\n")
    rows, lines, problems = _read(path)
    assert rows == [("1", "2"), ("3", "4")]
    assert lines == [2, 4]
    assert [str(example) for example in problems.examples] == [f"log.csv, line 3: got {got}; expected {expected}"]
    with pytest.raises(InvalidInput) as caught:
        _read(path, on_error="raise")
    assert str(caught.value).startswith(f"log.csv, line 3: got {got}; expected {expected}. Hint: mend the line")


def test_many_malformed_lines_are_counted_and_the_first_ones_kept(tmp_path):
    lines = [f"{i},x" if i % 3 else f"{i}" for i in range(3000)]
    rows, numbers, problems = _read(_file(tmp_path, "\n".join(["a,b", *lines]).encode()))
    assert problems.n_rows == 1000
    assert len(problems.examples) == 10
    assert problems.summary()["by_wish"] == {"2 columns": 1000}
    assert [int(a) + 2 for a, _ in rows] == numbers


def test_quotes_are_ordinary_characters_where_the_format_says_so(tmp_path):
    rows, _, problems = _read(_file(tmp_path, b'a,b\n"1,2"\n"3,"\n'), PLAIN)
    assert rows == [('"1', '2"'), ('"3', '"')]
    assert problems.n_rows == 0


def test_files_without_a_header_and_with_tabs(tmp_path):
    form = CsvFormat("\t", None, ("x", "y", "z"))
    rows, lines, problems = _read(_file(tmp_path, b"1\t\t3\n4\t5\n6\t7\t8\n"), form, columns=["z", "x"])
    assert rows == [("3", "1"), ("8", "6")]
    assert lines == [1, 3]
    assert problems.n_rows == 1


def test_compressed_files(tmp_path):
    rows, _, _ = _read(_file(tmp_path, gzip.compress(b"a,b\n1,2\n"), "log.csv.gz"))
    assert rows == [("1", "2")]
    cut = _file(tmp_path, gzip.compress(b"a,b\n" + b"1,2\n" * 50_000)[:-30], "cut.csv.gz")
    with pytest.raises(InvalidInput, match=r"table: got cut\.csv\.gz, which does not read as text rows"):
        _read(cut)


def test_headers_that_cannot_be_used(tmp_path):
    with pytest.raises(InvalidInput, match=r"log\.csv, which is empty"):
        _read(_file(tmp_path, b""))
    with pytest.raises(InvalidInput, match=r"log\.csv, line 1: got column 'a' twice"):
        _read(_file(tmp_path, b"a,a\n1,2\n"))
    with pytest.raises(UnknownName, match=r"column of log\.csv: got 'site'.*did you mean 'site_id'"):
        _read(_file(tmp_path, b"site_id,b\n1,2\n"), columns=["site"])
    with pytest.raises(InvalidInput, match=r"log\.csv, which does not read as text rows"):
        _read(_file(tmp_path, b"\xff,b\n1,2\n"))


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
def test_a_bar_is_told_every_byte_of_the_file(name, tmp_path):
    text = b"a,b\n" + b"1,2\n" * 1000
    path = _file(tmp_path, gzip.compress(text) if name.endswith("gz") else text, name)
    told = []
    assert sum(part.batch.num_rows for part in csv_rows(path, CsvFormat(), RowProblems(on_bytes=told.append))) == 1000
    assert sum(told) == path.stat().st_size


MB = 1 << 20


ROWS = b"1,2\n" * 100
LONG_VALUES = {
    "plain": lambda n: b"a,b\n" + ROWS + b"1," + b"z" * n + b"\n" + ROWS,
    "first": lambda n: b"a,b\n1," + b"z" * n + b"\n" + ROWS,
    "doubled quotes": lambda n: b"a,b\n" + ROWS + b'1,"' + b'z""' * (n // 3) + b'"\n' + ROWS,
    "lines": lambda n: b"a,b\n" + ROWS + b'1,"' + (b"z" * (n // 90) + b"\n") * 90 + b'"\n' + ROWS,
    "doubled quotes and a line": lambda n: b"a,b\n" + ROWS + b'1,"' + b'z""' * (n // 3) + b'\n"\n' + ROWS,
    "many lines": lambda n: b"a,b\n" + ROWS + b'1,"' + (b"z" * 1023 + b"\n") * (n // 1024) + b'"\n' + ROWS,
    "open quote": lambda n: b"a,b\n" + ROWS + b'1,"' + b'z""' * (n // 3) + b"\n" + ROWS,
    "misplaced quotes": lambda n: b"a,b\n" + ROWS + b"1," + b'z"' * (n // 2) + b"\n" + ROWS,
    "columns": lambda n: b"a,b\n" + ROWS + b"1," * (n // 2) + b"\n" + ROWS,
    "no text": lambda n: b"a,b\n" + ROWS + b"1," + b"\xff" * n + b"\n" + ROWS,
}
"""A value of n bytes."""

MALFORMED = {"many lines", "open quote", "columns", "no text"}


@pytest.mark.parametrize("kind", LONG_VALUES)
def test_a_long_value_costs_memory_as_its_bytes_do(kind, tmp_path):
    path = _file(tmp_path, LONG_VALUES[kind](2 * MB))
    tracemalloc.start()
    try:
        rows, lines, problems = _read(path)
        assert tracemalloc.get_traced_memory()[1] < 75 * MB
    finally:
        tracemalloc.stop()
    assert len(rows) == len(lines) >= 100
    assert bool(problems.n_rows) == (kind in MALFORMED)


def test_a_first_line_of_megabytes_is_refused_and_hardly_read(tmp_path):
    for content in (b"a," + b"z" * (8 * MB) + b"\n" + ROWS, b"z" * (8 * MB)):
        with pytest.raises(InvalidInput, match=r"log\.csv, with a line of more than 1 MiB"):
            _read(_file(tmp_path, content))


def test_an_open_value_ends_with_a_block(tmp_path, monkeypatch):
    """A forgotten quote makes nobody read a file's end again and again."""
    monkeypatch.setattr(module, "BLOCK_BYTES", 64)
    monkeypatch.setattr(module, "_LONGEST_VALUE", 256)
    rows, lines, problems = _read(_file(tmp_path, b'a,b\n1,"2\n' + b"x" * 60 + b",y\n" * 1 + b"3,4\n" * 200))
    assert (len(rows), problems.n_rows, lines[-1]) == (201, 1, 203)
