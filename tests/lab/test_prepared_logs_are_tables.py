"""A prepared and ranked log is fitted, judged, reported on and scored like the table it was made from."""

import numpy as np
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.core.errors import InvalidInput
from monocal.evaluation.table import evaluate_table
from monocal.lab.prepare.encoder import encode_log
from monocal.lab.rankers import HashedLogistic, rank_log
from monocal.lab.simulator import simulate_log
from monocal.reports.data import build_report
from monocal.tables.encoded import open_encoded, save_encoded
from monocal.tables.roles import Roles
from monocal.tables.source import open_table
from monocal.tables.table import Table

TABLE = simulate_log(6_000, seed=3).table()
ROLES = Roles(score="pctr", label="click", fields=["site_id", "device"], time="timestamp", group="user_id")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return encode_log(TABLE, ROLES, tmp_path_factory.mktemp("prepared") / "log")


@pytest.fixture(scope="module")
def ranked(prepared):
    folder = prepared.folder.with_name("ranked")
    rank_log(prepared, HashedLogistic(bits=10), folder)
    return folder


@pytest.fixture(scope="module")
def model(ranked):
    return monocal.fit(ranked, method="wide_logistic")


def test_it_is_fitted_and_judged(model, ranked):
    found = evaluate_table(ranked, model=model).tasks["click"]
    assert found.n_rows == 6_000
    log = open_encoded(ranked)
    answers = model.predict_ids(log.features, log.scores, log.rates)["click"]
    np.testing.assert_array_equal(found.forecast.probabilities, answers)


def test_its_rows_are_scored_and_reported_on(model, ranked, tmp_path):
    monocal.apply(model, ranked, tmp_path / "out.parquet")
    scored = pq.read_table(tmp_path / "out.parquet")
    np.testing.assert_array_equal(scored["click_logit_calibrated"].to_numpy(), model.predict(ranked))
    assert scored.num_rows == 6_000
    assert build_report(model, ranked, label="click", n_bootstrap=20, n_floor=5).tasks[0].name == "click"


def test_values_are_those_of_the_table_but_for_rare_ones(prepared):
    found = open_table(prepared.folder)
    assert found.n_rows == 6_000
    columns = {name: [] for name in ("site_id", "pctr", "click", "timestamp")}
    for batch in found.batches(list(columns), 1_000):
        for name, values in columns.items():
            values.extend(batch.column(name).to_pylist())
    for name in ("pctr", "click", "timestamp"):
        assert columns[name] == TABLE[name].to_pylist()
    sites = np.array([str(site) for site in TABLE["site_id"].to_pylist()])
    listed = np.array(columns["site_id"]) != "(not listed)"
    assert listed.mean() > 0.5
    assert (np.array(columns["site_id"])[listed] == sites[listed]).all()


def test_hashed_values_are_refused_by_name(tmp_path):
    encode_log(TABLE, ROLES, tmp_path / "log", hashed_fields={"site_id": 50})
    with pytest.raises(InvalidInput, match=r"column 'site_id': got hashed values.*Hint: hand over the table"):
        next(open_table(tmp_path / "log").batches(["site_id"]))
    assert next(open_table(tmp_path / "log").batches(["device"])).num_rows == 6_000


def test_numbers_come_back_as_the_steps_that_models_see(tmp_path):
    table = {"y": [0, 1, 0, 1], "p": [0.1, 0.2, 0.3, 0.4], "price": [1.0, 1.25, None, 2.0]}
    rows = Table.read(table, Roles(score="p", label="y", numeric=["price"])).encoded()
    save_encoded(rows, tmp_path / "log")
    (batch,) = open_table(tmp_path / "log").batches()
    assert batch.column("price").to_pylist() == table["price"]
