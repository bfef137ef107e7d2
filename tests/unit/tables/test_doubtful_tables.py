"""Tables that would be read wrongly without a word: each is refused, or warned about, with a hint."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.core.errors import InvalidInput, MonocalWarning
from monocal.lab.prepare.encoder import encode_log
from monocal.tables.categories import as_text
from monocal.tables.roles import Roles
from monocal.tables.source import open_table
from monocal.tables.table import Table
from monocal.tables.writer import write_table

N = 400
RNG = np.random.default_rng(0)
SCORES = RNG.random(N)
LABELS = (RNG.random(N) < SCORES).astype(int)


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
    ],
)
def test_a_field_that_changes_its_type_in_a_later_file_is_refused(tmp_path, first, second):
    folder = _shards(tmp_path, "site", [first, second])
    hint = r"column 'site'.*1\.parquet.*0\.parquet.*one type in all files.*Hint: cast it"
    with pytest.raises(InvalidInput, match=hint):
        monocal.fit(folder, method="platt", score="s", label="y", fields=["site"])
    with pytest.raises(InvalidInput, match=hint):
        encode_log(folder, Roles("y", ["site"]), tmp_path / "out")


def test_widths_of_one_type_may_differ_and_so_may_columns_that_play_no_part(tmp_path):
    folder = _shards(tmp_path, "site", [pa.array([7, 8], pa.int32()), pa.array([8, 9], pa.int64())])
    rows = Table.read(folder, Roles.of(score="s", label="y", fields=["site"]))
    assert rows.fields["site"].decode(rows.fields["site"].ids) == [7, 8, 8, 9]
    _shards(tmp_path, "note", [pa.array([7, 8]), pa.array(["a", "b"])])
    assert Table.read(folder, Roles.of(score="s", label="y")).n_rows == 4


def test_labels_may_be_booleans_in_one_file_and_integers_in_another(tmp_path):
    folder = _shards(tmp_path, "z", [pa.array([0, 1]), pa.array([True, False])])
    assert Table.read(folder, Roles.of(score="s", label="z")).labels["z"].tolist() == [0, 1, 1, 0]


def test_files_with_and_without_a_zone_are_not_mixed(tmp_path):
    noon = pa.array([datetime.datetime(2024, 5, 1, 12)] * 2)
    folder = _shards(tmp_path, "t", [noon, noon.cast(pa.timestamp("us", "Europe/Berlin"))])
    with pytest.raises(InvalidInput, match=r"column 't'.*one type in all files"):
        monocal.fit(folder, method="platt", score="s", label="y", time="t")


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_text_with_and_without_a_zone_is_not_mixed_when_a_log_is_prepared(tmp_path, on_error, ending):
    times = ["2024-05-01T12:00:00"] * 9 + ["2024-05-01T12:00:00+02:00"]
    path = tmp_path / f"log.{ending}"
    if ending == "csv":
        path.write_text("y,t\n" + "".join(f"{index % 2},{time}\n" for index, time in enumerate(times)))
    else:
        pq.write_table(pa.table({"y": [0, 1] * 5, "t": times}), path, row_group_size=5)
    with pytest.raises(InvalidInput, match=r"time column 't'.*without a zone mixed with.*with a zone"):
        encode_log(str(path), Roles("y", time="t"), tmp_path / "out", on_error=on_error)


def test_text_that_is_no_time_is_told_by_its_row():
    with pytest.raises(InvalidInput, match="time column 't': got soon at row 1"):
        Table.read({"s": [0.1, 0.2], "y": [1, 0], "t": ["1", "soon"]}, Roles.of(score="s", label="y", time="t"))


def test_moments_with_and_without_a_zone_are_not_mixed_in_memory():
    zone = datetime.timezone(datetime.timedelta(hours=2))
    times = [datetime.datetime(2024, 5, 1, 12), datetime.datetime(2024, 5, 1, 12, tzinfo=zone)]
    with pytest.raises(InvalidInput, match=r"column 't'.*with and without a zone.*Hint"):
        open_table({"s": [0.1, 0.2], "t": times})


def test_a_column_twice_is_refused(tmp_path):
    (tmp_path / "log.csv").write_text("s,y,s\n0.1,1,0.9\n0.2,0,0.8\n")
    table = pa.table([[0.1], [1], [0.9]], names=["s", "y", "s"])
    pq.write_table(table, tmp_path / "log.parquet")
    for log in (str(tmp_path / "log.csv"), str(tmp_path / "log.parquet"), table):
        with pytest.raises(InvalidInput, match=r"column 's' twice.*Hint: rename"):
            monocal.fit(log, method="platt", score="s", label="y")


def test_damaged_pages_are_noticed(tmp_path):
    path = tmp_path / "log.parquet"
    table = pa.table({"s": SCORES, "y": LABELS})
    pq.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    whole = bytearray(path.read_bytes())
    place = whole.index(SCORES[200:204].tobytes())
    whole[place + 3] ^= 1
    path.write_bytes(bytes(whole))
    with pytest.raises(InvalidInput, match=r"log\.parquet.*CRC.*Hint"):
        list(open_table(path).batches(["s"]))


def test_what_is_written_has_page_checksums(tmp_path):
    path = tmp_path / "out.parquet"
    batch = pa.record_batch({"s": SCORES})
    with write_table(path, batch.schema) as writer:
        writer.write_batch(batch)
    whole = bytearray(path.read_bytes())
    whole[1500] ^= 1  # inside the only page
    path.write_bytes(bytes(whole))
    with pytest.raises(InvalidInput, match="CRC"):
        list(open_table(path).batches(["s"]))


@pytest.mark.parametrize("cuts", [{"test": 0}, {"calibration": 50, "test": 10_000}])
def test_a_cut_that_leaves_a_part_without_rows_is_refused(tmp_path, cuts):
    table = {"y": LABELS, "t": np.arange(1, N + 1)}
    with pytest.raises(InvalidInput, match=r"cuts: got .* no rows for '(train|test)'.*between 1 and 400.*Hint"):
        encode_log(table, Roles("y", time="t"), tmp_path / "out", cuts=cuts)


def test_a_field_that_copies_the_label_is_warned_about(tmp_path):
    table = {"s": SCORES, "y": LABELS, "site": RNG.integers(0, 5, N), "watched": np.where(LABELS, "long", "short")}
    with pytest.warns(MonocalWarning, match=r"fields: got 'watched', which tells 'y'.*name fields= without it"):
        monocal.fit(table, method="platt", score="s", label="y", fields=["site", "watched"])
    with pytest.warns(MonocalWarning, match=r"'watched', which tells 'y'"):
        encode_log(table, Roles("y", ["site", "watched"]), tmp_path / "out")
    monocal.fit(table, method="platt", score="s", label="y", fields=["site"])


def test_a_value_that_always_has_one_outcome_is_warned_about_when_named_by_hand():
    """One click in thirteen is followed up, so the field explains little of all clicks."""
    random = np.random.default_rng(11)
    scores = random.uniform(0.2, 0.8, 14_000)
    labels = (random.random(14_000) < scores).astype(int)
    followed = np.where((labels == 1) & (random.random(14_000) < 0.08), "yes", "no")
    table = {"s": scores, "y": labels, "followed": followed, "site": random.integers(0, 5, 14_000)}
    columns = {"method": "platt", "score": "s", "label": "y"}
    with pytest.warns(MonocalWarning, match=r"'followed', which tells 'y': always 1 where it is 'yes' \(\d+ rows\)"):
        monocal.fit(table, **columns, fields=["site", "followed"])
    monocal.fit(table, **columns, fields=["site"])


def test_a_field_that_leaks_or_names_rows_is_warned_about_when_named_by_hand():
    n = 2_000
    scores = RNG.random(n)
    labels = (RNG.random(n) < scores).astype(int)
    # known for four fifths of the rows after the fact
    watched = np.where(RNG.random(n) < 0.8, np.where(labels, "long", "short"), "unknown")
    table = {"s": scores, "y": labels, "request": np.arange(n), "watched": watched, "site": RNG.integers(0, 5, n)}
    columns = {"method": "platt", "score": "s", "label": "y"}
    with pytest.warns(MonocalWarning, match=r"'watched', which tells 'y': it explains \d\d % of it.*after the outcome"):
        monocal.fit(table, **columns, fields=["site", "watched"])
    with pytest.warns(
        MonocalWarning,
        match=r"'request', which names rows: 2,000 values in 2,000 rows. Hint: name fields=",
    ):
        monocal.fit(table, **columns, fields=["site", "request"])
    monocal.fit(table, **columns, fields=["site"])


@pytest.mark.parametrize("largest", [1e308, 1e13])
def test_weights_that_would_overflow_are_refused(tmp_path, largest):
    weights = np.ones(N)
    weights[7] = largest
    table = {"s": SCORES, "y": LABELS, "w": weights}
    for method in ("platt", "isotonic", "histogram"):
        with pytest.raises(InvalidInput, match=r"weights: got 1e\+\d+ at row 7; expected numbers from 0 to 1e\+12"):
            monocal.fit(table, method=method, score="s", label="y", weight="w")
    with pytest.raises(InvalidInput, match=r"weights: got 1e\+\d+ at row 7"):
        monocal.evaluate(LABELS, SCORES, weights=weights)
    with pytest.raises(InvalidInput, match=r"row 7.*expected a weight from 0 to 1e\+12"):
        encode_log(table, Roles("y", weight="w"), tmp_path / "out")


MOMENT = datetime.datetime(2024, 5, 1, 12, 30)


def test_one_moment_has_one_text_in_any_unit_and_zone():
    naive = pa.array([MOMENT])
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "UTC", "Europe/Berlin"):
            assert as_text(naive.cast(pa.timestamp(unit, zone)), "t").to_pylist() == ["2024-05-01 12:30:00.000000"]


def test_a_model_fitted_on_milliseconds_knows_zoned_microseconds():
    hours = pa.array([MOMENT.replace(hour=hour) for hour in RNG.integers(0, 3, N).tolist()], pa.timestamp("ms"))
    table = {"s": SCORES, "y": LABELS, "hour": hours}
    model = monocal.fit(table, method="per_segment", score="s", label="y", fields=["hour"])
    other = {**table, "hour": hours.cast(pa.timestamp("us", "UTC"))}
    assert (model.vocabulary.encode(pa.table(other)) > 0).all()
    assert np.array_equal(model.predict(table), model.predict(other))


def test_integers_in_the_form_of_decimals_are_categories():
    column = pa.array([7, 8]).cast(pa.decimal128(20, 0))
    assert as_text(column, "site").to_pylist() == ["7", "8"]


@pytest.mark.parametrize("verb", ["fit", "prepare"])
def test_fractional_times_are_refused_by_every_verb(tmp_path, verb):
    table = {"s": SCORES, "y": LABELS, "t": np.arange(N) + 0.5}
    with pytest.raises(InvalidInput, match=r"0\.5.*expected a whole number, a date or a timestamp"):
        if verb == "fit":
            monocal.fit(table, method="platt", score="s", label="y", time="t")
        else:
            encode_log(table, Roles("y", time="t"), tmp_path / "out")
