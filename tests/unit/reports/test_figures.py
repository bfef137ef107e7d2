"""Plots for notebooks show the report's own numbers, and which of them are beyond noise."""

import numpy as np
import pytest

import monocal
from monocal.core.errors import InvalidInput
from monocal.metrics import Forecast
from monocal.reports import build_report
from monocal.reports.reliability import reliability_curve

matplotlib = pytest.importorskip("matplotlib")
from matplotlib import pyplot  # noqa: E402


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def log():
    return monocal.simulate_log(8_000, seed=1).table()


COLUMNS = {"score": "pctr", "label": "click", "fields": ["device"], "time": "timestamp"}


@pytest.fixture(scope="module")
def model(log):
    return monocal.fit(log.slice(0, 4_000), method="wide_logistic", **COLUMNS)


def test_bins_beyond_the_band_are_those_whose_interval_misses_the_prediction():
    rng = np.random.default_rng(0)
    for _ in range(30):
        p = rng.beta(1, 12, 3_000)
        labels = (rng.random(3_000) < 1.2 * p).astype(float)
        curve = reliability_curve(Forecast.of(labels, p, weights=rng.integers(1, 5, 3_000)), 15)
        low, high = curve.noise_band
        assert np.array_equal(curve.is_outside, (curve.observed < low) | (curve.observed > high))


def test_a_perfect_forecaster_is_beyond_the_band_as_often_as_it_says():
    rng = np.random.default_rng(1)
    outside = []
    for _ in range(200):
        p = rng.beta(2, 6, 4_000)
        outside.append(reliability_curve(Forecast.of(rng.random(4_000) < p, p), 10).is_outside.mean())
    assert 0.035 < np.mean(outside) < 0.065


def test_a_plot_has_the_bins_of_the_report(log, model):
    given = {"group": "user_id", "time": "timestamp"}
    curves = build_report(model, log.slice(4_000), n_bootstrap=2, **given).task().reliability.curves
    found = monocal.evaluation.table.evaluate_table(log.slice(4_000), model=model, **given).tasks["click"]
    for evaluation, curve in ((found.before, curves["before"]), (found, curves["after"])):
        drawn = monocal.CalibrationDisplay.of(evaluation.rows).curve
        assert np.array_equal(drawn.predicted, curve.predicted)
        assert np.array_equal(drawn.observed, curve.observed)
        assert drawn.noise == pytest.approx(curve.noise, rel=0.05)  # groups are looked at in each forecast's own bins


def test_two_forecasts_share_axes_band_and_diagonal():
    rng = np.random.default_rng(2)
    p = rng.uniform(0.02, 0.3, 20_000)
    words = np.where(rng.random(20_000) < p, "yes", "no")
    right = monocal.CalibrationDisplay.from_predictions(words, p, pos_label="yes", name="right", color="green")
    wrong = monocal.CalibrationDisplay.from_predictions(words, 1.5 * p, pos_label="yes", name="wrong", ax=right.ax_)
    assert wrong.figure_ is right.figure_
    labels = [text.get_text().replace("\u202f", "") for text in right.ax_.get_legend().get_texts()]
    assert labels == ["a perfect forecaster, 95%", "right", "observed as predicted", "wrong"]
    assert right.line_.get_color() == "green"
    assert right.ax_.get_xscale() == "log"
    assert right.curve.n_outside < wrong.curve.n_outside
    assert np.array_equal(right.prob_pred, right.curve.predicted)
    assert len(monocal.CalibrationDisplay.from_predictions(words, p, pos_label="yes", n_bins=4).prob_true) == 4


def test_weights_count_rows_in_the_plot():
    rng = np.random.default_rng(3)
    p, weights = np.round(rng.uniform(0.3, 0.7, 2_000), 2), rng.integers(0, 3, 2_000)
    y = rng.random(2_000) < p
    weighed = monocal.CalibrationDisplay.from_predictions(y, p, sample_weight=weights, n_bins=5)
    repeated = monocal.CalibrationDisplay.from_predictions(np.repeat(y, weights), np.repeat(p, weights), n_bins=5)
    assert weighed.prob_true == pytest.approx(repeated.prob_true)
    assert weighed.ax_.get_xscale() == "linear"


def test_results_draw_themselves(log, model):
    found = monocal.evaluation.table.evaluate_table(log.slice(4_000), model=model)
    axes = found.plot()
    assert found.tasks["click"].plot(ax=axes) is axes
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names[1:4:2] == ["before calibration", "after calibration"]
    curves = model.plot()
    assert curves.get_xlabel() == "pctr"
    assert len(curves.get_lines()) >= 4
    changes = found.tasks["click"].change.plot()
    assert next(text.get_text() for text in changes.get_yticklabels()) == "log_loss"


def test_a_comparison_draws_how_far_each_is_behind_the_best(log):
    found = monocal.compare(log, methods=["platt", "beta"], n_bootstrap=50, **COLUMNS)
    axes = found.plot()
    assert [text.get_text() for text in axes.get_yticklabels()] == [result.method for result in found.results]
    assert axes.get_xlabel() == f"log-loss behind {found.best.method}"
    # the score as it is lies far outside and is written at the edge
    assert [text.get_text()[:1] for text in axes.texts] == ["+"]


def test_what_cannot_be_drawn_is_refused(log, model, monkeypatch):
    with pytest.raises(InvalidInput, match="y_prob: got no rows"):
        monocal.CalibrationDisplay.from_predictions([], [])
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'monocal\[plot\]'"):
        model.plot()
