"""Numeric fields on the command line."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.lab.simulator import simulate_log


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    home = tmp_path_factory.mktemp("numbers")
    log = simulate_log(4_000, seed=5).table().select(["pctr", "click"])
    random = np.random.default_rng(0)
    price = pa.array(np.exp(random.normal(2.0, 1.0, 4_000)).round(3), mask=random.random(4_000) < 0.1)
    log = log.append_column("price", price).append_column("site", pa.array(random.integers(0, 4, 4_000)))
    pq.write_table(log, home / "log.parquet")
    pa_csv.write_csv(log, home / "log.csv")
    return home


def test_the_command_line_from_fit_to_report(place, monocal_command):
    def run(*words):
        ended = monocal_command(*words)
        assert ended.code == 0, ended.err
        return ended.out

    columns = ["--score", "pctr", "--label", "click", "--fields", "site", "--numeric", "price"]
    run("fit", place / "log.csv", *columns, "--method", "wide_logistic", "--out", place / "model")
    assert "numeric field: price (17 knots" in run("inspect", place / "model")
    run("apply", place / "model", place / "log.csv", "--out", place / "out.csv")
    from_csv = pa_csv.read_csv(place / "out.csv")["pctr_calibrated"].to_numpy()
    fitted = monocal.load(place / "model")
    assert np.array_equal(from_csv, fitted.predict(str(place / "log.parquet")))
    found = json.loads(run("evaluate", place / "model", place / "log.parquet", "--by", "price", "--json"))
    assert "below " in json.dumps(found)
