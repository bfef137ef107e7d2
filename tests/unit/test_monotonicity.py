"""The production check that predictions follow scores."""

import numpy as np
import pytest

from monocal.core.monotonicity import NotMonotone, assert_monotone, probe_logits


def test_reports_what_was_checked():
    check = assert_monotone(lambda t, rows: np.maximum(t, rows[:, 0]), np.array([[0.0], [5.0]]), logits=[-1, 1, 2, 6])
    assert (check.n_curves, check.n_steps, check.n_ties, check.worst_fall) == (2, 6, 2, 0.0)


def test_names_the_worst_fall_of_all_rows():
    def predict(t, rows):
        return np.where(t == 2.0, t - rows[:, 0], t)

    with pytest.raises(NotMonotone, match="falls 2 times in 6 steps; worst at feature row 1: from"):
        assert_monotone(predict, np.array([[2.0], [5.0]]), logits=[0, 1, 2, 3])


def test_a_tolerance_forgives_and_reports_a_small_fall():
    def predict(t, rows):
        return t - 1e-9 * (t == 1.0) - (t == 1.0)

    check = assert_monotone(predict, logits=[0.0, 1.0, 2.0], tolerance=1e-6)
    assert check.worst_fall == pytest.approx(1e-9)


def test_refuses_results_that_are_not_finite_or_of_another_shape():
    with pytest.raises(NotMonotone, match="row 0 is not one finite number per score"):
        assert_monotone(lambda t, rows: t * np.nan)
    with pytest.raises(NotMonotone, match="row 0 is not one finite number per score"):
        assert_monotone(lambda t, rows: t[:-1])


def test_probes_hold_the_grid_and_gapless_chains():
    probes = probe_logits(-2.0, 2.0, n_points=5, n_chains=3, chain_length=10, seed=4)
    assert set(np.linspace(-2, 2, 5)) <= set(probes)
    gapless = np.nextafter(probes[:-1].astype(np.float32), np.float32(np.inf)) == probes[1:]
    assert gapless.sum() == 3 * 9


def test_refuses_an_empty_sweep():
    with pytest.raises(ValueError, match=r"low, high: got \[1.0, 0.0\]"):
        probe_logits(1.0, 0.0)
