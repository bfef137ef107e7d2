"""CSV text to the letter, there and back."""

import csv
import io

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monocal.core.errors import InvalidInput
from monocal.tables.csv_lines import csv_header, csv_lines
from monocal.tables.csv_text import read_as_text, typed_columns
from monocal.tables.stream import open_table

TEXT = st.text("ab ,;\"\t\n'é世", max_size=6)


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=20), delimiter=st.sampled_from([",", "\t"]))
def test_any_text_comes_back_from_a_csv_reader(rows, delimiter):
    batch = pa.record_batch({"a": [one for one, _ in rows], "b": [other for _, other in rows]})
    text = (csv_header(batch.schema, delimiter) + csv_lines(batch, delimiter)).decode()
    found = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    assert found == [["a", "b"], *map(list, rows)]


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
    typed = pa.Table.from_batches(list(stream.batches()))
    text = next(read_as_text(stream).batches())
    assert text.column("n").to_pylist() == ["007", "", "-3"]
    found = pa.Table.from_batches([typed_columns(text, stream.arrow_schema, stream.column_names)])
    assert found.equals(typed)


def test_a_value_of_another_type_is_named():
    batch = pa.record_batch({"n": ["1", "x"]})
    with pytest.raises(InvalidInput, match="column 'n': got a value that is no int64"):
        typed_columns(batch, pa.schema({"n": pa.int64()}), ["n"])
