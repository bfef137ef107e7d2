"""Rows by role: read once, checked for their part, in time order, with soft labels cut, held out."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import monocal
from monocal.core.errors import InvalidInput
from monocal.tables.columns import moment_of
from monocal.tables.roles import Roles
from monocal.tables.split import hold_out_recent, keep_values_of
from monocal.tables.table import Table
from monocal.tables.vocabulary import Vocabulary

ROLES = Roles(
    score="s", label="y", fields=["site", "hour"], weight="w", time="t", group="u", sampling_rate="r", slices=["x"]
)
WITH_TIME = Roles(score="s", label="y", time="t")
RNG = np.random.default_rng(0)
N = 400
COLUMNS = {
    "s": RNG.random(N),
    "y": RNG.integers(0, 2, N).astype(float),
    "site": np.array(["a", "b", "c", None], dtype=object)[RNG.integers(0, 4, N)].tolist(),
    "hour": RNG.integers(0, 24, N),
    "w": RNG.random(N),
    "t": RNG.integers(0, 50, N),
    "u": RNG.integers(0, 30, N).astype(str).tolist(),
    "r": np.full(N, 0.5),
    "x": RNG.random(N).round(1),
    "unused": np.zeros(N),
}


def test_every_column_is_read_whatever_the_batches(monkeypatch):
    monkeypatch.setattr("monocal.tables.source.TableStream.placed_batches.__defaults__", (None, 7, ()))
    rows = Table.read(COLUMNS, ROLES)
    for name in ("site", "hour", "x"):
        column = rows.fields[name]
        assert column.decode(column.ids) == list(COLUMNS[name])
    for found, name in ((rows.labels["y"], "y"), (rows.scores["y"], "s"), (rows.rates, "r"), (rows.weights, "w")):
        assert np.array_equal(found, COLUMNS[name])
    same_group = np.array(COLUMNS["u"])[:, None] == np.array(COLUMNS["u"])[None, :]
    assert np.array_equal(rows.groups[:, None] == rows.groups[None, :], same_group)


def test_ids_are_given_by_first_row_from_memory_parquet_and_dictionaries(tmp_path):
    table = pa.table({name: pa.array(values) for name, values in COLUMNS.items()})
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=100)
    codes = pa.array([None if value is None else "cba".index(value) for value in COLUMNS["site"]], pa.int8())
    coded = table.set_column(2, "site", pa.DictionaryArray.from_arrays(codes, pa.array(["c", "b", "a"])))
    found = [Table.read(table, ROLES) for table in (COLUMNS, str(tmp_path / "log.parquet"), coded)]
    for rows in found[1:]:
        assert np.array_equal(rows.groups, found[0].groups)
        for name in ("site", "hour"):
            assert np.array_equal(rows.fields[name].ids, found[0].fields[name].ids)
            assert rows.fields[name].values.to_pylist() == found[0].fields[name].values.to_pylist()
    fields = {name: found[0].fields[name] for name in ("site", "hour")}
    for options in ({}, {"min_count": 17}, {"max_size": 2}):
        expected = Vocabulary.of_table(table, ["site", "hour"], **options)
        assert Vocabulary.of_columns(fields, **options).fingerprint == expected.fingerprint
        assert np.array_equal(expected.encode_columns(fields, N), expected.encode(table))


def test_time_order_is_stable_and_observed_rows_keep_everything_together():
    rows = Table.read(COLUMNS | {"y": [None, *([0.0] * (N - 2)), 1.0]}, ROLES).encoded()
    order = np.argsort(COLUMNS["t"], kind="stable")
    for found, chosen in ((rows.in_time_order(), order), (rows.observed("y"), np.arange(1, N))):
        assert np.array_equal(found.times, COLUMNS["t"][chosen])
        assert np.array_equal(found.scores["y"], COLUMNS["s"][chosen])
        assert np.array_equal(found.features, rows.features[chosen])


def test_windows_leave_rows_out():
    rows = Table.read(COLUMNS, ROLES, since="10", until="20")
    assert np.array_equal(rows.scores["y"], COLUMNS["s"][(COLUMNS["t"] >= 10) & (COLUMNS["t"] < 20)])
    with pytest.raises(InvalidInput, match="no rows"):
        Table.read(COLUMNS, ROLES, since="99")
    with pytest.raises(InvalidInput, match="name the time column"):
        Table.read(COLUMNS, Roles(score="s", label="y"), since="10")
    hour = 3_600_000_000
    for text, kind, expected in [
        ("1970-01-01", pa.date32(), 0),
        ("1970-01-01 01:00:00", pa.string(), hour),
        ("1970-01-01T01:00+01:00", pa.timestamp("us", tz="Europe/Paris"), 0),
        ("1969-12-31T23:00", pa.timestamp("ms"), -hour),
        ("17.0", pa.int64(), 17),
        ("1e3", pa.float64(), 1000),
    ]:
        assert moment_of(text, kind) == expected
    with pytest.raises(InvalidInput, match="until: got 'soon'; expected a date or time. Hint: write 2024-05-01"):
        moment_of("soon", pa.timestamp("s"), "until")


def test_rows_are_counted_over_batches_in_errors(tmp_path):
    n = 140_000
    scores = pa.array(np.full(n, 0.5), mask=np.arange(n) == 135_000)
    pq.write_table(pa.table({"s": scores, "y": np.zeros(n)}), tmp_path / "log.parquet")
    with pytest.raises(InvalidInput, match="null at row 135000"):
        Table.read(str(tmp_path / "log.parquet"), Roles(score="s", label="y"))


@pytest.mark.parametrize(
    "times", [[1.0, 2.0], ["1", "2.0"], [1, 2], pa.array([1, 2], pa.int16()), pa.array(["1", "2"]).dictionary_encode()]
)
def test_whole_times_are_times(times):
    assert Table.read({"s": [0.1, 0.2], "y": [1, 0], "t": times}, WITH_TIME).times.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["2024-05-01T12:00:00", "2024-05-01T12:00:00+02:00"], "mixed with.*one kind of time"),
        (["2024-05-01 12:00:00Z", "2024-05-01"], "mixed with.*one kind of time"),
        (["2024-05-01T12:00:00", "1714564800"], "mixed with.*one kind of time"),
        (["1", "soon"], "got soon at row 1"),
        ([0.5, 1.5], r"0\.5.*expected a whole number, a date or a timestamp"),
    ],
)
def test_times_that_cannot_be_compared_are_refused(times, message):
    with pytest.raises(InvalidInput, match=f"time column 't'.*{message}"):
        Table.read({"s": [0.1, 0.2], "y": [1, 0], "t": times}, WITH_TIME)


def test_zones_are_respected():
    texts = ["2024-05-01T12:00:00+02:00", "2024-05-01T10:00:00.000000Z"]
    rows = Table.read({"s": [0.1, 0.2], "y": [1, 0], "t": texts}, WITH_TIME)
    assert rows.times[0] == rows.times[1]
    assert rows.has_dates
    zone = datetime.timezone(datetime.timedelta(hours=2))
    mixed = [datetime.datetime(2024, 5, 1, 12), datetime.datetime(2024, 5, 1, 12, tzinfo=zone)]
    with pytest.raises(InvalidInput, match=r"column 't'.*with and without a zone.*Hint"):
        Table.read({"s": [0.1, 0.2], "y": [1, 0], "t": mixed}, WITH_TIME)


def test_several_tasks_share_one_cut_and_keep_every_mean():
    """A child with the smaller label is positive only where its parent is; an unknown label stays unknown."""
    labels = {"view": [0.8, 1.0, 0.5], "buy": [0.3, 0.25, None], "p": [0.1, 0.2, 0.3], "w": [1.0, 2.0, 1.0]}
    roles = Roles(tasks={"view": ("view", "p"), "buy": ("buy", "p")}, weight="w", soft_labels=True)
    rows = Table.read(labels, roles)
    view, buy, weight, unit = rows.labels["view"], rows.labels["buy"], rows.weights, rows.units
    for row, (q, weighs) in enumerate([(0.8, 1.0), (1.0, 2.0), (0.5, 1.0)]):
        here = unit == row
        assert weight[here].sum() == pytest.approx(weighs)
        assert weight[here & (view == 1)].sum() == pytest.approx(q * weighs)
    assert weight[(unit == 1) & (buy == 1)].sum() == pytest.approx(0.5)
    assert (view[buy == 1] == 1).all()
    assert (buy[unit == 2] == -1).all()
    assert rows.n_table_rows == 3
    with pytest.raises(InvalidInput, match=r"1\.5 at row 1"):
        Table.read({"y": [0.5, 1.5], "p": [0.1, 0.1]}, Roles(score="p", label="y", soft_labels=True))


def test_the_pieces_of_a_row_are_never_torn_apart():
    """Without a time column the cut falls between rows of the table."""
    log = monocal.simulate_log(600, seed=1, world="affine")
    soft = np.where(np.arange(600) % 2 == 0, log.true_probabilities, log.labels)
    table = log.table().append_column("expected", pa.array(soft))
    for n in (511, 512, 513):
        roles = {"score": "pctr", "label": "expected", "soft_labels": True}
        found = monocal.compare(table.slice(0, n), methods=["platt"], n_bootstrap=5, **roles)
        assert found.holdout.n_fit + found.holdout.n_test == n
        assert found.best.evaluation.n_rows == found.holdout.n_test


@settings(deadline=None)
@given(times=st.lists(st.integers(0, 6), min_size=2, max_size=40), share=st.floats(0.05, 0.9))
def test_rows_of_one_moment_are_never_torn_apart(times, share):
    ordered = np.array(sorted(times))
    cut = hold_out_recent(len(times), share, times=ordered)
    assert min(cut.n_fit, cut.n_test) >= 1
    assert cut.n_fit + cut.n_test == len(times)
    if len(set(times)) > 1:
        assert ordered[cut.n_fit - 1] < ordered[cut.n_fit]


def test_a_split_is_explained_or_refused():
    moments = np.array(["2024-05-01T10", "2024-05-02T11", "2024-05-03T12"], dtype="datetime64[us]").view(np.int64)
    found = hold_out_recent(3, 0.34, times=moments, time_column="ts", is_clock=True).explanation
    assert found == (
        "split by time: fitted on 2 rows with ts 2024-05-01 10:00:00 to 2024-05-02 11:00:00, "
        "held out the 1 rows from 2024-05-03 12:00:00 on"
    )
    assert "split by row order, taken as time order" in hold_out_recent(10).explanation
    for share in (0.0, 1.0):
        with pytest.raises(InvalidInput, match=rf"holdout: got {share}; expected a share in \(0, 1\)"):
            hold_out_recent(10, share)
    with pytest.raises(InvalidInput, match="expected rows to fit and rows to judge"):
        hold_out_recent(1, 0.5)


@settings(max_examples=40, deadline=None)
@given(
    sites=st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=2, max_size=30),
    min_count=st.integers(1, 3),
    max_size=st.none() | st.integers(1, 3),
    data=st.data(),
)
def test_known_values_are_those_of_the_fitting_rows_alone(sites, min_count, max_size, data):
    cut, n = data.draw(st.integers(1, len(sites))), len(sites)
    column = pa.array(sites, pa.string())
    table = pa.table({"y": np.arange(n) % 2, "p": np.full(n, 0.1), "site": column})
    rows = Table.read(table, Roles(score="p", label="y", fields=["site"])).encoded()
    found = keep_values_of(rows, 0, cut, min_count=min_count, max_size=max_size)
    expected = Vocabulary.of_table(table.slice(0, cut), ["site"], min_count=min_count, max_size=max_size)
    known = found.vocabulary["site"].values.to_pylist()
    assert set(known) <= set(sites[:cut])
    assert max_size is not None or set(known) == set(expected["site"].values.to_pylist())
    assert found.vocabulary.encode(table).tolist() == found.features.tolist()
