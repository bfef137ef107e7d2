"""A few weighted rows in the place of a table: what a calibrator learns from them."""

import numpy as np
import pytest

from monocal.calibrators import calibrator
from monocal.core.spaces import logit
from monocal.lab.simulator import simulate_log
from monocal.spark.compressed import CELL, cells_of
from monocal.spark.pooled import _pool

LOG = simulate_log(50_000, seed=3).table()
LOGITS, LABELS = logit(LOG["pctr"].to_numpy()), LOG["click"].to_numpy().astype(np.float64)
WEIGHTS = np.random.default_rng(0).integers(0, 5, len(LOGITS)) * 0.5


@pytest.mark.parametrize("method", ["platt", "temperature", "beta", "gauss", "gamma"])
def test_smooth_methods_have_the_same_fit_on_two_points_per_cell(method):
    few = cells_of(LOGITS, LABELS, WEIGHTS).two_points()
    assert len(few.logits) < 0.7 * len(LOGITS)
    whole = calibrator(method).fit(LOGITS, LABELS, weights=WEIGHTS, scores_are="logit")
    small = calibrator(method).fit(few.logits, few.labels, weights=few.weights, scores_are="logit")
    np.testing.assert_allclose(small.predict(LOGITS), whole.predict(LOGITS), rtol=1e-10)


def test_two_points_keep_weight_and_three_moments_of_every_cell():
    rng = np.random.default_rng(1)
    z = (7 + rng.beta(0.5, 2.0, 1_000)) * CELL
    weights = rng.uniform(0.0, 2.0, 1_000)
    few = cells_of(z, np.ones(1_000), weights).two_points()
    assert len(few.logits) == 2
    assert few.logits.min() >= z.min()
    assert few.logits.max() <= z.max()
    for power in range(4):
        moments = [w @ ((x - 7.5 * CELL) / CELL) ** power for w, x in ((weights, z), (few.weights, few.logits))]
        assert moments[1] == pytest.approx(moments[0], rel=1e-9)


def test_rows_that_are_alike_stay_one_row():
    few = cells_of(np.full(9, -40.0), np.zeros(9), np.ones(9)).two_points()
    assert few.logits.tolist() == [-40.0]
    assert few.weights.tolist() == [9.0]


def test_pooling_ranges_and_then_blocks_is_pooling_rows():
    weights, positives = WEIGHTS[:500] + 0.5, (WEIGHTS[:500] + 0.5) * LABELS[:500]
    z = np.sort(LOGITS[:500])
    assert len(np.unique(z)) == 500
    whole = np.array(_pool(z, weights, positives))
    parts = [np.array(_pool(z[at], weights[at], positives[at])) for at in (slice(0, 200), slice(200, 500))]
    lowest, highest, weight, positive = np.concatenate(parts, axis=1)
    again = np.array(_pool(lowest, weight, positive))
    np.testing.assert_allclose(again[[0, 2, 3]], whole[[0, 2, 3]])
    assert len(highest) < 500
