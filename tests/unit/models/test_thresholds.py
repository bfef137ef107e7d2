"""Cut-offs with a promise: it is broken in at most δ of many repeats, and kept as loosely as the rows allow."""

import numpy as np
import pytest

from monocal.core.errors import InvalidInput
from monocal.models.thresholds import promised_thresholds

N_REPEATS = 1_000


def draw(rng, n, off=0.0):
    """Probabilities and labels; the truth of a row is its probability to the power of 1 + off."""
    p = rng.beta(1.0, 2.0, n)
    return p, (rng.random(n) < p ** (1.0 + off)).astype(float)


def truth_at(promise, cut, off=0.0):
    """The exact value at a cut-off: what lies above it is summed up on a fine grid."""
    p = (np.arange(20_000) + 0.5) / 20_000
    density = 2.0 * (1.0 - p)
    positive = density * p ** (1.0 + off)
    above = {name: np.cumsum(part[::-1])[::-1] for name, part in (("all", density), ("positive", positive))}
    value = {
        "precision": above["positive"] / above["all"],
        "recall": above["positive"] / above["positive"][0],
        "false_positive_rate": (above["all"] - above["positive"]) / (above["all"][0] - above["positive"][0]),
    }[promise]
    return np.interp(cut, p, value)


@pytest.mark.parametrize(("promise", "target"), [("precision", 0.7), ("recall", 0.8), ("false_positive_rate", 0.1)])
@pytest.mark.parametrize("off", [0.0, 0.3])
def test_the_promise_is_broken_in_at_most_delta_of_1000_repeats(promise, target, off):
    rng = np.random.default_rng(7)
    cuts = []
    for _ in range(N_REPEATS):
        found = promised_thresholds(*draw(rng, 800, off), confidence=0.9, **{promise: target}).overall
        if found.value is not None:
            cuts.append(found.value)
    assert len(cuts) > 0.3 * N_REPEATS
    truth = truth_at(promise, np.array(cuts), off)
    broken = np.count_nonzero(truth > target if promise == "false_positive_rate" else truth < target)
    assert broken <= 0.1 * N_REPEATS


def test_with_groups_all_promises_hold_together():
    rng = np.random.default_rng(8)
    broken = 0
    for _ in range(200):
        p, y = draw(rng, 3_000)
        groups = rng.integers(0, 3, p.size)
        found = promised_thresholds(p, y, precision=0.7, confidence=0.9, groups=groups)
        values = [cut.value for cut in found.by.values() if cut.value is not None]
        broken += bool((truth_at("precision", np.array(values)) < 0.7).any())
    assert broken <= 0.1 * 200


@pytest.mark.parametrize(("promise", "target"), [("precision", 0.7), ("recall", 0.8), ("false_positive_rate", 0.1)])
def test_with_many_rows_the_cut_off_is_the_exact_one(promise, target):
    p, y = draw(np.random.default_rng(9), 400_000)
    found = promised_thresholds(p, y, **{promise: target}).overall
    assert truth_at(promise, found.value) == pytest.approx(target, abs=0.01)
    assert found.n_taken == np.count_nonzero(p >= found.value)


def test_equal_probabilities_are_taken_together():
    p = np.array([0.9] * 500 + [0.2] * 500)
    y = np.array([1.0] * 490 + [0.0] * 10 + [0.0] * 500)
    found = promised_thresholds(p, y, precision=0.9).overall
    assert (found.value, found.n_taken) == (0.9, 500)


def test_too_few_rows_say_how_many_it_takes():
    p, y = draw(np.random.default_rng(10), 15)
    for promise in ("precision", "recall"):
        found = promised_thresholds(p, y, **{promise: 0.95}).overall
        assert found.value is None
        assert "at least" in found.reason


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "exactly one"),
        ({"precision": 0.9, "recall": 0.9}, "exactly one"),
        ({"precision": 1.0}, "between 0 and 1"),
        ({"recall": 0.9, "confidence": 0.0}, "confidence"),
    ],
)
def test_what_cannot_be_promised_is_refused(arguments, said):
    p, y = draw(np.random.default_rng(11), 100)
    with pytest.raises(InvalidInput, match=said):
        promised_thresholds(p, y, **arguments)


def test_soft_labels_are_refused():
    with pytest.raises(InvalidInput, match="counts"):
        promised_thresholds(np.array([0.5, 0.6]), np.array([0.5, 1.0]), precision=0.9)
