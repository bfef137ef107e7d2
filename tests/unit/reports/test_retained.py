"""What a fit retains is read by the report, drawn on its page, and said by a comparison."""

import numpy as np
import pytest

import monocal
from monocal.carry_over.describe import RetainedEffects
from monocal.cli.tables import print_comparison
from monocal.core.errors import MonocalWarning
from monocal.core.scores import sigmoid
from monocal.evaluation.compare import compare
from monocal.reports import build_report
from monocal.reports.page import render

# what is shown is asked here, not how good a model is: rows of its fit will do
pytestmark = pytest.mark.filterwarnings("ignore:the model was fitted on about")

QUICK = {"n_bootstrap": 10, "n_floor": 10}
UMC = {"size": "small", "n_epochs": 6, "n_threads": 1, "show_progress": False}
COLUMNS = {"score": "score", "label": "label", "fields": ["site", "day<1>"], "time": "time"}
LEFT_OUT = "network dropped: it did not improve the forecast of later rows"


@pytest.fixture(scope="module")
def turned():
    """Rows whose curve bends one way in the older half and the other way in the later one, with a field of the day."""
    rng = np.random.default_rng(0)
    n = 10_000
    logits = rng.normal(0.0, 1.5, n)
    older = np.arange(n) < n // 2
    bent = np.where(older, 2.5 * np.maximum(logits, 0.0) - 1.5, 2.5 * np.minimum(logits, 0.0) + 1.5)
    return {
        "score": sigmoid(logits),
        "label": (rng.random(n) < sigmoid(bent)).astype(int),
        "site": rng.choice(list("abcd"), n),
        "day<1>": [f"day {row // 500}" for row in range(n)],
        "time": np.arange(n),
    }


def test_the_numbers_are_those_of_the_fit(turned):
    model = monocal.fit(turned, method=monocal.WideLogistic(carry={"day<1>": 0.25}), **COLUMNS)
    fitted = model.task().calibrator.carry_
    found = RetainedEffects.of(model.task().calibrator, model.field_names)
    assert [(field.name, field.n_values, field.given) for field in found.fields] == [
        ("site", 4, False),
        ("day<1>", 20, True),
    ]
    assert [field.share for field in found.fields] == fitted["share"].tolist()
    assert (found.fields[1].share, found.network, found.evaluated) == (0.25, None, True)
    assert found.fields[0].error == fitted["error"][0] > 0.0
    assert np.isnan(found.fields[1].error)
    assert [field.recurrence for field in found.fields] == [1.0, 0.0]
    assert found.remarks == ()
    plain = monocal.fit(turned, method="wide_logistic", **COLUMNS)
    assert RetainedEffects.of(plain.task().calibrator, plain.field_names) == RetainedEffects()


def test_the_page_shows_every_field_and_what_was_dropped(turned, tmp_path):
    model = monocal.fit(turned, method=monocal.Umc(**UMC), **COLUMNS)
    data = build_report(model, turned, time="time", **QUICK)
    found = data.task().retained
    assert found.network == 0.0
    html = render(data)
    for field in found.fields:
        assert f"{field.share:.2f}<small>" in html
    assert f"<li>{LEFT_OUT}</li>" in html
    # the name of a field is data: it is shown, never markup
    assert "day&lt;1&gt;" in html
    assert "day<1>" not in html
    model.save(tmp_path / "model")
    again = monocal.load(tmp_path / "model")
    # as text, because an unknown error is no number
    assert repr(RetainedEffects.of(again.task().calibrator, again.field_names)) == repr(found)


def test_a_fit_that_nothing_could_evaluate_says_so(turned):
    late = {**turned, "label": np.where(turned["time"] < 8_000, 0, turned["label"])}
    # the days without a positive make the day tell the label
    with pytest.warns(MonocalWarning, match="'day<1>', which tells 'label'"):
        model = monocal.fit(late, method=monocal.WideLogistic(carry="auto"), **COLUMNS)
    data = build_report(model, turned, time="time", **QUICK)
    assert not data.task().retained.evaluated
    html = render(data)
    assert "Nothing learned was evaluated on later rows" in html
    assert "1.00<small>assumed</small>" in html


def test_a_comparison_says_whose_network_was_rejected(turned, capsys):
    methods = ["umc", "wide_logistic", "per_segment"]
    arguments = {"umc": UMC, "wide_logistic": {"l2": "auto", "carry": "auto"}}
    compared = compare(turned, methods=methods, arguments=arguments, n_bootstrap=10, **COLUMNS)
    assert compared.result("umc").remark == LEFT_OUT
    assert compared.result("wide_logistic").remark == "carry=auto, l2=auto"
    assert compared.result("per_segment").remark == ""
    entries = {method["method"]: method for method in compared.as_dict()["methods"]}
    assert (entries["umc"]["network_share"], entries["wide_logistic"]["network_share"]) == (0.0, None)
    assert list(entries["umc"]["carried"]) == ["site", "day<1>"]
    assert list(entries["wide_logistic"]["carried"]) == ["site", "day<1>"]
    assert entries["none"]["carried"] == {}
    print_comparison(compared)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if LEFT_OUT in line]
    assert lines == [f"umc: {LEFT_OUT}"]
