"""The verdict of calibrate: every check can fail, on a log that was made for it."""

import numpy as np
import pytest

import monocal
from monocal.core.errors import InvalidInput
from monocal.evaluation.verdict import Limits
from monocal.reports.calibrate import calibrate
from monocal.tables.roles import Roles
from monocal.tables.table import Table

N = 20_000
RNG = np.random.default_rng(0)
SITE = RNG.integers(0, 20, N)
Z = RNG.normal(-1.0, 1.0, N)
NEWEST = np.arange(N) >= 0.8 * N


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


def log(score, rate, **others):
    """Rows in time order with a score and labels of this rate."""
    labels = (np.random.default_rng(1).random(len(score)) < rate).astype(float)
    return {"p": score, "y": labels, "site": SITE[: len(score)], **others}


RATE = sigmoid(Z + 0.1 * (SITE - 10))
GOOD = log(sigmoid(1.5 * Z + 1.0), RATE)
HALF_NULL = np.where(np.arange(N) % 2, None, GOOD["y"])
JUMP = sigmoid(1.6 * Z - np.where(NEWEST, 0.93, 0.0))
WAVE = sigmoid(Z + np.where(NEWEST, np.where(np.arange(N) < 0.9 * N, 0.5, -0.6), 0.0))
LEAK = np.where(RNG.random(N) < 0.97, GOOD["y"], 1 - GOOD["y"]).astype(int)
TWICE = np.concatenate([np.arange(int(0.8 * N)), np.arange(int(0.2 * N))])
NOISE = RNG.uniform(0.5, 0.9, N)
SKEWED = np.where(NEWEST & (SITE < 10), sigmoid(Z - 0.7), np.where(NEWEST, sigmoid(Z + 0.5), sigmoid(Z)))
TURNED = sigmoid(np.where(NEWEST & (SITE > 9), Z - 0.25 * SITE + 3.0, Z + 0.25 * SITE - 3.0))

FAULTS = {
    "score_reversed": (log(sigmoid(-Z), RATE), "DO NOT SHIP"),
    "score_constant": (log(np.full(N, 0.2), RATE), "DO NOT SHIP"),
    "score_is_label": (GOOD | {"p": GOOD["y"]}, "DO NOT SHIP"),
    "field_leaks": (GOOD | {"after": LEAK}, "DO NOT SHIP"),
    "one_class": (GOOD | {"y": np.zeros(N)}, "NOT ENOUGH DATA"),
    "too_few_rows": ({name: column[:24] for name, column in GOOD.items()}, "NOT ENOUGH DATA"),
    "label_missing": (GOOD | {"y": HALF_NULL}, "NOT ENOUGH DATA"),
    "fitted_rows": ({name: column[TWICE] for name, column in GOOD.items()}, "DO NOT SHIP"),
    "not_better": (log(sigmoid(Z), sigmoid(Z)), "DO NOT SHIP"),
    "worse_than_constant": (log(NOISE, np.where(NEWEST, 0.05, 0.3)), "DO NOT SHIP"),
    "pcoc": (log(sigmoid(Z + 3.0), JUMP), "DO NOT SHIP"),
    "mfrce": (log(sigmoid(Z + 2.0), SKEWED), "DO NOT SHIP"),
    "order_damaged": (log(sigmoid(Z + 3.0), TURNED), "DO NOT SHIP"),
    "drift": (log(sigmoid(Z + 2.0), WAVE), "DO NOT SHIP"),
}
"""Check to a log on which it does not pass, and the decision."""


METHODS = {"order_damaged": ["wide_logistic"]}
"""Platt's map cannot damage the order."""


def judged(table, **options):
    fields = [name for name in table if name not in ("p", "y")]
    given = {"methods": ["platt", "wide_logistic"], "fields": fields, "score": "p", "label": "y"} | options
    return calibrate(table, **given)


@pytest.mark.filterwarnings("ignore:logistic fit stopped")  # where the score is the label
@pytest.mark.parametrize("name", FAULTS)
def test_the_check_can_fail(name):
    table, decision = FAULTS[name]
    found = judged(table, methods=METHODS.get(name, ["platt", "wide_logistic"]))
    failed = {check.name: check for check in found.verdict.failing}
    assert name in failed
    assert found.verdict.decision == decision, str(found.verdict)
    assert found.verdict.reason == found.verdict.failing[0].text
    assert failed[name].text
    assert found.model is None


