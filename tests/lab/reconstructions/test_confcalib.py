"""Numbers worked out by hand from the Wilson interval, and what the calibrator makes of them."""

import numpy as np
import pytest

from monocal import evaluate
from monocal.calibrators import calibrator
from monocal.core.errors import InvalidInput
from monocal.core.scores import logit, sigmoid
from monocal.lab.reconstructions.confcalib import deviation, supported_rate


@pytest.mark.parametrize(
    ("n_rows", "positives", "errors", "capped"),
    [
        (50, 10, 1.7407765596, 1.3925396737),
        (5, 1, 0.5504818826, 0.5364502138),
        (5000, 1000, 17.4077655956, 1.9599999243),
    ],
)
def test_deviations_in_standard_errors(n_rows, positives, errors, capped):
    counts = np.array([float(n_rows)]), np.array([float(positives)])
    found = deviation(*counts, np.array([0.12]), 1.96)
    assert [column[0] for column in found] == pytest.approx([errors, capped], abs=1e-9)


@pytest.mark.parametrize(
    ("n_rows", "positives", "rate", "shift"),
    [
        (50, 10, 0.1331038123, 0.1186402998),
        (5, 1, 0.1215941636, 0.0150104217),
        (5000, 1000, 0.1891447492, 0.5368531993),
        (50, 0, 0.0549333345, -0.8527049550),
        (50, 3, 0.1106409748, -0.0917803443),
        (1, 1, 0.2510133666, None),
    ],
)
def test_supported_rates(n_rows, positives, rate, shift):
    found = supported_rate(np.array([float(n_rows)]), np.array([float(positives)]), np.array([0.12]), 1.96)
    assert found[0] == pytest.approx(rate, abs=1e-9)
    if shift is not None:
        assert (logit(found) - logit([0.12]))[0] == pytest.approx(shift, abs=1e-9)


def two_fields():
    """Fifty rows of 0.12: the first field has one value with 10 positives, the second one with 1 in 5 rows."""
    features = np.ones((50, 2), dtype=np.int32)
    features[5:, 1] = 0
    labels = np.zeros(50)
    labels[[0, *range(41, 50)]] = 1.0
    return np.full(50, 0.12), labels, features


@pytest.mark.parametrize(("fusion", "expected"), [("geometric", 0.1272188930), ("logit", 0.1272378604)])
def test_two_fields_fused(fusion, expected):
    scores, labels, features = two_fields()
    one = calibrator("confcalib", fusion=fusion, field_weights=(0.5, 0.5)).fit(scores, labels, features=features)
    assert one.predict([0.12], features=[[1, 1]])[0] == pytest.approx(expected, abs=1e-9)
    assert one.predict([0.12], features=[[0, 7]])[0] == pytest.approx(0.12, abs=1e-12)


def t10_rows(t10):
    features = np.column_stack([np.unique(t10.z, return_inverse=True)[1] + 1, t10.g + 1])
    return t10.s, t10.y, features


def test_weights_follow_the_relative_error_of_the_fields(t10):
    scores, labels, features = (np.concatenate([column] * 50) for column in t10_rows(t10))
    one = calibrator("confcalib").fit(scores, labels, features=features)
    # z: a has no positive and is dropped; (3·0.95/2 + 3·0.2/2)/6.  g: (5·0.81/1 + 5·0.69/3)/10
    z, g = (3 * 0.95 / 2 + 3 * 0.2 / 2) / 6, (5 * 0.81 + 5 * 0.69 / 3) / 10
    assert one.field_weights_[0] / one.field_weights_[1] == pytest.approx(z / g, rel=1e-9)
    fields = {"z": features[:, 0], "g": features[:, 1]}
    reported = evaluate(labels, scores, fields=fields, metrics=["mfrce"], n_bootstrap=2, n_floor=2)
    details = reported.as_dict()["metrics"]["mfrce"]["details"]
    assert (details["z"], details["g"]) == pytest.approx((z, g), rel=1e-9)


def log_loss(p, labels):
    return -np.mean(labels * np.log(p) + (1 - labels) * np.log1p(-p))


@pytest.mark.parametrize("fusion", ["geometric", "logit"])
def test_the_common_multiplier_is_that_of_fresh_rows(fusion):
    """Twenty values that matter, and two thousand that mean nothing and have two rows each."""
    random = np.random.default_rng(3)
    effects = random.normal(0.0, 0.5, 21)

    def rows():
        features = np.column_stack([random.integers(1, 21, 4000), random.integers(1, 2001, 4000)])
        scores = sigmoid(random.normal(-2.0, 0.7, 4000))
        truth = sigmoid(logit(scores) + effects[features[:, 0]])
        return scores, (random.random(4000) < truth).astype(float), features

    scores, labels, features = rows()
    one = calibrator("confcalib", fusion=fusion).fit(scores, labels, features=features)
    assert one.field_weights_.sum() > 0.5
    scores, labels, features = rows()
    assert log_loss(one.predict(scores, features=features), labels) < log_loss(scores, labels)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"field_weights": "equal"}, "field_weights: got 'equal'"),
        ({"field_weights": (1.0,)}, "2 numbers ≥ 0, one per field"),
        ({"field_weights": (1.0, -1.0)}, "2 numbers ≥ 0, one per field"),
    ],
)
def test_wrong_arguments_are_explained(arguments, message):
    scores, labels, features = two_fields()
    with pytest.raises(InvalidInput, match=message):
        calibrator("confcalib", **arguments).fit(scores, labels, features=features)
