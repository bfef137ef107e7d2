import numpy as np
import pytest

from monocal.calibrators import calibrator
from monocal.calibrators.logistic import solve_shift
from monocal.core.dataset import Dataset
from monocal.core.errors import MonocalWarning
from monocal.lab.simulator import simulate_log


def drifting(n=8000, jump=1.0, seed=0):
    """Scores that are right until the last fifth, where every true logit is `jump` higher."""
    random = np.random.default_rng(seed)
    logits = random.normal(-1.5, 1.0, n)
    truth = logits + np.where(np.arange(n) >= n * 4 // 5, jump, 0.0)
    return 1 / (1 + np.exp(-logits)), random.random(n) < 1 / (1 + np.exp(-truth))


def test_recent_intercept_forgets_what_noise_could_explain():
    shifts = {}
    for jump in (0.0, 1.0):
        found = []
        for seed in range(20):
            scores, labels = drifting(n=2000, jump=jump, seed=seed)
            plain = calibrator("platt").fit(scores, labels)
            recent = slice(1600, None)
            z = plain.predict(scores[recent])
            z = np.log(z / (1 - z))
            full = solve_shift(Dataset(z, labels[recent].astype(float)), z)
            found.append((full, calibrator("platt", recent_share=0.2).fit(scores, labels).recent_shift_))
        shifts[jump] = np.array(found)
    noise, kept = shifts[0.0].T
    assert np.mean(kept**2) < 0.5 * np.mean(noise**2)
    asked, kept = shifts[1.0].T
    assert np.all(kept > 0.93 * asked)


def test_recent_intercept_follows_times_not_row_order():
    scores, labels = drifting()
    order = np.random.default_rng(1).permutation(scores.size)
    by_time = calibrator("platt", recent_share=0.2).fit(scores[order], labels[order], times=order)
    in_order = calibrator("platt", recent_share=0.2).fit(scores, labels)
    assert by_time.recent_shift_ == pytest.approx(in_order.recent_shift_, abs=1e-9)


def test_recent_slice_of_one_class_leaves_the_map_alone():
    scores = np.tile([0.1, 0.4], 50)
    labels = np.concatenate([np.tile([0, 1], 40), np.zeros(20)])
    assert calibrator("platt", recent_share=0.1).fit(scores, labels).recent_shift_ == 0.0


@pytest.mark.parametrize("method", ["platt", "histogram", "isotonic", "sir", "wide_logistic", "per_segment"])
def test_recent_intercept_matches_the_newest_rows(method):
    scores, labels = drifting()
    features = np.ones((scores.size, 1), dtype=np.int32)
    fitted = calibrator(method, recent_share=0.2).fit(scores, labels, features=features)
    recent = slice(6400, None)
    after = fitted.predict(scores[recent], features=features[recent]).sum()
    assert after == pytest.approx(labels[recent].sum(), rel=0.01)
    plain = calibrator(method).fit(scores, labels, features=features)
    assert plain.predict(scores[recent], features=features[recent]).sum() < 0.8 * labels[recent].sum()


def test_guard_falls_back_and_says_so():
    log = simulate_log(4000, seed=1, world="calibrated")
    # labels of the older rows are turned around, so whatever is learned there is wrong now
    labels = np.where(np.arange(4000) < 3200, 1 - log.labels, log.labels)
    with pytest.warns(MonocalWarning, match="falling back to the uncalibrated score"):
        fitted = calibrator("isotonic", guard=True).fit(log.scores, labels)
    assert fitted.fell_back_
    np.testing.assert_allclose(fitted.predict(log.scores), log.scores, rtol=1e-6)


def test_guard_keeps_a_fit_that_helps():
    log = simulate_log(4000, seed=1, world="affine")
    fitted = calibrator("platt", guard=True).fit(log.scores, log.labels)
    assert not fitted.fell_back_
    np.testing.assert_array_equal(
        fitted.predict(log.scores), calibrator("platt").fit(log.scores, log.labels).predict(log.scores)
    )


def test_per_segment_falls_back_for_thin_and_unseen_values():
    random = np.random.default_rng(0)
    features = np.concatenate([np.ones(3000), np.full(3000, 2), np.full(10, 3)]).astype(np.int32)[:, None]
    scores = random.uniform(0.05, 0.5, 6010)
    labels = random.random(6010) < np.where(features[:, 0] == 1, scores / 2, scores)
    fitted = calibrator("per_segment", method="platt", shrinkage=10.0).fit(scores, labels, features=features)
    assert fitted.values_.tolist() == [1, 2]
    whole = calibrator("platt").fit(scores, labels).predict([0.2])
    np.testing.assert_allclose(fitted.predict([0.2, 0.2], features=[[3], [77]]), np.repeat(whole, 2), rtol=1e-9)
    assert fitted.predict([0.2], features=[[1]])[0] < 0.14 < fitted.predict([0.2], features=[[2]])[0]


def test_per_segment_tag_is_that_of_the_inner_method():
    assert calibrator("per_segment", method="platt").tags.monotone == "strict"
    assert calibrator("per_segment", method="isotonic").tags.monotone == "weak"
    assert calibrator("per_segment", method="histogram").tags.monotone == "none"


@pytest.mark.parametrize(("method", "arguments"), [("wide_logistic", {"carry": "auto"}), ("umc", {"n_epochs": 1})])
def test_a_recent_share_that_is_given_is_obeyed_where_effects_are_carried(method, arguments):
    scores, labels = drifting()
    features = (np.arange(len(scores)) % 5 + 1)[:, None]
    levels = [
        calibrator(method, **arguments, recent_share=share).fit(scores, labels, features=features).recent_shift_
        for share in (0.05, 0.5)
    ]
    assert levels[0] != levels[1]
    assert calibrator(method, **arguments, recent_share=0.0).fit(scores, labels, features=features).recent_shift_ == 0.0
