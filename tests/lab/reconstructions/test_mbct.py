"""Cuts, ratios and answers of calibration trees, against numbers worked by hand and against plain loops."""

import numpy as np
import pytest

from monocal.calibrators import calibrator
from monocal.lab.reconstructions.mbct_forest import PART_ROWS, Forest, Judge, Limits, best_cut, folded_mean, ratio

S = np.array([0.05, 0.12, 0.18, 0.25, 0.33, 0.41, 0.48, 0.62, 0.77, 0.91])
Y = np.array([0, 0, 1, 0, 0, 1, 0, 1, 0, 1], float)
Z = np.array([1, 1, 2, 2, 1, 3, 3, 2, 1, 3])
FREE = Limits(min_rows=1, min_positives=0.0, max_depth=1, kappa=0.0)


def test_the_best_cut_of_ten_rows_parts_the_value_without_positives():
    cut = best_cut(Z, Y, np.ones(10), S, 0, by_order=False, limits=FREE)
    assert cut.goes_left[[1, 2, 3]].tolist() == [True, False, False]
    parent = 4.0 / 4.12
    expected = (0.0 - parent * 1.27) ** 2 / 4 + (4.0 - parent * 2.85) ** 2 / 6
    assert cut.gain == pytest.approx(expected, abs=1e-9)
    # the child with more rows takes values that were not there
    assert not cut.others_left


@pytest.mark.parametrize(
    ("positive", "predicted", "kappa", "expected"),
    [
        (4, 4.12, 0, 0.9708737864),
        (4, 2.85, 0, 1.4035087719),
        (2, 1.05, 0, 1.9047619048),
        (2, 3.07, 0, 0.6514657980),
        (0, 1.27, 2, 0.6116207951),
    ],
)
def test_ratios(positive, predicted, kappa, expected):
    assert ratio(positive, predicted, kappa) == pytest.approx(expected, abs=1e-9)


def test_one_tree_with_one_cut_multiplies_each_leaf_by_its_ratio():
    fitted = calibrator(
        "mbct", n_trees=1, max_depth=1, min_rows=4, min_positives=0.0, kappa=0.0, score_bins=1, held_out_share=0.0
    ).fit(S, Y, features=Z[:, None])
    expected = [1e-6, 1e-6, 0.2526315789, 0.3508771930, 1e-6, 0.5754385965, 0.6736842105, 0.8701754386, 1e-6, 1 - 1e-6]
    np.testing.assert_allclose(fitted.predict(S, features=Z[:, None]), expected, atol=1e-9)
    # before it is cut to a probability the last row is above 1
    forest = Forest(fitted.nodes_, fitted.sides_, fitted.ratios_, fitted.roots_)
    assert (S * forest.ratios(np.column_stack([Z, np.zeros(10, int)])))[9] == pytest.approx(1.2771929825, abs=1e-9)
    # an unseen value follows the child with more rows
    assert fitted.predict([0.2], features=[[9]])[0] == pytest.approx(0.2 * 1.4035087719, abs=1e-9)


def test_the_expected_multi_view_error_is_the_mean_over_drawn_views():
    random = np.random.default_rng(0)
    p = random.beta(1.0, 8.0, 20_000)
    gaps = (random.random(20_000) < p) - p - 0.002
    drawn = [abs(random.choice(gaps, int(PART_ROWS)).mean()) for _ in range(4000)]
    assert folded_mean(gaps.mean(), gaps.var()) == pytest.approx(np.mean(drawn), rel=0.05)


def test_a_cut_that_held_out_rows_contradict_is_not_made():
    random = np.random.default_rng(1)
    site = random.integers(1, 400, 20_000)
    scores = random.uniform(0.09, 0.11, 20_000)
    labels = (random.random(20_000) < scores).astype(float)
    options = {"min_rows": 10, "min_positives": 1.0, "n_trees": 3}
    judged = calibrator("mbct", **options).fit(scores, labels, features=site[:, None])
    believing = calibrator("mbct", **options, held_out_share=0.0).fit(scores, labels, features=site[:, None])
    spread = [fitted.predict(scores, features=site[:, None]).std() for fitted in (judged, believing)]
    assert spread[0] < 0.5 * spread[1]
    assert Judge(labels, np.ones(20_000)).error(scores) > 0.0
