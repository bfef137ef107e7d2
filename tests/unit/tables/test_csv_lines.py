"""CSV text to the letter, there and back."""

import csv
import io
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monocal.core.errors import InvalidInput
from monocal.tables import csv as csv_module
from monocal.tables.csv import CsvFormat, typed_columns
from monocal.tables.problems import RawRows, RowProblems
from monocal.tables.source import open_table
from monocal.tables.writer import csv_header, csv_lines

TEXT = st.text("ab ,;\"\t\n'é世", max_size=6)


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=20), delimiter=st.sampled_from([",", "\t"]))
def test_any_text_comes_back_from_a_csv_reader(rows, delimiter):
    batch = pa.record_batch({"a": [first for first, _ in rows], "b": [other for _, other in rows]})
    text = (csv_header(batch.schema, delimiter) + csv_lines(batch, delimiter)).decode()
    found = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    assert found == [["a", "b"], *map(list, rows)]


@settings(max_examples=100, deadline=None)
@given(rows=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=20), block_bytes=st.sampled_from([5, 40, 1 << 24]))
def test_any_text_comes_back_from_the_reader(rows, block_bytes):
    batch = pa.record_batch({"a": [one for one, _ in rows], "b": [other for _, other in rows]})
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_module, "BLOCK_BYTES", block_bytes)
        path = Path(folder) / "log.csv"
        path.write_bytes(csv_header(batch.schema) + csv_lines(batch))
        found = list(csv_module.csv_rows(path, CsvFormat(), RowProblems()))
    assert [tuple(row.values()) for part in found for row in part.batch.to_pylist()] == rows


def test_slices_and_types():
    batch = pa.record_batch({"n": [1, 2, 3], "f": [0.5, None, 1e-9], "t": [True, False, None]}).slice(1, 2)
    assert csv_lines(batch) == b"2,,false\n3,1e-9,\n"
    assert csv_lines(batch.slice(0, 0)) == b""


def test_a_type_without_text_is_refused():
    with pytest.raises(InvalidInput, match=r"column 'x': got values of type list<.*write Parquet instead of CSV"):
        csv_lines(pa.record_batch({"x": [[1], [2]]}))


def test_typed_columns_are_what_the_reader_would_give(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("n,f,b,s,d\n007,1e-3,true,NA,2024-05-01\n,,false,,\n-3,2,,x,2024-05-02\n")
    stream = open_table(path)
    (text,) = stream.placed_batches()
    assert text.column("n").to_pylist() == ["007", "", "-3"]
    found = pa.Table.from_batches([typed_columns(text, stream.arrow_schema, stream.column_names)])
    assert found.equals(pa_csv.read_csv(path))


def test_a_value_of_another_type_is_named():
    rows = RawRows(pa.record_batch({"n": ["1", "x"]}), "log.csv", np.arange(2, 4))
    with pytest.raises(InvalidInput, match=r"column 'n': got a value that is no int64.*log\.csv"):
        typed_columns(rows, pa.schema({"n": pa.int64()}), ["n"])
