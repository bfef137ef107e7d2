"""A share of the negatives teaches odds that are too high by a known factor, and every ranker takes it back."""

import numpy as np
import pytest
from sklearn.base import clone

from monocal.core.errors import InvalidInput
from monocal.lab.rankers import DeepFM, HashedLogistic, MultiTaskDeepFM
from monocal.lab.rankers.lists import keep_share_of_negatives
from monocal.lab.simulator import simulate_log

SMALL = {"hidden": (16, 8), "n_dimensions": 4, "batch_rows": 256, "n_threads": 1, "learning_rate": 3e-3}
LEARNERS = [HashedLogistic(), DeepFM(**SMALL), MultiTaskDeepFM(**SMALL)]


@pytest.mark.parametrize("one", LEARNERS, ids=lambda ranker: ranker.name)
def test_the_logits_are_those_of_the_thinned_log_plus_the_logarithm_of_the_rate(one, click_log):
    thinned = keep_share_of_negatives(click_log, ["click"], 0.3, seed=0)
    by_hand = clone(one).fit(thinned).score(click_log) + np.log(0.3)
    fitted = clone(one).set_params(negative_rate=0.3).fit(click_log)
    np.testing.assert_allclose(fitted.score(click_log), by_hand, rtol=0, atol=1e-12)


def test_the_corrected_mean_is_the_logs_own():
    log = simulate_log(60_000, seed=3).encoded()
    logits = HashedLogistic(negative_rate=0.1).fit(log).score(log)
    predicted = np.mean(1 / (1 + np.exp(-logits)))
    assert abs(predicted / log.labels["click"].mean() - 1) < 0.05
    uncorrected = np.mean(1 / (1 + np.exp(-(logits - np.log(0.1)))))
    assert uncorrected / log.labels["click"].mean() > 2.0


def test_every_task_keeps_its_positives_and_the_share_of_its_negatives(video_log):
    thinned = keep_share_of_negatives(video_log, video_log.tasks, 0.2, seed=0)
    for task in video_log.tasks:
        before, after = video_log.labels[task], thinned.labels[task]
        assert np.sum(after == 1) == np.sum(before == 1)
        n_negatives = np.sum(before == 0)
        assert abs(np.sum(after == 0) / n_negatives - 0.2) < 4 * np.sqrt(0.16 / n_negatives)
    # clicks without a long view are negatives of that task like all others: taking them all would teach wrong odds
    clicked = thinned.labels["click"] == 1
    all_clicked = (video_log.labels["click"] == 1) & (video_log.labels["long_view"] == 0)
    share = np.sum(thinned.labels["long_view"][clicked] == 0) / np.sum(all_clicked)
    assert abs(share - 0.2) < 4 * np.sqrt(0.16 / np.sum(all_clicked))


@pytest.mark.parametrize("rate", [0.0, -1.0, 1.5, float("nan")])
def test_a_wrong_rate_is_refused(rate, click_log):
    with pytest.raises(InvalidInput, match=r"negative_rate: got .*; expected a number in \(0, 1\]"):
        HashedLogistic(negative_rate=rate).fit(click_log)
