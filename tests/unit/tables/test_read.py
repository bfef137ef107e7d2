"""One reader for every verb."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monocal.core.errors import InvalidInput, UnknownName
from monocal.tables.roles import Roles
from monocal.tables.table import Table
from monocal.tables.vocabulary import Vocabulary

ROLES = Roles.of(
    score="s", label="y", fields=["site", "hour"], weight="w", time="t", group="u", sampling_rate="r", slices=["x"]
)


def _columns(n=400, seed=0):
    rng = np.random.default_rng(seed)
    sites = np.array(["a", "b", "c", None], dtype=object)[rng.integers(0, 4, n)]
    return {
        "s": rng.random(n),
        "y": rng.integers(0, 2, n).astype(float),
        "site": sites.tolist(),
        "hour": rng.integers(0, 24, n),
        "w": rng.random(n),
        "t": rng.integers(0, 50, n),
        "u": rng.integers(0, 30, n).astype(str).tolist(),
        "r": np.full(n, 0.5),
        "x": rng.random(n).round(1),
        "unused": np.zeros(n),
    }


def test_every_column_comes_back_whatever_the_batches(monkeypatch):
    columns = _columns()
    monkeypatch.setattr("monocal.tables.source.TableStream.batches.__defaults__", (None, 7, ()))
    rows = Table.read(columns, ROLES)
    for name in ("site", "hour", "x"):
        column = rows.fields[name]
        assert column.decode(column.ids) == list(columns[name])
    assert rows.n_rows == 400
    assert np.array_equal(rows.labels["y"], columns["y"])
    assert np.array_equal(rows.scores["y"], columns["s"])
    assert np.array_equal(rows.rates, columns["r"])
    assert np.array_equal(rows.weights, columns["w"])
    same_group = np.array(columns["u"])[:, None] == np.array(columns["u"])[None, :]
    assert np.array_equal(rows.groups[:, None] == rows.groups[None, :], same_group)


def test_ids_are_given_by_first_row_from_memory_parquet_and_dictionaries(tmp_path):
    columns = _columns()
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=100)
    place = table.schema.get_field_index("site")
    reverse = pa.DictionaryArray.from_arrays(
        pa.array([None if value is None else "cba".index(value) for value in columns["site"]], pa.int8()),
        pa.array(["c", "b", "a"]),
    )
    coded = table.set_column(place, "site", reverse)
    found = [Table.read(table, ROLES) for table in (columns, str(tmp_path / "log.parquet"), coded)]
    for rows in found[1:]:
        for name in ("site", "hour"):
            assert np.array_equal(rows.fields[name].ids, found[0].fields[name].ids)
            assert rows.fields[name].values.to_pylist() == found[0].fields[name].values.to_pylist()
        assert np.array_equal(rows.groups, found[0].groups)


def test_a_vocabulary_of_rows_is_that_of_the_table():
    columns = _columns()
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    rows = Table.read(columns, ROLES)
    fields = {name: rows.fields[name] for name in ("site", "hour")}
    for options in ({}, {"min_count": 17}, {"max_size": 2}):
        expected = Vocabulary.of_table(table, ["site", "hour"], **options)
        assert Vocabulary.of_columns(fields, **options).fingerprint == expected.fingerprint
        assert np.array_equal(expected.encode_columns(fields, 400), expected.encode(table))


def test_time_order_is_stable_and_observed_rows_keep_everything_together():
    columns = _columns() | {"y": [None, *([0.0] * 398), 1.0]}
    rows = Table.read(columns, ROLES)
    ordered = rows.in_time_order()
    order = np.argsort(columns["t"], kind="stable")
    assert np.array_equal(ordered.times, columns["t"][order])
    assert np.array_equal(ordered.scores["y"], columns["s"][order])
    assert np.array_equal(ordered.rates, columns["r"][order])
    seen = rows.observed("y")
    assert seen.n_rows == 399
    assert np.array_equal(seen.weights, columns["w"][1:])


def test_windows_leave_rows_out():
    columns = _columns()
    rows = Table.read(columns, ROLES, since="10", until="20")
    chosen = (columns["t"] >= 10) & (columns["t"] < 20)
    assert np.array_equal(rows.scores["y"], columns["s"][chosen])
    with pytest.raises(InvalidInput, match="no rows"):
        Table.read(columns, ROLES, since="99")
    with pytest.raises(InvalidInput, match="name the time column"):
        Table.read(columns, Roles.of(score="s", label="y"), since="10")


def test_rows_are_counted_over_batches_in_errors(tmp_path):
    n = 140_000
    scores = pa.array(np.full(n, 0.5), mask=np.arange(n) == 135_000)
    pq.write_table(pa.table({"s": scores, "y": np.zeros(n)}), tmp_path / "log.parquet")
    with pytest.raises(InvalidInput, match="null at row 135000"):
        Table.read(str(tmp_path / "log.parquet"), Roles.of(score="s", label="y"))


def test_columns_that_do_not_fit_their_part_are_named():
    with pytest.raises(UnknownName, match="weight: got 'wt'"):
        Table.read({"s": [0.1], "y": [1], "w": [1.0]}, Roles.of(score="s", label="y", weight="wt"))
    with pytest.raises(InvalidInput, match="field 'f': got 0.5 in a column of type double.*numeric="):
        Table.read({"s": [0.1], "y": [1], "f": [0.5]}, Roles.of(score="s", label="y", fields=["f"]))


@pytest.mark.parametrize(
    "times", [[1.0, 2.0], ["1", "2.0"], [1, 2], pa.array([1, 2], pa.int16()), pa.array(["1", "2"]).dictionary_encode()]
)
def test_whole_times_are_times(times):
    assert Table.read({"s": [0.1, 0.2], "y": [1, 0], "t": times}, ROLES_WITH_TIME).times.tolist() == [1, 2]


ROLES_WITH_TIME = Roles.of(score="s", label="y", time="t")
NOON = datetime.datetime(2024, 5, 1, 12)


@pytest.mark.parametrize(
    "times",
    [
        ["2024-05-01T12:00:00", "2024-05-01T12:00:00+02:00"],
        ["2024-05-01 12:00:00Z", "2024-05-01"],
        ["2024-05-01T12:00:00", "1714564800"],
    ],
)
def test_text_with_and_without_a_zone_is_not_compared(times):
    with pytest.raises(InvalidInput, match="time column 't'.*mixed with.*one kind of time"):
        Table.read({"s": [0.1, 0.2], "y": [1, 0], "t": times}, ROLES_WITH_TIME)


def test_zones_are_respected():
    texts = ["2024-05-01T12:00:00+02:00", "2024-05-01T10:00:00.000000Z"]
    rows = Table.read({"s": [0.1, 0.2], "y": [1, 0], "t": texts}, ROLES_WITH_TIME)
    assert rows.times[0] == rows.times[1]
    assert rows.has_dates
