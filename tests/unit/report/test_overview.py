"""The headline says what the numbers say."""

import numpy as np
import pytest

import monocal
from monocal.core.errors import MonocalWarning
from monocal.report import build_report, verdict
from monocal.report.page.overview import key_figures, sentences

# what is shown is asked here, not how good a model is: rows of its fit will do
pytestmark = pytest.mark.filterwarnings("ignore:the model was fitted on about")

QUICK = {"n_bootstrap": 50, "n_floor": 20}


@pytest.fixture(scope="module")
def log():
    return monocal.simulate_log(20_000, seed=6, world="affine").table()


def test_help_is_called_help(log):
    model = monocal.fit(log.slice(0, 10_000), method="platt", score="pctr", label="click", fields=["device"])
    found = build_report(model, log.slice(10_000), **QUICK).task()
    assert verdict(found).startswith("Calibration helped: log-loss fell by ")
    assert found.headline.mood == "good"
    assert any(sentence.startswith("Overall the score over-predicts by ") for sentence in sentences(found))
    assert any("significantly off after calibration" in sentence for sentence in sentences(found))
    assert [figure.title for figure in key_figures(found)][:2] == ["Predicted / observed", "Log-loss"]


def test_harm_is_called_harm(log):
    backwards = {"pctr": log["pctr"].to_numpy(), "click": 1 - log["click"].to_numpy()}
    with pytest.warns(MonocalWarning, match="higher where 'click' did not happen"):
        model = monocal.fit(backwards, method="platt", score="pctr", label="click")
    found = build_report(model, log, **QUICK).task()
    assert verdict(found).startswith("Calibration did harm: log-loss rose by ")
    assert found.headline.mood == "bad"


def test_no_difference_is_called_not_significant():
    log = monocal.simulate_log(8_000, seed=6, world="calibrated").table()
    model = monocal.fit(log, method="none", score="pctr", label="click")
    found = build_report(model, log, **QUICK).task()
    assert "which is not significant" in verdict(found)
    assert found.headline.mood == "mixed"


def test_the_worst_value_left_is_named_with_its_size():
    rng = np.random.default_rng(0)
    n = 40_000
    site = rng.choice(["good", "bad"], n, p=[0.8, 0.2])
    truth = rng.uniform(0.05, 0.2, n)
    labels = (rng.random(n) < np.where(site == "bad", 0.5, 1.05) * truth).astype(int)
    table = {"p": truth, "y": labels, "site": site, "bid": np.full(n, 2.0)}
    model = monocal.fit(table, method="none", score="p", label="y", fields=["site"])
    found = build_report(model, table, value="bid", **QUICK).task()
    assert (found.headline.worst.after.field, found.headline.worst.after.value) == ("site", "bad")
    assert found.headline.costliest.value == "bad"
    worst = next(sentence for sentence in sentences(found) if sentence.startswith("The largest error left"))
    assert "over-predicts by" in worst
    assert "on site=bad" in worst
    assert any("predicted too much on site=bad" in sentence for sentence in sentences(found))
