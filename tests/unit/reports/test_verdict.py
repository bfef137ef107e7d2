"""The verdict says what the numbers say."""

import re

import numpy as np
import pytest

import monocal
from monocal.reports import build_report, verdict
from monocal.reports.page import render

# what is shown is asked here, not how good a model is: rows of its fit will do
pytestmark = [
    pytest.mark.filterwarnings("ignore:the model was fitted on about"),
    pytest.mark.filterwarnings("ignore:.*higher where 'click' did not happen"),
]

QUICK = {"n_bootstrap": 50, "n_floor": 20}


def summary(data):
    """The facts below the verdict, and the titles of the figures between them."""
    html = render(data)
    facts = re.search(r'<ul class="facts">(.*?)</ul>', html, flags=re.DOTALL)[1]
    return re.findall("<li>(.*?)</li>", facts), re.findall("<dt>(.*?)</dt><dd><span", html)


@pytest.mark.parametrize(
    ("world", "method", "turned", "said", "mood"),
    [
        ("affine", "platt", False, "Calibration helped: log-loss fell by ", "good"),
        ("affine", "platt", True, "Calibration did harm: log-loss rose by ", "bad"),
        ("calibrated", "none", False, "Calibration changed little", "mixed"),
    ],
)
def test_help_harm_and_no_difference_have_their_own_words(world, method, turned, said, mood):
    log = monocal.simulate_log(16_000, seed=6, world=world).table()
    learned = {"pctr": log["pctr"].to_numpy(), "click": 1 - log["click"].to_numpy()} if turned else log
    model = monocal.fit(learned, method=method, score="pctr", label="click")
    data = build_report(model, log, fields=["device"], **QUICK)
    found, (facts, figures) = data.task(), summary(data)
    assert verdict(found).startswith(said)
    assert found.headline.mood == mood
    assert figures[:2] == ["Predicted / observed", "Log-loss"]
    assert any("significantly off after calibration" in fact for fact in facts)


def test_on_too_few_rows_nothing_is_claimed():
    """Its loss falls by a quarter, on thirty rows."""
    table = {"p": [0.1, 0.3, 0.5, 0.7, 0.9] * 6, "y": [1, 0, 1, 0, 1] * 6}
    model = monocal.fit(table, method="platt", score="p", label="y")
    data = build_report(model, table, **QUICK)
    found = data.task()
    assert found.headline.mood == "neutral"
    assert verdict(found).startswith("The rows are too few to say whether calibration helped: 30 rows, 12 of one label")
    assert not any("Ranking" in fact for fact in summary(data)[0])


def test_the_worst_value_left_is_named_with_its_size_and_its_price():
    rng = np.random.default_rng(0)
    n = 40_000
    site = rng.choice(["good", "bad"], n, p=[0.8, 0.2])
    truth = rng.uniform(0.05, 0.2, n)
    labels = (rng.random(n) < np.where(site == "bad", 0.5, 1.05) * truth).astype(int)
    table = {"p": truth, "y": labels, "site": site, "bid": np.full(n, 2.0)}
    model = monocal.fit(table, method="none", score="p", label="y", fields=["site"])
    data = build_report(model, table, value="bid", **QUICK)
    found = data.task()
    assert found.headline.worst["after"][:2] == ("site", "bad")
    worst, money = (next(fact for fact in summary(data)[0] if start in fact) for start in ("error left", "In bid"))
    assert "over-predicts by" in worst
    assert "on site=bad" in worst
    assert "predicted too much on site=bad" in money
    costliest, off = found.headline.costliest, site == "bad"
    assert costliest.gaps["before"] == pytest.approx(2.0 * (truth[off].sum() - labels[off].sum()))
