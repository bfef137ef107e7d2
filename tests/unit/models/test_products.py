"""Products that agree: the whole is the product of its parts to the last bit, and no worse than a fit of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import monocal
from monocal.core.errors import InvalidInput, UnknownName
from monocal.findings.build import build_report
from monocal.judging.judged_fit import fit_and_judge
from monocal.judging.product import Product
from monocal.models.model import Model
from monocal.report.page.learned_curves import learned_curves
from monocal.serving.engine.engine import Engine
from monocal.serving.engine.request import Request

TASKS = {"click": ("click", "pctr"), "long": ("long_view", "pcvr"), "both": ("long_view", "plv")}
PRODUCT = Product(("pctr", "pcvr"), "plv")
FIELDS = ["author_id", "tag"]


@pytest.fixture(scope="module")
def log() -> pa.Table:
    table = monocal.simulate_log(24_000, seed=2, world="multitask").table()
    given_click = (table["true_plv"].to_numpy() / table["true_p"].to_numpy()).clip(1e-6, 1.0 - 1e-6)
    noise = np.random.default_rng(0).normal(0.5, 0.3, table.num_rows)
    pcvr = 1.0 / (1.0 + np.exp(-(0.7 * np.log(given_click / (1.0 - given_click)) + noise)))  # a head of its own
    return table.append_column("pcvr", pa.array(pcvr))


@pytest.fixture(scope="module")
def model(log: pa.Table) -> Model:
    return monocal.fit(log.slice(0, 16_000), method="wide_logistic", tasks=TASKS, fields=FIELDS, products=[PRODUCT])


def test_the_identity_holds_to_the_last_bit_and_no_child_is_above_its_parent(model: Model, log: pa.Table) -> None:
    p = model.predict(log.slice(16_000))
    assert np.array_equal(p["both"], p["click"] * p["long"])
    assert np.all(p["both"] <= p["click"])
    assert np.array_equal(model.predict(log.slice(16_000), task="both"), p["both"])


def test_separate_fits_do_not_agree_and_are_not_better(model: Model, log: pa.Table) -> None:
    newer = log.slice(16_000)
    apart = monocal.fit(log.slice(0, 16_000), method="wide_logistic", tasks=TASKS, fields=FIELDS).predict(newer)
    assert np.abs(apart["both"] - apart["click"] * apart["long"]).max() > 1e-3
    truth, labels = newer["true_plv"].to_numpy(), newer["long_view"].to_numpy()
    kept = model.predict(newer)["both"]

    def excess(p: Any) -> float:
        return float(np.mean(truth * np.log(truth / p) + (1 - truth) * np.log((1 - truth) / (1 - p))))

    assert excess(kept) < excess(apart["both"]) + 1e-4
    assert kept.sum() / labels.sum() == pytest.approx(1.0, abs=0.1)


def test_a_later_part_learns_only_where_the_earlier_one_happened(model: Model, log: pa.Table) -> None:
    older = log.slice(0, 16_000)
    clicked = older.filter(pc.equal(older["click"], 1))
    alone = monocal.fit(clicked, method="wide_logistic", score="pcvr", label="long_view", fields=FIELDS)
    found, wanted = (fitted.predict(clicked, task=name) for fitted, name in ((model, "long"), (alone, "long_view")))
    # the vocabulary of all rows numbers values otherwise, so that sums are rounded otherwise
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    assert model.info["tasks"]["long"]["n_rows"] == clicked.num_rows


def test_saved_loaded_and_refreshed_models_keep_the_product(model: Model, log: pa.Table, tmp_path: Any) -> None:
    loaded = monocal.load(model.save(tmp_path / "model"))
    assert loaded.products == model.products == (Product(("click", "long"), "both"),)
    newer = log.slice(16_000)
    following = loaded.refresh(newer.slice(0, 4_000))
    p = following.predict(newer.slice(4_000))
    assert np.array_equal(p["both"], p["click"] * p["long"])
    assert not np.array_equal(p["both"], model.predict(newer.slice(4_000))["both"])
    assert "both: click × long" in model.describe()


def test_the_engine_answers_with_the_same_bits_and_names_a_missing_part(model: Model, log: pa.Table) -> None:
    rows = log.slice(20_000, 50).to_pydict()
    scores = {task: np.array(rows[column]) for task, (_, column) in TASKS.items()}
    request = Request(scores, fields={name: rows[name] for name in FIELDS})
    answer = Engine(model).calibrate(request)
    assert np.array_equal(answer.probabilities["both"], model.predict(log.slice(20_000, 50))["both"])
    del scores["click"]
    with pytest.raises(InvalidInput, match="scores: got 'both' without 'click'"):
        Engine(model).calibrate(request)


def test_a_judged_fit_repairs_only_if_asked(log: pa.Table) -> None:
    options: dict[str, Any] = {"method": "platt", "tasks": TASKS, "products": [PRODUCT], "n_bootstrap": 10}
    checked, repaired = (fit_and_judge(log.slice(0, 8_000), repair=asked, **options) for asked in (False, True))
    gaps = [
        next(product for product in run.products if product.stage == "calibrated").mean_gap
        for run in (checked, repaired)
    ]
    assert gaps[0] > 1e-3
    assert gaps[1] <= 1e-12


def test_products_that_cannot_be_kept_are_refused(log: pa.Table) -> None:
    few: dict[str, Any] = {"method": "platt", "tasks": TASKS}
    with pytest.raises(UnknownName, match="products: got 'pbuy'"):
        monocal.fit(log.slice(0, 500), products=[Product(("pctr", "pbuy"), "plv")], **few)
    with pytest.raises(InvalidInput, match="every whole once"):
        monocal.fit(log.slice(0, 500), products=[Product(("pctr", "pctr"), "plv")], **few)


def test_the_report_says_product_and_draws_no_curve_of_it(model: Model, log: pa.Table) -> None:
    data = build_report(model, log.slice(16_000, 3_000), fields=[], n_bootstrap=5, n_floor=2)
    both = data.task("both")
    assert (both.method, both.parts) == ("product", ("click", "long"))
    assert both.method_summary == "The product of click and long."
    assert both.order.monotone == "none"
    assert learned_curves(both, "x") == ""
    assert learned_curves(data.task("click"), "x") != ""
    assert data.task("long").weight == int((log["click"].to_numpy()[16_000:19_000] == 1).sum())


def test_a_threshold_on_the_whole_is_one_on_the_product(model: Model, log: pa.Table) -> None:
    newer = log.slice(16_000)
    found = model.threshold(newer, task="both", false_positive_rate=0.2).overall
    assert found is not None
    answered = model.predict(newer)["both"] >= found.value
    negatives = newer["long_view"].to_numpy() == 0
    assert 0.1 < answered[negatives].mean() <= 0.2
