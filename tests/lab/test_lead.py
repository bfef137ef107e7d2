"""Why a method is ahead: the field is named by what the data say, and nothing is claimed where nothing is ahead."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import monocal
from monocal.core.spaces import logit, sigmoid
from monocal.lab.lead import explain_lead


@pytest.fixture(scope="module")
def log() -> pa.Table:
    rng = np.random.default_rng(0)
    n = 24_000
    z = rng.normal(-1.5, 1.2, n)
    device, country = rng.integers(0, 2, n), rng.integers(0, 4, n)
    slope = np.where(device == 0, 1.8, 0.3)
    truth = sigmoid(slope * (z + 1.5) - 1.5)
    return pa.table(
        {
            "pctr": sigmoid(z),
            "click": (rng.random(n) < truth).astype(np.int8),
            "device": np.array(["phone", "desk"])[device],
            "country": np.array(list("abcd"))[country],
        }
    )


def _compared(log, methods):
    found = monocal.compare_methods(
        log, methods, score="pctr", label="click", fields=["country", "device"], holdout=0.5, metric="log_loss",
        arguments={"per_segment": {"field": 1, "method": "platt"}} if "per_segment" in methods else None,
    )  # fmt: skip
    return found, log.slice(log.num_rows // 2)


def test_the_field_whose_errors_depend_on_the_score_is_named(log):
    found, test = _compared(log, ["wide_logistic", "per_segment"])
    lead = explain_lead(found, test, ("country", "device"), "pctr", method="per_segment", other="wide_logistic")
    assert lead.field == "device"
    assert lead.verdict.startswith("better by")
    assert lead.other_error > 0.2 > 2 * lead.error
    assert lead.value in ("phone", "desk")
    assert abs(np.log(lead.other_pcoc)) > 2 * abs(np.log(lead.pcoc))
    low, high = lead.scores
    inside = (test["pctr"].to_numpy() >= low) & (test["pctr"].to_numpy() <= high)
    assert inside.sum() == pytest.approx(test.num_rows / 10, abs=2)
    assert "device and score together" in str(lead).replace("\n", " ")
    assert max(map(len, str(lead).splitlines())) < 80


def test_a_method_that_is_not_ahead_is_not_called_so(log):
    found, test = _compared(log, ["wide_logistic", "per_segment"])
    lead = explain_lead(found, test, ("country", "device"), "pctr", method="wide_logistic", other="per_segment")
    assert lead.verdict.startswith("worse")
    assert "is not ahead" in str(lead)
    assert explain_lead(found, test, ("device",), "pctr", method="umc", other="wide_logistic") is None


def test_the_page_of_the_demo_changes_after_the_ranker_was_trained():
    from monocal.lab.demo import demo_log

    log = demo_log(20_000, seed=3)
    clicks, truth = log["click"].to_numpy(), log["true_p"].to_numpy()
    before, after = clicks[:12_000].mean(), clicks[12_000:].mean()
    assert 0.22 < before < 0.28
    assert 0.12 < after < 0.18
    scores, device = logit(log["pctr"].to_numpy()), np.asarray(log["device"])
    old = slice(0, 12_000)
    assert np.ptp(logit(truth[old]) - scores[old]) < 1e-9
    rises = [
        np.ptp((logit(truth) - 0.5 * scores)[12_000:][device[12_000:] == value]) for value in np.unique(device)
    ]  # fmt: skip
    assert min(rises) > 0.5


def test_errors_within_noise_are_no_reason(log):
    clicks = np.random.default_rng(1).random(log.num_rows) < log["pctr"].to_numpy()
    right = log.set_column(log.column_names.index("click"), "click", pa.array(clicks.astype(np.int8)))
    found, test = _compared(right, ["platt", "wide_logistic"])
    lead = explain_lead(found, test, ("country", "device"), "pctr", method="wide_logistic", other="platt")
    assert not lead.is_visible
    told = str(replace(lead, verdict="better by 1 %")).replace("\n", " ")
    assert told.startswith("Log-loss of wide_logistic is better by 1 % than that of platt; no field and score together")
    assert "errors depend on" not in told
