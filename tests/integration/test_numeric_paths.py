"""Numeric fields through networks, ONNX and the report."""

import numpy as np
import pyarrow as pa
import pytest

import monocal
from monocal.calibrators import calibrator
from monocal.core.fields import STEPS
from monocal.core.scores import logit, sigmoid
from monocal.models.onnx import export_onnx
from monocal.reports.data import build_report
from monocal.reports.page import render
from monocal.serving.engine import Engine, Request

N = 4_000
COLUMNS = {"score": "pctr", "label": "click", "fields": ["site"], "numeric": ["price"]}


def draw(seed, level=0.0):
    """Scores that are right at low prices and too flat at high ones, which only a network can see."""
    random = np.random.default_rng(seed)
    z, price = random.normal(-1.0, 1.0, N), random.uniform(1.0, 50.0, N)
    known = random.random(N) < 0.9
    truth = z * np.where(known, 0.5 + price / 25.0, 1.0) + level
    clicks = (random.random(N) < sigmoid(truth)).astype(int)
    prices = pa.array(price.round(3), mask=~known)
    return pa.table({"pctr": sigmoid(z), "click": clicks, "price": prices, "site": random.integers(0, 3, N)})


@pytest.fixture(scope="module")
def log():
    return draw(7)


@pytest.fixture(scope="module", params=["umc", "sbcr", "fac", "desc", "mcnet", "wide_logistic"])
def model(request, log):
    extra = {"n_epochs": 2, "carry": "none", "show_progress": False} if request.param != "wide_logistic" else {}
    if request.param in ("fac", "desc"):
        extra["hard_monotone"] = True
    return monocal.fit(log, method=calibrator(request.param, **extra), **COLUMNS)


def test_online_as_offline_and_after_loading(model, log, tmp_path):
    model.save(tmp_path / "model")
    loaded = monocal.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(log), model.predict(log))
    rows = log.slice(3, 30).to_pydict()
    answer = Engine(loaded).calibrate(Request({"click": rows["pctr"]}, fields={k: rows[k] for k in ("price", "site")}))
    assert np.array_equal(answer.probabilities["click"], model.predict(log.slice(3, 30)))


def test_a_refresh_goes_on_and_the_next_generation_has_intervals(model):
    later = draw(8, level=-0.7)
    rate = np.mean(later["click"].to_numpy())
    following = model.refresh(later)
    before, after = (each.predict(later).mean() - rate for each in (model, following))
    assert abs(after) < 0.7 * abs(before)
    found = following.predict(later.slice(0, 100), interval=0.9)
    assert ((found.lower < found.probabilities) & (found.probabilities < found.upper)).all()


def test_answers_are_continuous_in_the_number_and_rise_with_the_score(model):
    knots = np.array(model.vocabulary["price"].knots)

    def logits(prices):
        return logit(model.predict({"pctr": np.full(len(prices), 0.4), "price": prices, "site": np.ones(len(prices))}))

    sweep = logits(np.linspace(knots[0] - 1.0, knots[-1] + 1.0, 60_001))
    steps = np.abs(np.diff(logits(np.repeat(knots, 2)[1:-1])))
    # a network bends between knots, so its steepest stretch is somewhat steeper than the way from knot to knot
    assert np.abs(np.diff(sweep)).max() < 6.0 * steps.max() / STEPS + 1e-5
    rising = model.predict({"pctr": np.linspace(0.01, 0.99, 500), "price": np.full(500, 20.0), "site": [1] * 500})
    assert (np.diff(rising) >= 0.0).all()


@pytest.mark.parametrize("inputs", ["values", "ids"])
def test_the_onnx_graph_takes_numbers(model, log, inputs, tmp_path):
    import onnxruntime

    made = export_onnx(model, tmp_path / "model.onnx", inputs=inputs, n_parity_rows=500)
    assert made.largest_difference <= 1e-6
    if inputs == "values":
        session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
        rows = log.slice(0, 300)
        feed = {"pctr": rows["pctr"].to_numpy(), "price": rows["price"].to_numpy()}
        feed["site"] = np.array([str(value) for value in rows["site"].to_pylist()], dtype=object)
        assert session.run(None, feed)[0] == pytest.approx(model.predict(rows), abs=1e-6)


def test_a_network_learns_what_a_shift_cannot(log):
    """The slope depends on the price; without `price` in its context no map could tell."""
    method = monocal.Umc(n_epochs=12, carry="none", show_progress=False)
    fitted = monocal.fit(log, method=method, score="pctr", label="click", fields=["site"], numeric=["price"])
    steep, flat = (
        np.ptp(logit(fitted.predict({"pctr": [0.1, 0.6], "price": [price, price], "site": [1, 1]})))
        for price in (45.0, 3.0)
    )
    assert steep > 1.3 * flat


def test_the_report_has_a_curve_for_every_numeric_field(log):
    fitted = monocal.fit(log.slice(0, 3_000), method="wide_logistic", **COLUMNS)
    data = build_report(fitted, log.slice(3_000), n_bootstrap=10, n_floor=5)
    (effect,) = data.task().numeric
    at = np.array(fitted.vocabulary["price"].knots)
    answers = logit(fitted.predict({"pctr": np.full(len(at), 0.3), "price": at, "site": np.ones(len(at))}))
    assert effect.shifts[::4] == pytest.approx(answers - answers.mean(), abs=1e-9)
    names = {field.name: field.values for field in data.task().fields}
    assert len(names["price"]) <= 11
    page = render(data)
    assert "Numeric fields" in page
    assert "shift in logit" in page
