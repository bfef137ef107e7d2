"""Order inside a list: no two items of one list ever swap, and what would let them is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import monocal
from monocal.core.errors import InvalidInput
from monocal.judging.judged_fit import fit_and_judge
from monocal.models.model import Model
from monocal.serving.engine.engine import Engine
from monocal.serving.engine.request import Request

N_LISTS, N_ITEMS = 400, 12
FIELDS = ["page", "country"]


def make_lists(seed: int = 0) -> dict[str, Any]:
    """Lists on three pages whose scores are too steep, right, or too flat; items of one list have distinct scores."""
    random = np.random.default_rng(seed)
    page, country = np.repeat(random.integers(0, 3, (2, N_LISTS)), N_ITEMS, axis=1)
    z = random.normal(-1.0, 1.5, N_LISTS * N_ITEMS)
    truth = 1 / (1 + np.exp(-(np.array([0.4, 1.0, 1.6])[page] * z + 0.4 * country)))
    return {
        "logit": z,
        "click": (random.random(z.size) < truth).astype(int),
        "query_id": [f"q{number}" for number in np.repeat(np.arange(N_LISTS), N_ITEMS)],
        "page": [f"page {number}" for number in page],
        "country": [f"country {number}" for number in country],
        "item": [f"item {number}" for number in random.integers(0, 30, z.size)],
    }


def fit_lists(log: dict[str, Any], method: str, **arguments: Any) -> Model:
    return monocal.fit(
        log, method=method, score="logit", label="click", scores_are="logit", keep_order_within="query_id", **arguments
    )


def n_swaps_and_ties(scores: Any, probabilities: Any) -> tuple[int, int]:
    """Neighbours inside lists whose probabilities fall, and such with different scores that are equal."""
    z, p = (np.reshape(column, (-1, N_ITEMS)) for column in (scores, probabilities))
    steps = np.diff(np.take_along_axis(p, np.argsort(z, axis=1), axis=1), axis=1)
    return int((steps < 0.0).sum()), int((steps == 0.0).sum())


@pytest.fixture(scope="module")
def lists() -> dict[str, Any]:
    return make_lists()


@pytest.fixture(scope="module", params=["platt", "wide_logistic", "mlplatt"])
def model(request: Any, lists: dict[str, Any]) -> Model:
    return fit_lists(lists, request.param, fields=FIELDS)


def test_kendall_s_tau_is_1_in_every_list(model: Model) -> None:
    fresh = make_lists(seed=1)
    assert n_swaps_and_ties(fresh["logit"], model.predict(fresh)) == (0, 0)
    assert model.info["keep_order_within"] == "query_id"


def test_neighbouring_numbers_may_tie_but_never_swap(model: Model) -> None:
    chain = [np.float64(-1.0)]
    for _ in range(N_ITEMS - 1):
        chain.append(np.nextafter(chain[-1], np.inf))
    rows = {"logit": chain, "page": ["page 0"] * N_ITEMS, "country": ["country 1"] * N_ITEMS}
    assert n_swaps_and_ties(chain, model.predict(rows))[0] == 0


def test_the_engine_keeps_the_order_of_a_request(model: Model) -> None:
    fresh = make_lists(seed=2)
    engine = Engine(model)
    for first in range(0, 20 * N_ITEMS, N_ITEMS):
        shared = {name: fresh[name][first] for name in model.field_names}
        scores = fresh["logit"][first : first + N_ITEMS]
        answer = engine.calibrate(Request({"click": scores}, shared=shared)).probabilities["click"]
        assert n_swaps_and_ties(scores, answer) == (0, 0)


def test_a_field_of_the_item_is_refused_with_the_list_it_differs_in(lists: dict[str, Any]) -> None:
    with pytest.raises(
        InvalidInput, match=r"fields: got 'item', which differs within query_id = 'q\d+' \('item \d+', "
    ):
        fit_lists(lists, "mlplatt", fields=[*FIELDS, "item"])


def test_a_sampling_rate_that_differs_within_a_list_is_refused(lists: dict[str, Any]) -> None:
    rates = np.where(np.arange(len(lists["logit"])) % 2, 0.5, 1.0)
    with pytest.raises(InvalidInput, match="sampling_rate: got a rate, which differs within query_id"):
        fit_lists({**lists, "rate": rates}, "platt", sampling_rate="rate")


def test_methods_that_may_be_level_are_refused_before_the_fit(lists: dict[str, Any]) -> None:
    for method in ("isotonic", "histogram"):
        with pytest.raises(InvalidInput, match=f"keep_order_within: got the method '{method}'"):
            fit_lists(lists, method)


def test_a_score_that_says_nothing_is_refused_because_its_slope_is_0(lists: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="a higher score means no higher probability"):
        fit_lists({**lists, "logit": -lists["logit"]}, "wide_logistic", fields=FIELDS)


def test_the_list_is_no_field_that_rows_are_judged_by(lists: dict[str, Any]) -> None:
    options: dict[str, Any] = {"method": "platt", "score": "logit", "label": "click", "scores_are": "logit"}
    plain, listed = (
        fit_and_judge(lists, fields=["page"], n_bootstrap=10, **options, **kept)
        for kept in ({}, {"keep_order_within": "query_id"})
    )
    assert listed.tasks["click"].as_dict() == plain.tasks["click"].as_dict()
