import gzip

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monocal.core.errors import InvalidInput, UnknownName
from monocal.tables.columns import numbers_in
from monocal.tables.source import open_table

ROWS = {"click": [0, 1, 0], "site": ["a", "b", "a"]}


@pytest.mark.parametrize(
    "table",
    [
        ROWS,
        pa.table(ROWS),
        pa.record_batch(ROWS),
        pd.DataFrame(ROWS),
        pl.DataFrame(ROWS),
        pa.table(ROWS).to_reader(),
    ],
    ids=["mapping", "arrow table", "arrow batch", "pandas", "polars", "arrow reader"],
)
def test_every_kind_of_table_in_memory_is_accepted(table):
    stream = open_table(table)
    assert stream.column_names == ["click", "site"]
    assert stream.n_rows == 3
    for _ in range(2):
        assert [row for batch in stream.batches() for row in batch.to_pylist()] == pa.table(ROWS).to_pylist()


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "parquet", "csv.zst"])
def test_every_kind_of_file_is_accepted(ending, tmp_path):
    path = tmp_path / f"log.{ending}"
    text = ("click,site\n0,a\n1,b\n0,a\n" if "csv" in ending else "click\tsite\n0\ta\n1\tb\n0\ta\n").encode()
    if ending == "parquet":
        pq.write_table(pa.table(ROWS), path)
    elif ending.endswith("zst"):
        with pa.output_stream(str(path), compression="zstd") as sink:
            sink.write(text)
    else:
        path.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    stream = open_table(path)
    assert stream.arrow_schema == pa.schema({"click": pa.int64(), "site": pa.string()})
    (batch,) = stream.batches(["site", "click"])
    # text has no types: what a value means follows from its part
    clicks = ROWS["click"] if ending == "parquet" else ["0", "1", "0"]
    assert batch.to_pydict() == {"site": ROWS["site"], "click": clicks}
    assert open_table(path).n_rows == (3 if ending == "parquet" else None)


def test_folders_and_globs_are_read_in_name_order_and_hidden_files_are_not(tmp_path):
    for name, site in (("b.parquet", "y"), ("a.parquet", "x"), (".c.parquet", "z"), ("_d.parquet", "w")):
        pq.write_table(pa.table({"site": [site]}), tmp_path / name)
    for table in (tmp_path, str(tmp_path / "[ab]*.parquet")):
        assert [value for batch in open_table(table).batches() for value in batch["site"].to_pylist()] == ["x", "y"]


def test_text_columns_come_as_text_when_asked_dictionary_encoded(tmp_path):
    (tmp_path / "log.csv").write_text("hour\n07\n7\n")
    batch = next(open_table(tmp_path / "log.csv").batches(dictionary_columns=["hour"]))
    assert batch.column("hour").to_pylist() == ["07", "7"]


def test_batches_are_never_larger_than_asked():
    assert [batch.num_rows for batch in open_table(ROWS).batches(["click"], batch_rows=2)] == [2, 1]


def test_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(UnknownName, match=r"column of the table: got 'sit'.*did you mean 'site'"):
        list(open_table(ROWS).batches(["sit"]))
    with pytest.raises(InvalidInput, match="table: got an object of type int"):
        open_table(7)
    with pytest.raises(InvalidInput, match="expected an existing file, folder or glob"):
        open_table(tmp_path / "none.parquet")
    with pytest.raises(InvalidInput, match="expected a folder with Parquet or CSV files"):
        open_table(tmp_path)
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(InvalidInput, match=r"a\.txt'; expected a file ending in \.parquet"):
        open_table(tmp_path / "a.txt")
    (tmp_path / "bad.parquet").write_text("x")
    with pytest.raises(InvalidInput, match=r"bad\.parquet, which does not read as Parquet"):
        open_table(tmp_path / "bad.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "bad.parquet")
    pq.write_table(pa.table({"b": [1]}), tmp_path / "two.parquet")
    with pytest.raises(InvalidInput, match=r"two\.parquet without column 'a'; expected the columns of bad\.parquet"):
        open_table(str(tmp_path / "*.parquet"))


def test_numbers_are_found_in_every_form_of_a_column():
    for column in (pa.array(["1", "x", None]), pa.array(["1", "x", None]).dictionary_encode()):
        for form in (column, pa.chunked_array([column.slice(0, 1), column.slice(1)])):
            found = numbers_in(form)
            assert found.values.tolist() == [1.0, 0.0, 0.0]
            assert (found.missing.tolist(), found.bad.tolist()) == ([False, False, True], [False, True, False])
