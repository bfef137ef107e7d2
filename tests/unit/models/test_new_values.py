"""Fields above others: what new and rare values take from them, and what a model knows about how often it saw them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import monocal
from monocal.evaluation.table import evaluate_table
from monocal.models.model import Model

SHIFTS = {"cars": 1.5, "toys": -1.5}
ROLES: dict[str, Any] = {"score": "pctr", "label": "click"}


def _log(n_rows: int, seed: int, *, first_ad: int = 0) -> dict[str, Any]:
    """Ads of two categories, whose shift every ad shares but for a small deviation of its own."""
    random = np.random.default_rng(seed)
    ad = first_ad + (random.pareto(1.0, n_rows) * 8).astype(int) % 400
    category = np.where(ad % 2 == 0, "cars", "toys")
    z = random.normal(-2.0, 0.8, n_rows)
    own = 0.3 * np.sin(ad * 12.9898)
    truth = 1 / (1 + np.exp(-(z + own + np.where(ad % 2 == 0, SHIFTS["cars"], SHIFTS["toys"]))))
    return {
        "pctr": 1 / (1 + np.exp(-z)),
        "click": (random.random(n_rows) < truth).astype(int),
        "ad": [f"ad {number}" for number in ad],
        "category": category.tolist(),
    }


@pytest.fixture(scope="module")
def older() -> dict[str, Any]:
    return _log(12_000, 0)


@pytest.fixture(scope="module")
def model(older: dict[str, Any]) -> Model:
    return monocal.fit(older, method=monocal.WideLogistic(l2="auto"), fields=["ad", "category"], **ROLES)


def _one(ad: str, category: str) -> dict[str, Any]:
    return {"pctr": [0.1], "ad": [ad], "category": [category]}


def test_an_unseen_value_takes_exactly_the_shift_of_its_parent(model: Model) -> None:
    fitted = model.task().calibrator
    learned = fitted.shifts_[fitted.offsets_[1] + 1 :]
    shifts = dict(zip(model.vocabulary["category"].values.to_pylist(), learned, strict=True))
    for category in SHIFTS:
        z = np.log(0.1 / 0.9)
        expected = 1 / (1 + np.exp(-(fitted.slope_ * z + fitted.intercept_ + shifts[category])))
        assert model.predict(_one("never seen", category))[0] == pytest.approx(expected, rel=1e-12)
    assert shifts["cars"] - shifts["toys"] == pytest.approx(3.0, abs=0.4)


def test_parents_lower_the_loss_where_values_are_new(older: dict[str, Any], model: Model) -> None:
    alone = monocal.fit(older, method=monocal.WideLogistic(l2="auto"), fields=["ad"], **ROLES)
    later = _log(6_000, 1, first_ad=1000)  # no ad of the fit
    with_parent, without = (
        evaluate_table(later, model=each, metrics=["log_loss", "pcoc"], n_bootstrap=10).tasks["click"]
        for each in (model, alone)
    )
    (never,) = with_parent.times_seen["ad"]
    assert (never.title, never.n_rows) == ("never", 6_000)
    assert never.log_loss["after"] < without.times_seen["ad"][0].log_loss["after"] - 0.05
    assert abs(never.pcoc["after"] - 1.0) < 0.1
    assert never.log_loss["after"] == pytest.approx(with_parent.value("log_loss"), rel=1e-9)


def test_counts_are_saved_and_grow_with_a_refresh(model: Model, older: dict[str, Any], tmp_path: Any) -> None:
    names, counts = np.unique(older["ad"], return_counts=True)
    ids = model.vocabulary["ad"].encode(pa.array(names))
    assert model.value_counts[0][ids].tolist() == counts.tolist()
    loaded = monocal.load(model.save(tmp_path / "model"))
    assert [counts.tolist() for counts in loaded.value_counts] == [counts.tolist() for counts in model.value_counts]
    following = loaded.refresh(_log(2_000, 3, first_ad=390))
    assert int(following.value_counts[0].sum()) == 14_000
    assert following.value_counts[0].size == following.vocabulary["ad"].size > model.vocabulary["ad"].size


def test_bands_hold_every_row_once_and_are_in_the_json_of_evaluate(model: Model) -> None:
    found = evaluate_table(_log(3_000, 2), model=model, metrics=["log_loss"], n_bootstrap=10)
    plain = json.loads(json.dumps(found.as_dict()))["tasks"]["click"]["new_and_rare_values"]["ad"]
    assert sum(band["n_rows"] for band in plain) == 3_000
    assert [band["least"] for band in plain] == [0, 1, 10, 100, 1000]
