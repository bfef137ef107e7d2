"""Why a method is ahead: the field is named by what the data say, and nothing is claimed where nothing is ahead."""

import numpy as np
import pyarrow as pa
import pytest

import monocal
from monocal.core.scores import sigmoid
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
    found = monocal.compare(
        log, methods=methods, score="pctr", label="click", fields=["country", "device"], holdout=0.5, metric="log_loss",
        arguments={"per_segment": {"field": 1, "method": "platt"}} if "per_segment" in methods else None,
    )  # fmt: skip
    return found, log.slice(log.num_rows // 2)


def test_a_method_that_is_not_ahead_is_not_called_so(log):
    found, test = _compared(log, ["wide_logistic", "per_segment"])
    lead = explain_lead(found, test, ("country", "device"), "pctr", method="wide_logistic", other="per_segment")
    assert lead.verdict.startswith("worse")
    assert "is not ahead" in str(lead)
    assert explain_lead(found, test, ("device",), "pctr", method="umc", other="wide_logistic") is None
