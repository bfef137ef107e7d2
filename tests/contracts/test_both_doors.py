"""A log has one meaning: fitted as it is, and prepared first, the same file gives the same rows or the same refusal."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.core.errors import InvalidInput, MonocalWarning
from monocal.lab.prepare.encoder import encode_log
from monocal.tables import csv as csv_module
from monocal.tables.roles import Roles
from monocal.tables.source import open_table
from monocal.tables.table import Table

ROLES = Roles(score="s", label="y", fields=["c"])
N = 400


def read_door(path, roles, folder):
    rows = Table.read(path, roles)
    column = rows.fields["c"]
    return rows.labels["y"].tolist(), rows.scores["y"].tolist(), column.decode(column.ids)


def prepared_door(path, roles, folder):
    log = encode_log(path, roles, folder / "prepared", min_count=1, shares={"train": 1.0}, fit_on="all")
    values = [None, *log.vocabulary["c"].values.to_pylist()]
    return log.labels["y"].tolist(), log.scores["y"].tolist(), [values[number] for number in log.features[:, 0]]


DOORS = {"read": read_door, "prepare": prepared_door}


@pytest.fixture(params=DOORS)
def door(request):
    return DOORS[request.param]


def file_of(folder, text, name="log.csv"):
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return str(path)


@pytest.mark.parametrize(
    ("labels", "meanings"),
    [(["0", "1", "NA", "", "null"], [0, 1, -1, -1, -1]), (["true", "False", "1.0", " 1"], [1, 0, 1, 1])],
)
def test_labels(door, labels, meanings, tmp_path):
    path = file_of(tmp_path, "s,y,c\n0.5,1,a\n0.5,0,a\n" + "".join(f"0.5,{label},a\n" for label in labels))
    assert door(path, ROLES, tmp_path)[0] == [1, 0, *meanings]


def test_scores(door, tmp_path):
    texts = ["0.1", " 0.1", "0.1 ", "1e-1", '"0.1"', "+0.1"]
    path = file_of(tmp_path, "s,y,c\n0.2,0,b\n" + "".join(f"{text},1,a\n" for text in texts))
    assert door(path, ROLES, tmp_path)[1] == [0.2] + [0.1] * 6


@pytest.mark.parametrize(
    ("line", "column", "expected"),
    [(f"0.2,{label},b", "'y'", "0, 1|0 or 1") for label in ("yes", "2", "0.5", "0x1", "1 1")]
    + [(f'"{score}",1,a', "'s'", "number|probability") for score in ("", "NA", "high", "0,1")],
)
def test_labels_and_scores_that_are_none(door, line, column, expected, tmp_path):
    path = file_of(tmp_path, f"s,y,c\n0.5,1,a\n{line}\n0.1,0,b\n")
    with pytest.raises(InvalidInput, match=expected) as caught:
        door(path, ROLES, tmp_path)
    for part in ("log.csv", "line 3", column):
        assert part in str(caught.value)


@pytest.mark.parametrize("block_bytes", [16, 1 << 24])
@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
def test_a_quoted_value_may_hold_line_breaks(door, block_bytes, name, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_module, "BLOCK_BYTES", block_bytes)
    path = file_of(tmp_path, 's,y,c\n0.5,1,"a\nb, ""c""\r\n"\n0.2,0,b\n0.4,0,"x\n\ny"\n', name)
    assert door(path, ROLES, tmp_path) == ([1, 0, 0], [0.5, 0.2, 0.4], ['a\nb, "c"\r\n', "b", "x\n\ny"])


@pytest.mark.parametrize("block_bytes", [16, 1 << 24])
@pytest.mark.parametrize(
    "bad", ['0.5,1,"a', '0.5,1,a"', '0.5,"1,a', '0.5,1,"a\nb"x', '0.5,1,"' + "a\n" * 200 + '"'], ids=range(5)
)
def test_an_open_quote_takes_no_other_line_with_it(door, bad, block_bytes, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_module, "BLOCK_BYTES", block_bytes)
    path = file_of(tmp_path, f"s,y,c\n0.1,0,b\n{bad}\n0.2,0,b\n0.4,1,b\n")
    with pytest.raises(InvalidInput, match=r"log\.csv, line 3: got a quote that is not closed"):
        door(path, ROLES, tmp_path)
    if bad.count("\n") < 2:
        with pytest.warns(MonocalWarning, match="left out"):
            log = encode_log(path, ROLES, tmp_path / "out", min_count=1, shares={"train": 1.0}, on_error="skip")
        assert log.scores["y"].tolist() == [0.1, 0.2, 0.4]


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["9", "10", "9"], ["9", "10", "9"]),
        (["9.0", "10.0", "9.0"], ["9", "10", "9"]),
        (["9.0", "", "10.0"], ["9", None, "10"]),
        (["9", "", "10"], ["9", None, "10"]),
        (["9", "9.0", "9.00"], ["9", "9", "9"]),
        (["07", "7", "7.0"], ["07", "7", "7"]),
        (["-3.0", "-3", "0.0"], ["-3", "-3", "0"]),
        (["9.0", "1.2.3", "9"], ["9.0", "1.2.3", "9"]),
        (["a", "", "NA"], ["a", "", "NA"]),
        (["1e3", "1a3", "9"], ["1e3", "1a3", "9"]),
        (["12345678901234567890", "9", "9"], ["12345678901234567890", "9", "9"]),
    ],
)
def test_categories(door, texts, values, tmp_path):
    path = file_of(tmp_path, "s,y,c\n" + "".join(f"0.5,{row % 2},{text}\n" for row, text in enumerate(texts)))
    assert door(path, ROLES, tmp_path)[2] == values


@pytest.mark.parametrize("block_bytes", [16, 1 << 24])
def test_what_a_column_holds_is_told_by_its_first_rows(door, block_bytes, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_module, "BLOCK_BYTES", block_bytes)
    path = file_of(tmp_path, "s,y,c\n0.5,0,9\n0.5,1,9\n0.5,1,9.0\n0.5,1,9.0\n0.5,0,9\n")
    assert door(path, ROLES, tmp_path)[2] == ["9"] * 5


def test_each_file_tells_by_itself(door, tmp_path):
    (tmp_path / "logs").mkdir()
    file_of(tmp_path / "logs", "s,y,c\n0.5,0,9\n0.5,1,10\n", "a.csv")
    file_of(tmp_path / "logs", "s,y,c\n0.5,0,9.0\n0.5,1,\n", "b.csv")
    assert door(str(tmp_path / "logs"), ROLES, tmp_path)[2] == ["9", "10", "9", None]


@pytest.mark.parametrize("value", ["9.5", "1e300"])
def test_fractions_are_no_categories(door, value, tmp_path):
    path = file_of(tmp_path, f"s,y,c\n0.5,1,9.0\n0.5,0,{value}\n")
    with pytest.raises(InvalidInput, match=r"field 'c': got .*line 3 of log\.csv.*under numeric"):
        door(path, ROLES, tmp_path)


def log_table():
    rng = np.random.default_rng(0)
    campaigns = rng.integers(9, 12, N)
    clicks = (rng.random(N) < np.where(campaigns == 9, 0.6, 0.1)).astype(int)
    return pa.table({"s": np.full(N, 0.3), "y": clicks, "c": campaigns, "day": np.sort(rng.integers(1, 3, N))})


def written(folder, table, kind):
    """The same log with the campaign as whole numbers, as floats, and as text."""
    kinds = {"integers": pa.int64(), "floats": pa.float64(), "texts": pa.string()}
    campaigns = table["c"].cast(kinds[kind.split(" ")[0]])
    table = table.set_column(2, "c", campaigns)
    path = folder / kind.replace(" ", "_")
    if kind.endswith("parquet"):
        pq.write_table(table, f"{path}.parquet")
        return f"{path}.parquet"
    if kind.endswith("hive"):
        form = ds.partitioning(pa.schema([("day", pa.int64())]), flavor="hive")
        ds.write_dataset(_as_pandas_writes(table), path, format="csv", partitioning=form)
        return str(path)
    pa_csv.write_csv(_as_pandas_writes(table), f"{path}.csv", pa_csv.WriteOptions(quoting_style="none"))
    return (folder / f"{path.name}.csv").as_uri() if kind.endswith("uri") else f"{path}.csv"


def _as_pandas_writes(table):
    if not pa.types.is_floating(table["c"].type):
        return table
    return table.set_column(2, "c", pa.array([f"{value:.1f}" for value in table["c"].to_pylist()]))


KINDS = [f"{kind} {form}" for kind in ("integers", "floats", "texts") for form in ("csv", "parquet", "hive", "uri")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_category_is_the_same_in_every_kind_of_log(kind, tmp_path):
    table = log_table()
    expected = monocal.fit(table, method="wide_logistic", score="s", label="y", fields=["c"])
    answers = np.sort(np.unique(expected.predict(table)))
    path = written(tmp_path, table, kind)
    assert np.array_equal(np.unique(expected.predict(path)), answers)
    again = monocal.fit(path, method="wide_logistic", score="s", label="y", fields=["c"])
    assert again.vocabulary.fingerprint == expected.vocabulary.fingerprint
    monocal.apply(expected, path, tmp_path / "out.parquet")
    assert np.array_equal(np.unique(pq.read_table(tmp_path / "out.parquet")["s_calibrated"].to_numpy()), answers)


@pytest.mark.parametrize("kind", ["texts hive", "texts uri"])
def test_leading_zeros_stay_in_every_place(kind, tmp_path):
    table = log_table()
    zeros = pa.array([f"0{value}" for value in table["c"].to_pylist()])
    path = written(tmp_path, table.set_column(2, "c", zeros), kind)
    (batch, *_) = open_table(path).batches(["c"], dictionary_columns=["c"])
    assert set(batch.column("c").to_pylist()) == {"09", "010", "011"}


def test_a_list_of_files_is_prepared(tmp_path):
    paths = [file_of(tmp_path, f"s,y,c\n0.5,{row},{row}.0\n", f"{row}.csv") for row in (0, 1)]
    assert prepared_door(paths, ROLES, tmp_path) == ([0, 1], [0.5, 0.5], ["0", "1"])
