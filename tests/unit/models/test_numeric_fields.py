"""Fields of numbers: what a fit learns from them, and that every way into a model gives them the same meaning."""

import numpy as np
import pyarrow as pa
import pytest

import monocal
from monocal.calibrators import CALIBRATORS
from monocal.core.errors import ArtefactError, InvalidInput
from monocal.core.fields import STEPS, learn_knots
from monocal.core.scores import logit, sigmoid
from monocal.lab.prepare.encoder import encode_log
from monocal.serving.engine import Engine, Request
from monocal.tables.roles import Roles
from monocal.tables.vocabulary import NumericField, Vocabulary
from monocal.tables.vocabulary_file import read_vocabulary, vocabulary_bytes

N = 20_000
COLUMNS = {"score": "pctr", "label": "click", "fields": ["site"], "numeric": ["price"]}


def effect(price):
    return 1.2 * np.sin(np.log(price))


def priced_log(n=N, seed=0):
    """Clicks whose logit the ranker misses by a smooth function of the price; a tenth of the prices is not known."""
    random = np.random.default_rng(seed)
    z, price, site = random.normal(-1.0, 1.0, n), np.exp(random.normal(2.0, 0.8, n)), random.integers(0, 5, n)
    known = random.random(n) < 0.9
    truth = z + np.where(known, effect(price), -0.7) + 0.2 * (site - 2)
    clicks = (random.random(n) < sigmoid(truth)).astype(int)
    prices = pa.array(price, mask=~known)
    return pa.table({"pctr": sigmoid(z), "click": clicks, "price": prices, "site": site}), truth


@pytest.fixture(scope="module")
def log():
    return priced_log()[0]


@pytest.fixture(scope="module")
def model(log):
    return monocal.fit(log, method=monocal.WideLogistic(l2="auto"), **COLUMNS)


def logits_at(model, prices, site=2, score=0.3):
    n = len(prices)
    return logit(model.predict({"pctr": np.full(n, score), "price": prices, "site": np.full(n, site)}))


def test_a_smooth_effect_is_recovered_better_than_by_ten_bins(log, model):
    later, truth = priced_log(seed=1)
    edges = np.nanquantile(log["price"].to_numpy(), np.linspace(0.1, 0.9, 9))

    def with_bins(table):
        price = table["price"].to_numpy()
        return table.append_column("bin", pa.array(np.where(np.isnan(price), -1, np.searchsorted(edges, price))))

    options = {"method": monocal.WideLogistic(l2="auto"), "score": "pctr", "label": "click"}
    binned = monocal.fit(with_bins(log), fields=["site", "bin"], **options).predict(with_bins(later))
    smooth = model.predict(later)
    errors = [np.sqrt(np.mean((logit(p) - truth) ** 2)) for p in (smooth, binned)]
    assert errors[0] < 0.08
    assert errors[0] < 0.6 * errors[1]


def test_the_shift_is_continuous_and_constant_beyond_the_outer_knots(model):
    knots = model.vocabulary["price"].knots
    at_knots = logits_at(model, np.array(knots))
    sweep = logits_at(model, np.linspace(knots[0], knots[-1], 200_001))
    assert np.abs(np.diff(sweep)).max() <= 1.01 * np.abs(np.diff(at_knots)).max() / STEPS + 1e-9
    middle = logits_at(model, np.array([(knots[3] + knots[4]) / 2.0]))
    assert middle[0] == pytest.approx((at_knots[3] + at_knots[4]) / 2.0, abs=1e-6)
    outside = logits_at(model, np.array([-1e300, knots[0], knots[-1], 1e300, np.inf]))
    assert outside[0] == outside[1]
    assert outside[2] == outside[3] == outside[4]


def test_a_null_is_a_value_of_its_own_and_nan_is_one(model):
    found = logits_at(model, pa.array([None, float("nan"), 7.0], from_pandas=False))
    assert found[0] == found[1]
    assert found[2] - found[0] == pytest.approx(effect(7.0) + 0.7, abs=0.2)


def test_order_in_the_score_is_untouched(model):
    scores = np.linspace(0.001, 0.999, 2_000)
    for price in (0.5, 6.0, None):
        rows = {"pctr": scores, "price": pa.array([price] * 2_000, pa.float64()), "site": ["1"] * 2_000}
        assert (np.diff(model.predict(rows)) > 0.0).all()


def test_the_penalty_is_on_second_differences(log):
    """However strong the penalty, what is left of a straight line is a straight line."""
    random = np.random.default_rng(3)
    x = random.uniform(0.0, 1.0, 20_000)
    z = random.normal(-1.0, 1.0, 20_000)
    table = {"pctr": sigmoid(z), "click": random.random(20_000) < sigmoid(z + 2.0 * x), "x": x}
    fitted = monocal.fit(table, method=monocal.WideLogistic(l2=300.0), score="pctr", label="click", numeric=["x"])
    knots = fitted.vocabulary["x"].knots
    values = logit(fitted.predict({"pctr": np.full(len(knots), 0.3), "x": np.array(knots)}))
    assert np.ptp(values) > 1.2
    assert np.abs(np.diff(values, 2)).max() < 0.03 * np.ptp(values)