def test_there_is_such_a_log_for_every_check():
    assert {check.name for check in judged(GOOD).verdict.checks} == set(FAULTS)


def test_what_ships_is_the_fit_of_all_rows():
    found = judged(GOOD)
    assert str(found.verdict).startswith("SHIP wide_logistic: log-loss is ")
    assert found.verdict.failing == []
    again = monocal.fit(GOOD, method="wide_logistic", fields=["site"], score="p", label="y")
    np.testing.assert_array_equal(found.model.predict(GOOD), again.predict(GOOD))
    assert found.table.results[0].model.info["n_rows"] == 0.8 * N


def test_a_level_17_times_too_high_does_not_ship_however_much_better_it_is():
    found = judged(FAULTS["pcoc"][0], fields=[])
    (check,) = [check for check in found.verdict.checks if check.name == "pcoc"]
    assert 1.6 < check.value < 1.9
    assert "outside 0.9 to 1.1" in found.verdict.reason
    better = next(check for check in found.verdict.checks if check.name == "not_better")
    assert better.result == "passed"


def test_of_ties_the_simplest_is_chosen():
    table = log(sigmoid(1.5 * Z + 1.0), sigmoid(Z))
    found = judged(table, methods=["none", "platt", "beta", "wide_logistic"])
    assert found.verdict.method == "platt"
    assert found.verdict.ships
    assert {"beta", "platt"} <= {found.table.best.method, *found.table.tied_with_best}


def test_fields_are_proposed_and_a_leak_is_left_out():
    table = FAULTS["field_leaks"][0] | {"row": np.arange(N)}
    found = calibrate(table, methods=["wide_logistic"], score="p", label="y")
    assert found.table.said[0] == "fields: site"
    assert "after (it seems to know y" in found.table.said[1]
    assert "row (most values occur once)" in found.table.said[1]
    assert "split by row order" in found.table.said[2]
    assert found.verdict.ships


def test_rows_that_are_missing_are_counted():
    few = judged(FAULTS["too_few_rows"][0]).verdict.reason
    assert few.startswith("5 rows, ")
    assert few.endswith(" rows in all would do")
    table = log(sigmoid(Z + 2.0), RATE)
    some = judged({name: column[:1_000] for name, column in table.items()}, fields=[]).verdict
    assert some.decision == "NOT ENOUGH DATA"
    assert "judged rows would do" in some.reason


def test_limits_decide():
    table = FAULTS["pcoc"][0]
    assert judged(table, fields=[], pcoc=(0.9, 2.0)).verdict.ships
    for given in ((1.1, 0.9), (0.0, 1.1), (1.05, 1.1)):
        with pytest.raises(InvalidInput, match="pcoc: got .*; expected two limits around 1"):
            Limits(given)


def test_without_torch_the_others_are_tried_and_it_is_said(monkeypatch):
    monkeypatch.setattr("monocal.evaluation.compare.find_spec", lambda _: None)
    found = calibrate(GOOD, score="p", label="y", fields=["site"])
    assert [result.method for result in found.table.results] == ["wide_logistic", "platt", "none"]
    assert "not tried: umc, which needs torch: pip install 'monocal[neural]'" in found.table.said
    assert found.verdict.ships


def test_a_result_shows_itself(tmp_path):
    found = judged(GOOD)
    assert repr(found) == str(found.verdict)
    assert "SHIP wide_logistic" in found._repr_html_()
    assert found.table.to_pandas()["method"].tolist() == ["wide_logistic", "platt", "none"]
    page = found.report(tmp_path / "report.html").read_text()
    assert "SHIP wide_logistic" in page
    assert "held out the last 4,000" in page


def test_a_page_is_not_green_where_a_check_failed(tmp_path):
    page = judged(FAULTS["pcoc"][0], fields=[]).report(tmp_path / "report.html").read_text()
    assert "Not fit for use: PCOC, predicted over observed, is 1.7" in page
    assert 'class="part top bad"' in page
    assert "Calibration helped" not in page


def test_a_prepared_log_is_judged_without_a_report(tmp_path):
    rows = Table.read(GOOD, Roles(score="p", label="y", fields=["site"])).encoded()
    found = calibrate(rows, methods=["platt", "wide_logistic"])
    assert str(found.verdict).startswith("SHIP wide_logistic")
    assert not found.has_report
    box = found.save(tmp_path / "box")
    assert sorted(path.name for path in box.iterdir()) == ["model", "verdict.json"]
