import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from monocal.core.errors import InvalidInput, MonocalWarning, UnknownName
from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.lab.prepare.encoder import encode_log
from monocal.tables.roles import Roles

SCHEMA = Roles(tasks={"click": ("y", "s")}, fields=["site", "hour"], time="t", group="user", weight="w")


def _table(n_rows=200, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "y": rng.integers(0, 2, n_rows),
            "site": np.char.add("s", rng.integers(0, 12, n_rows).astype(str)),
            "hour": rng.integers(0, 24, n_rows),
            "t": np.arange(n_rows) * 10,
            "user": np.char.add("u", rng.integers(0, 9, n_rows).astype(str)),
            "w": rng.integers(1, 5, n_rows).astype(float),
            "s": rng.random(n_rows).round(6),
            "unused": rng.random(n_rows),
        }
    )


def _decoded(log, field):
    values = [None, *log.vocabulary[field].values.to_pylist()]
    return [values[i] for i in log.features[:, log.field_names.index(field)]]


def _write(table, form, folder):
    path = folder / f"log.{form}"
    if form == "parquet":
        pq.write_table(table, path, row_group_size=70)
    elif form == "csv":
        pa_csv.write_csv(table, path)
    elif form == "folder":
        path = folder / "parts"
        path.mkdir()
        pq.write_table(table[:90], path / "a.parquet")
        pq.write_table(table[90:], path / "b.parquet")
    else:
        return table
    return path


@pytest.mark.parametrize("form", ["memory", "parquet", "csv", "folder"])
def test_every_form_of_a_log_encodes_to_the_same_rows(form, tmp_path):
    table = _table()
    log = encode_log(_write(table, form, tmp_path), SCHEMA, tmp_path / "out", min_count=1, fit_on="all")
    assert _decoded(log, "site") == table["site"].to_pylist()
    assert _decoded(log, "hour") == [str(h) for h in table["hour"].to_pylist()]
    assert np.array_equal(log.labels["click"], table["y"])
    assert np.array_equal(log.times, table["t"])
    assert np.array_equal(log.weights, table["w"])
    assert np.allclose(log.scores["click"], table["s"].to_numpy(), rtol=1e-12)
    users = table["user"].to_pylist()
    first_seen = list(dict.fromkeys(users))
    assert log.groups.tolist() == [first_seen.index(user) for user in users]
    assert EncodedLog.open(tmp_path / "out", check_contents=True).fingerprint == log.fingerprint
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_values_are_counted_in_the_training_part_unless_told_otherwise(tmp_path):
    table = pa.table({"y": [0, 1, 0, 1, 0], "f": ["a", "b", "a", "c", "b"]})
    schema = Roles(label="y", fields=["f"])
    train = encode_log(table, schema, tmp_path / "train", min_count=1)
    everything = encode_log(table, schema, tmp_path / "all", min_count=1, fit_on="all")
    assert train.features[:, 0].tolist() == [1, 2, 1, 0, 2]
    assert everything.features[:, 0].tolist() == [1, 2, 1, 3, 2]
    assert train.parts["train"].n_rows == 3


def test_limits_and_hashing_reach_the_vocabulary(tmp_path):
    log = encode_log(
        _table(), SCHEMA, tmp_path / "out", min_count={"hour": 3}, max_size={"site": 2}, hashed_fields={"hour": 7}
    )
    assert log.field_sizes == (3, 8)
    assert set(log.features[:, 1].tolist()) <= set(range(1, 8))


@pytest.mark.parametrize("form", ["memory", "csv"])
@pytest.mark.parametrize("fit_on", ["train", "all"])
def test_an_unsorted_log_is_sorted_by_time_and_stably(form, fit_on, tmp_path):
    rng = np.random.default_rng(1)
    table = _table(300).set_column(3, "t", pa.array(rng.integers(0, 40, 300)))
    order = np.argsort(table["t"].to_numpy(), kind="stable")
    expected = encode_log(table.take(order), SCHEMA, tmp_path / "sorted", min_count=1, fit_on=fit_on)
    log = encode_log(_write(table, form, tmp_path), SCHEMA, tmp_path / "out", min_count=1, fit_on=fit_on)
    assert np.array_equal(log.times, np.sort(table["t"]))
    assert np.array_equal(log.features, expected.features)
    assert np.array_equal(log.weights, expected.weights)
    assert log.vocabulary.fingerprint == expected.vocabulary.fingerprint
    assert [len(set(pair)) for pair in (log.groups, expected.groups)] == [9, 9]


def test_parts_by_moments(tmp_path):
    cuts = {"calibration": 1000, "test": 1500}
    log = encode_log(_table(), SCHEMA, tmp_path / "out", cuts=cuts)
    assert {name: part.n_rows for name, part in log.parts.items()} == {"train": 100, "calibration": 50, "test": 50}
    assert log.part("calibration").times[0] == 1000
    with pytest.raises(InvalidInput, match=r"cuts: got .*; expected moments in order"):
        encode_log(_table(), SCHEMA, tmp_path / "b", cuts={"calibration": 1500, "test": 1000})
    with pytest.raises(InvalidInput, match="expected a schema with a time column"):
        encode_log({"y": [0, 1]}, Roles(label="y"), tmp_path / "c", cuts=cuts)


