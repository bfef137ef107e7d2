"""Logs that would be prepared wrongly without a word are refused, or warned about, as in a fit."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monocal.core.errors import InvalidInput, MonocalWarning
from monocal.lab.prepare.encoder import encode_log
from monocal.tables.roles import Roles

N = 400
RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 2, N)


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_text_with_and_without_a_zone_is_not_mixed(tmp_path, on_error, ending):
    times = ["2024-05-01T12:00:00"] * 9 + ["2024-05-01T12:00:00+02:00"]
    path = tmp_path / f"log.{ending}"
    if ending == "csv":
        path.write_text("y,t\n" + "".join(f"{index % 2},{time}\n" for index, time in enumerate(times)))
    else:
        pq.write_table(pa.table({"y": [0, 1] * 5, "t": times}), path, row_group_size=5)
    with pytest.raises(InvalidInput, match=r"time column 't'.*without a zone mixed with.*with a zone"):
        encode_log(str(path), Roles(label="y", time="t"), tmp_path / "out", on_error=on_error)


@pytest.mark.parametrize("cuts", [{"test": 0}, {"calibration": 50, "test": 10_000}])
def test_a_cut_that_leaves_a_part_without_rows_is_refused(tmp_path, cuts):
    table = {"y": LABELS, "t": np.arange(1, N + 1)}
    with pytest.raises(InvalidInput, match=r"cuts: got .* no rows for '(train|test)'.*between 1 and 400.*Hint"):
        encode_log(table, Roles(label="y", time="t"), tmp_path / "out", cuts=cuts)


def test_copies_of_the_label_large_weights_and_fractions_of_time(tmp_path):
    weights = np.where(np.arange(N) == 7, 1e13, 1.0)
    table = {"y": LABELS, "watched": np.where(LABELS, "long", "short"), "w": weights, "t": np.arange(N) + 0.5}
    with pytest.warns(MonocalWarning, match=r"'watched', which tells 'y'"):
        encode_log(table, Roles(label="y", fields=["watched"]), tmp_path / "out")
    with pytest.raises(InvalidInput, match=r"row 7.*expected a weight from 0 to 1e\+12"):
        encode_log(table, Roles(label="y", weight="w"), tmp_path / "out")
    with pytest.raises(InvalidInput, match=r"0\.5.*expected a whole number, a date or a timestamp"):
        encode_log(table, Roles(label="y", time="t"), tmp_path / "out")
    with pytest.raises(InvalidInput, match="one kind|whole number"):
        moments = [datetime.datetime(2024, 5, 1), datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)]
        encode_log({"y": [0, 1], "t": list(map(str, moments))}, Roles(label="y", time="t"), tmp_path / "out")
