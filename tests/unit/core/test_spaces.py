"""Where scores change space, and where they are clipped."""

import numpy as np

from monocal.core.scores import LOGIT_LIMIT, SCORE_EPSILON, as_float_column, logit, sigmoid, to_logits


def test_logits_beyond_the_limit_are_clipped_to_it():
    assert to_logits([-1e6, -40.5, -39.5, 39.5, 40.5, 1e6], "logit").tolist() == [-40.0, -40.0, -39.5, 39.5, 40.0, 40.0]
    assert LOGIT_LIMIT == 40.0


def test_probabilities_0_and_1_become_the_logits_of_epsilon():
    farthest = np.log((1.0 - 1e-7) / 1e-7)
    np.testing.assert_allclose(to_logits([0.0, 1.0], "probability"), [-farthest, farthest], rtol=1e-9)
    np.testing.assert_allclose(logit([0.0, 1.0]), [-farthest, farthest], rtol=1e-9)


def test_probabilities_are_clipped_at_epsilon_and_not_before():
    inside = np.array([1.5e-7, 1e-6, 0.3, 1.0 - 1e-6])
    np.testing.assert_allclose(sigmoid(logit(inside)), inside, rtol=1e-9)
    below = np.array([0.0, 0.2e-7, 0.9e-7])
    np.testing.assert_allclose(sigmoid(logit(below)), SCORE_EPSILON, rtol=1e-9)
    assert logit([0.001], epsilon=0.01) == logit([0.01])


def test_a_table_s_single_column_is_a_column():
    assert as_float_column([[0.25], [0.5]], "scores").tolist() == [0.25, 0.5]