@pytest.mark.parametrize(
    ("times", "moments"),
    [
        (pa.array(["2014-10-21", "2014-10-22"]), [1413849600000000, 1413936000000000]),
        (pa.array(["2014-10-21 01:00:00", "2014-10-21T02:00:00"]), [1413853200000000, 1413856800000000]),
        (pa.array([1, 2], pa.date32()), [86400000000, 172800000000]),
        (pa.array([1, 2], pa.timestamp("s", tz="Europe/Berlin")), [1000000, 2000000]),
        (pa.array(["14102100", "14102101"]), [14102100, 14102101]),
        (pa.array([1.0, 2.0]), [1, 2]),
        (pa.array([1, 2], pa.uint32()), [1, 2]),
    ],
)
def test_times_of_every_type(times, moments, tmp_path):
    log = encode_log({"y": [0, 1], "t": times}, Roles(label="y", time="t"), tmp_path / "out")
    assert log.times.tolist() == moments


@pytest.mark.parametrize(
    "labels",
    [pa.array([0, 1, None]), pa.array([False, True, None]), pa.array(["0", "1", ""]), pa.array([0.0, 1.0, None])],
)
def test_labels_of_every_type_and_missing_ones(labels, tmp_path):
    log = encode_log({"y": labels, "f": [1, 2, 3]}, Roles(label="y", fields=["f"]), tmp_path / "out")
    assert log.labels["y"].tolist() == [0, 1, -1]


BAD_ROWS = [
    ("y", [0, 2, 1], "0, 1 or nothing in column 'y'", "2"),
    ("t", [1, None, 3], "a whole number, a date or a timestamp in column 't'", "None"),
    ("t", ["1", "soon", "3"], "a whole number, a date or a timestamp in column 't'", "'soon'"),
    ("w", [1.0, -2.0, 1.0], r"a weight from 0 to 1e\+12 in column 'w'", r"-2\.0"),
    ("w", ["1", "many", "2"], r"a weight from 0 to 1e\+12 in column 'w'", "'many'"),
    ("s", [0.1, 1.5, 0.2], r"a probability in \[0, 1\] in column 's'", r"1\.5"),
    ("r", [0.1, 0.0, 0.2], r"a sampling rate in \(0, 1\] in column 'r'", r"0\.0"),
]


@pytest.mark.parametrize(("column", "values", "expected", "shown"), BAD_ROWS)
def test_a_bad_value_is_refused_with_its_row_or_skipped(column, values, expected, shown, tmp_path):
    good = {"y": [0, 1, 0], "f": ["a", "b", "c"], "t": [1, 2, 3], "w": [1, 2, 3], "s": [0.1, 0.2, 0.3], "r": [1, 1, 1]}
    schema = Roles(label="y", fields=["f"], time="t", weight="w", score="s", sampling_rate="r")
    table = good | {column: values}
    with pytest.raises(InvalidInput, match=rf"the table, row 1: got {shown}; expected {expected}"):
        encode_log(table, schema, tmp_path / "out")
    with pytest.warns(MonocalWarning, match=r"left out 1 malformed rows and kept 2\. First: the table, row 1"):
        log = encode_log(table, schema, tmp_path / "out", on_error="skip", min_count=1, fit_on="all")
    assert _decoded(log, "f") == ["a", "c"]
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["made_from"]["skipped"]["n_rows"] == 1


def test_the_same_inputs_and_options_return_at_once(tmp_path, monkeypatch):
    path = _write(_table(), "parquet", tmp_path)
    first = encode_log(path, SCHEMA, tmp_path / "out")

    def forbidden(*args, **kwargs):
        raise AssertionError("the work was done again")

    monkeypatch.setattr("monocal.lab.prepare.encoder.encode_rows", forbidden)
    assert encode_log(path, SCHEMA, tmp_path / "out").fingerprint == first.fingerprint
    for changed in ({"min_count": 3}, {"fit_on": "all"}, {"shares": {"train": 1, "test": 1}}):
        with pytest.raises(AssertionError, match="done again"):
            encode_log(path, SCHEMA, tmp_path / "out", **changed)


def test_a_changed_file_or_table_is_noticed(tmp_path):
    schema = Roles(label="y", fields=["f"])
    first = encode_log({"y": [0, 1], "f": ["a", "b"]}, schema, tmp_path / "out", min_count=1, fit_on="all")
    again = encode_log({"y": [0, 1], "f": ["b", "a"]}, schema, tmp_path / "out", min_count=1, fit_on="all")
    assert _decoded(again, "f") == ["b", "a"]
    assert first.fingerprint != again.fingerprint


def test_wrong_arguments_are_named(tmp_path):
    with pytest.raises(UnknownName, match=r"fields: got 'hours'; .* did you mean 'hour'"):
        encode_log(_table(), Roles(label="y", fields=["hours"]), tmp_path / "out")
    with pytest.raises(InvalidInput, match="fit_on: got 'test'"):
        encode_log(_table(), SCHEMA, tmp_path / "out", fit_on="test")
    with pytest.raises(InvalidInput, match="on_error: got 'ignore'"):
        encode_log(_table(), SCHEMA, tmp_path / "out", on_error="ignore")
    with pytest.raises(UnknownName, match="hashed field: got 'sites'"):
        encode_log(_table(), SCHEMA, tmp_path / "out", hashed_fields={"sites": 5})
    with pytest.raises(InvalidInput, match="roles: got None"):
        encode_log(_table(), None, tmp_path / "out")
    with pytest.raises(InvalidInput, match="folder: got None"):
        encode_log(_table(), SCHEMA)
    with pytest.raises(InvalidInput, match="log: got no usable row"):
        encode_log(_table(0), SCHEMA, tmp_path / "out")
    with pytest.raises(InvalidInput, match="field 'unused': got .* in a column of type double"):
        encode_log(_table(), Roles(label="y", fields=["unused"]), tmp_path / "out")