def test_knots_that_do_not_rise_are_refused():
    falling = vocabulary_bytes(Vocabulary((NumericField("price", (2.0, 1.0)),)))
    with pytest.raises(ArtefactError, match="the knots of field 'price' do not rise"):
        read_vocabulary(falling)


def test_the_engine_takes_a_shared_number_and_refuses_a_text(model):
    engine = Engine(model)
    shared = engine.calibrate(Request({"click": [0.1, 0.2]}, shared={"price": 9}, fields={"site": ["1", 2.0]}))
    assert np.array_equal(
        shared.probabilities["click"], model.predict({"pctr": [0.1, 0.2], "price": [9.0, 9.0], "site": [1, 2]})
    )
    with pytest.raises(InvalidInput, match="field 'price': got 'cheap'; expected a number or null"):
        engine.calibrate(Request({"click": [0.1]}, fields={"price": ["cheap"], "site": [1]}))


def test_a_lasting_effect_is_carried(log):
    fitted = monocal.fit(log, method=monocal.WideLogistic(l2="auto", carry="auto"), **COLUMNS)
    shares = dict(zip(fitted.field_names, fitted.tasks[0].calibrator.carry_["share"], strict=True))
    assert shares["price"] > 0.8
    assert fitted.tasks[0].calibrator.carry_["returning"].tolist() == [1.0, 1.0]


def test_the_list_of_methods_in_that_refusal_is_the_whole():
    using = {name for name, kind in CALIBRATORS.items() if kind.uses_numbers}
    assert using == {"umc", "umc_concat", "sbcr", "fac", "desc", "mcnet", "wide_logistic"}


def test_a_refresh_moves_everything_but_the_curve(model):
    """On the day everything is clicked less, site 0 far less, and there is a new site."""
    later, truth = priced_log(12_000, seed=2)
    site = later["site"].to_numpy()
    moved = truth - 0.5 - 1.0 * (site == 0)
    clicks = (np.random.default_rng(3).random(12_000) < sigmoid(moved)).astype(int)
    later = later.set_column(1, "click", pa.array(clicks)).set_column(3, "site", pa.array(np.where(site == 4, 9, site)))
    following = model.refresh(later)
    before, after = (np.abs(logit(each.predict(later)) - moved).mean() for each in (model, following))
    assert after < 0.75 * before  # one day may be a shock, so it is not believed in full
    prices = [3.0, 8.0, 20.0]
    steps = [np.diff(logits_at(each, prices)) for each in (model, following)]
    np.testing.assert_allclose(steps[0], steps[1], atol=1e-9)
    assert set(following.info["history"][-1]["tasks"]["click"]["fields"]) == {"site"}
    assert following.info["history"][-1]["new_values"] == {"site": 1, "price": 0}
    again = following.refresh(later.slice(0, 6_000).set_column(0, "pctr", pa.array(later["pctr"].to_numpy()[6_000:])))
    assert again.info["generation"] == 3


def test_what_numbers_do_not_reach_is_refused_by_name(model, log, tmp_path):
    with pytest.raises(InvalidInput, match="numeric: got 'price', which is named already"):
        monocal.fit(log, method="platt", score="pctr", label="click", fields=["price"], numeric=["price"])
    with pytest.raises(InvalidInput, match="numeric: got 'click', which is also a label"):
        monocal.fit(log, method="platt", score="pctr", label="click", numeric=["click"])
    with pytest.raises(InvalidInput, match=r"numeric: got \['price'\]; expected no numeric fields in a prepared log"):
        encode_log(log, Roles(label="click", numeric=["price"]), tmp_path / "log")
    text = log.set_column(2, "price", pa.array(["cheap"] * N))
    with pytest.raises(
        InvalidInput, match="numeric field 'price': got 'cheap' at row 0 of the table; expected a number"
    ):
        monocal.fit(text, method="wide_logistic", **COLUMNS)


@pytest.mark.parametrize(
    ("numbers", "knots"), [([1, 2, 2, 9], (1.0, 2.0, 9.0)), ([5, 5, 5, 5], (5.0,)), ([None, None, None, None], ())]
)
def test_few_distinct_numbers_have_few_knots(numbers, knots):
    table = {"pctr": [0.2, 0.4] * 100, "click": [0, 1, 1, 0, 0] * 40, "x": pa.array(numbers * 50, pa.float64())}
    fitted = monocal.fit(table, method="wide_logistic", score="pctr", label="click", numeric=["x"])
    assert fitted.vocabulary["x"].knots == knots
    assert np.isfinite(fitted.predict({"pctr": [0.2] * 3, "x": pa.array([1.0, 77.0, None])})).all()


def test_heavy_ties_make_no_knot_twice():
    knots = learn_knots([0.0, *np.arange(1.0, 100.0)], [900, *np.ones(99)])
    assert list(knots) == sorted(set(knots))
    assert len(knots) >= 3
    assert knots[0] == 0.0


def test_methods_that_cannot_use_numbers_say_so():
    for name, kind in CALIBRATORS.items():
        if kind.class_tags.uses_features and not kind.uses_numbers:
            with pytest.raises(InvalidInput, match=f"numeric: got the method '{name}'; expected .* wide_logistic"):
                kind().fit([0.1, 0.2], [0, 1], features=[[2], [3]], numeric_knots=[2])
