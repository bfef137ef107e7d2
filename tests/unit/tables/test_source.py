"""Anything a user may call a table; what would be read wrongly without a word is refused with a hint."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.core.errors import InvalidInput, UnknownName
from monocal.tables.categories import as_text
from monocal.tables.columns import numbers_in
from monocal.tables.files import write_table
from monocal.tables.roles import Roles
from monocal.tables.source import open_table
from monocal.tables.table import Table

ROWS = {"click": [0, 1, 0], "site": ["a", "b", "a"]}
N = 400
RNG = np.random.default_rng(0)
SCORES = RNG.random(N)
LABELS = (RNG.random(N) < SCORES).astype(int)
MOMENT = datetime.datetime(2024, 5, 1, 12, 30)


def test_tables_in_memory_are_read_again_and_again_in_batches():
    for table in (ROWS, pa.table(ROWS), pa.record_batch(ROWS), pa.table(ROWS).to_reader()):
        stream = open_table(table)
        assert (stream.column_names, stream.n_rows) == (["click", "site"], 3)
        for _ in range(2):
            batches = list(stream.batches(batch_rows=2))
            assert [row for batch in batches for row in batch.to_pylist()] == pa.table(ROWS).to_pylist()
            assert [batch.num_rows for batch in batches] == [2, 1]


def test_folders_and_globs_are_read_in_name_order_and_hidden_files_are_not(tmp_path):
    for name, site in (("b.parquet", "y"), ("a.parquet", "x"), (".c.parquet", "z"), ("_d.parquet", "w")):
        pq.write_table(pa.table({"site": [site]}), tmp_path / name)
    for table in (tmp_path, str(tmp_path / "[ab]*.parquet")):
        assert [value for batch in open_table(table).batches() for value in batch["site"].to_pylist()] == ["x", "y"]


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


def _shards(folder, name, columns):
    for index, column in enumerate(columns):
        n = len(column)
        pq.write_table(pa.table({"s": SCORES[:n], "y": LABELS[:n], name: column}), folder / f"{index}.parquet")
    return str(folder)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array([7, 8]), pa.array(["07", "08"])),
        (pa.array(["1", "0"]), pa.array([True, False])),
        (pa.array([1, 0]), pa.array([True, False])),
        (pa.array([7, 8]), pa.array(["7", "8"]).dictionary_encode()),
        (pa.array([MOMENT] * 2).cast(pa.timestamp("us")), pa.array([MOMENT] * 2, pa.timestamp("us", "Europe/Berlin"))),
    ],
)
def test_a_column_that_changes_its_type_in_a_later_file_is_refused(tmp_path, first, second):
    folder = _shards(tmp_path, "site", [first, second])
    with pytest.raises(InvalidInput, match=r"column 'site'.*1\.parquet.*0\.parquet.*one type in all files.*Hint: cast"):
        monocal.fit(folder, method="platt", score="s", label="y", fields=["site"])
    assert Table.read(folder, Roles(score="s", label="y")).n_rows == 4


def test_widths_of_one_type_may_differ_and_labels_may_be_booleans_in_one_file(tmp_path):
    folder = _shards(tmp_path, "site", [pa.array([7, 8], pa.int32()), pa.array([8, 9], pa.int64())])
    column = Table.read(folder, Roles(score="s", label="y", fields=["site"])).fields["site"]
    assert column.decode(column.ids) == [7, 8, 8, 9]
    _shards(tmp_path, "z", [pa.array([0, 1]), pa.array([True, False])])
    assert Table.read(folder, Roles(score="s", label="z")).labels["z"].tolist() == [0, 1, 1, 0]


def test_a_column_twice_is_refused(tmp_path):
    (tmp_path / "log.csv").write_text("s,y,s\n0.1,1,0.9\n0.2,0,0.8\n")
    table = pa.table([[0.1], [1], [0.9]], names=["s", "y", "s"])
    pq.write_table(table, tmp_path / "log.parquet")
    for log in (str(tmp_path / "log.csv"), str(tmp_path / "log.parquet"), table):
        with pytest.raises(InvalidInput, match=r"column 's' twice.*Hint: rename"):
            monocal.fit(log, method="platt", score="s", label="y")


def test_damaged_pages_are_noticed_of_what_is_written_here_too(tmp_path):
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"s": SCORES}), path, compression="none", use_dictionary=False, write_page_checksum=True)
    with write_table(tmp_path / "out.parquet", pa.schema({"s": pa.float64()})) as writer:
        writer.write_batch(pa.record_batch({"s": SCORES}))
    for written in (path, tmp_path / "out.parquet"):
        whole = bytearray(written.read_bytes())
        whole[1500] ^= 1  # inside the only page
        written.write_bytes(bytes(whole))
        with pytest.raises(InvalidInput, match=rf"{written.stem}\.parquet.*CRC.*Hint"):
            list(open_table(written).batches(["s"]))


@pytest.mark.parametrize("largest", [1e308, 1e13])
def test_weights_that_would_overflow_are_refused(largest):
    weights = np.ones(N)
    weights[7] = largest
    for method in ("platt", "isotonic", "histogram"):
        with pytest.raises(InvalidInput, match=r"weights: got 1e\+\d+ at row 7; expected numbers from 0 to 1e\+12"):
            monocal.fit({"s": SCORES, "y": LABELS, "w": weights}, method=method, score="s", label="y", weight="w")


def test_one_moment_has_one_text_in_any_unit_and_zone_and_decimals_may_be_categories():
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "UTC", "Europe/Berlin"):
            found = as_text(pa.array([MOMENT]).cast(pa.timestamp(unit, zone)), "t").to_pylist()
            assert found == ["2024-05-01 12:30:00.000000"]
    assert as_text(pa.array([7, 8]).cast(pa.decimal128(20, 0)), "site").to_pylist() == ["7", "8"]
