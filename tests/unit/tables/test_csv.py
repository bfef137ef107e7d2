"""Delimited text to the letter: every row in its place, every malformed line named, work as the bytes."""

import csv
import gzip
import io
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monocal.core.errors import InvalidInput, UnknownName
from monocal.tables import csv as module
from monocal.tables.columns import RawRows
from monocal.tables.csv import CsvFormat, RowProblems, csv_rows
from monocal.tables.files import csv_header, csv_lines, typed_columns
from monocal.tables.source import open_table

MB = 1 << 20


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
        (b'5,"6', "a quote that is not closed", "quotes in pairs"),
        (b'5,6"', "a quote that is not closed", "quotes in pairs"),
        (b'5,"6" x", "', "misplaced quotes", "2 columns"),
    ],
)
def test_a_malformed_line_is_reported_with_its_number_and_shifts_nothing(bad, got, expected, tmp_path):
    path = _file(tmp_path, b"a,b\n1,2\n" + bad + b"\n3,4\n")
    rows, lines, problems = _read(path)
    assert (rows, lines) == ([("1", "2"), ("3", "4")], [2, 4])
    assert problems.examples == [f"log.csv, line 3: got {got}; expected {expected}"]
    with pytest.raises(InvalidInput) as caught:
        _read(path, on_error="raise")
    assert str(caught.value).startswith(f"log.csv, line 3: got {got}; expected {expected}. Hint:")


def test_many_malformed_lines_are_counted_and_the_first_ones_kept(tmp_path):
    lines = [f"{i},x" if i % 3 else f"{i}" for i in range(3000)]
    rows, numbers, problems = _read(_file(tmp_path, "\n".join(["a,b", *lines]).encode()))
    assert (problems.n_rows, len(problems.examples)) == (1000, 10)
    assert [int(a) + 2 for a, _ in rows] == numbers


def test_formats_without_quotes_or_header_and_packed_files(tmp_path):
    plain = _read(_file(tmp_path, b'a,b\n"1,2"\n"3,"\n'), CsvFormat(quote=None))
    assert (plain[0], plain[2].n_rows) == ([('"1', '2"'), ('"3', '"')], 0)
    form = CsvFormat("\t", None, ("x", "y", "z"))
    rows, lines, problems = _read(_file(tmp_path, b"1\t\t3\n4\t5\n6\t7\t8\n"), form, columns=["z", "x"])
    assert (rows, lines, problems.n_rows) == ([("3", "1"), ("8", "6")], [1, 3], 1)
    assert _read(_file(tmp_path, gzip.compress(b"a,b\n1,2\n"), "log.csv.gz"))[0] == [("1", "2")]
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
def test_a_bar_gets_every_byte_of_the_file(name, tmp_path):
    text = b"a,b\n" + b"1,2\n" * 1000
    path = _file(tmp_path, gzip.compress(text) if name.endswith("gz") else text, name)
    read = []
    assert sum(part.batch.num_rows for part in csv_rows(path, CsvFormat(), RowProblems(on_bytes=read.append))) == 1000
    assert sum(read) == path.stat().st_size


ROWS = b"1,2\n" * 100
HEAD = b"a,b\n" + ROWS
LONG_VALUES = {
    "plain": lambda n: HEAD + b"1," + b"z" * n + b"\n" + ROWS,
    "doubled quotes": lambda n: HEAD + b'1,"' + b'z""' * (n // 3) + b'"\n' + ROWS,
    "lines": lambda n: HEAD + b'1,"' + (b"z" * (n // 90) + b"\n") * 90 + b'"\n' + ROWS,
    "doubled quotes and a line": lambda n: HEAD + b'1,"' + b'z""' * (n // 3) + b'\n"\n' + ROWS,
    "misplaced quotes": lambda n: HEAD + b"1," + b'z"' * (n // 2) + b"\n" + ROWS,
    "many lines": lambda n: HEAD + b'1,"' + (b"z" * 1023 + b"\n") * (n // 1024) + b'"\n' + ROWS,
    "open quote": lambda n: HEAD + b'1,"' + b'z""' * (n // 3) + b"\n" + ROWS,
    "columns": lambda n: HEAD + b"1," * (n // 2) + b"\n" + ROWS,
    "no text": lambda n: HEAD + b"1," + b"\xff" * n + b"\n" + ROWS,
}
"""A value of n bytes; the last four are malformed."""


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
    assert bool(problems.n_rows) == (kind in list(LONG_VALUES)[-4:])


def test_a_first_line_of_megabytes_is_refused_and_hardly_read(tmp_path):
    for content in (b"a," + b"z" * (8 * MB) + b"\n" + ROWS, b"z" * (8 * MB)):
        with pytest.raises(InvalidInput, match=r"log\.csv, with a line of more than 1 MiB"):
            _read(_file(tmp_path, content))


def test_an_open_value_ends_with_a_block(tmp_path, monkeypatch):
    """A forgotten quote makes nobody read a file's end again and again."""
    monkeypatch.setattr(module, "BLOCK_BYTES", 64)
    monkeypatch.setattr(module, "_LONGEST_VALUE", 256)
    rows, lines, problems = _read(_file(tmp_path, b'a,b\n1,"2\n' + b"x" * 60 + b",y\n" + b"3,4\n" * 200))
    assert (len(rows), problems.n_rows, lines[-1]) == (201, 1, 203)


TEXT = st.text("ab ,;\"\t\n'é世", max_size=6)


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=20),
    block_bytes=st.sampled_from([5, 40, 1 << 24]),
    delimiter=st.sampled_from([",", "\t"]),
)
def test_any_text_is_read_as_it_was_written(rows, block_bytes, delimiter):
    batch = pa.record_batch({"a": [one for one, _ in rows], "b": [other for _, other in rows]})
    text = csv_header(batch.schema, delimiter) + csv_lines(batch, delimiter)
    by_python = list(csv.reader(io.StringIO(text.decode(), newline=""), delimiter=delimiter))
    assert by_python == [["a", "b"], *map(list, rows)]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_BYTES", block_bytes)
        found = _read(_file(Path(folder), text), CsvFormat(delimiter))
    assert found[0] == rows


def test_types_as_text():
    batch = pa.record_batch({"n": [1, 2, 3], "f": [0.5, None, 1e-9], "t": [True, False, None]}).slice(1, 2)
    assert csv_lines(batch) == b"2,,false\n3,1e-9,\n"
    with pytest.raises(InvalidInput, match=r"column 'x': got values of type list<.*write Parquet instead of CSV"):
        csv_lines(pa.record_batch({"x": [[1], [2]]}))


def test_text_as_types(tmp_path):
    path = _file(tmp_path, b"n,f,b,s,d\n007,1e-3,true,NA,2024-05-01\n,,false,,\n-3,2,,x,2024-05-02\n")
    stream = open_table(path)
    (text,) = stream.placed_batches()
    assert text.column("n").to_pylist() == ["007", "", "-3"]
    found = pa.Table.from_batches([typed_columns(text, stream.arrow_schema, stream.column_names)])
    assert found.equals(pa_csv.read_csv(path))
    rows = RawRows(pa.record_batch({"n": ["1", "x"]}), "log.csv", np.arange(2, 4))
    with pytest.raises(InvalidInput, match=r"column 'n': got a value that is no int64.*log\.csv"):
        typed_columns(rows, pa.schema({"n": pa.int64()}), ["n"])
