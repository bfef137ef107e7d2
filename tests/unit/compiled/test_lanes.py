"""The inner step of a layer adds inputs in their order, skips the rest, and reads nothing that is not there."""

import numpy as np
import pytest

pytest.importorskip("numba")

from monocal.compiled.folded_rows import dense_wide
from monocal.compiled.jit import FUSED_STEPS, compiled


@compiled(freedom=FUSED_STEPS)
def by_hand(work, n_rows, n_in, weights, n_out, expected):
    for row in range(n_rows):
        for j in range(n_out):
            total = weights[n_in * n_out + j]
            for k in range(n_in):
                if work[row, k] > 0.0:
                    total += work[row, k] * weights[k * n_out + j]
            expected[row, j] = total


@compiled()
def by_lanes(work, n_rows, n_in, weights, n_out):
    dense_wide(work, 0, n_rows, n_rows, n_in, weights, 0, n_out)


@pytest.mark.parametrize(("n_in", "n_out"), [(128, 128), (1, 8), (63, 16), (64, 24), (65, 72), (200, 200), (7, 136)])
def test_a_layer_is_the_sum_over_positive_inputs_in_their_order_to_the_last_bit(n_in, n_out):
    rng = np.random.default_rng(n_in + n_out)
    width = 8 * -(-max(n_in, n_out) // 8)
    work = rng.normal(size=(10, width)).astype(np.float32)
    work[:, n_in:] = np.nan  # what lies behind the inputs
    work[0, :n_in], work[1, :n_in] = -1.0, 1.0
    weights = rng.normal(size=(n_in + 1) * n_out).astype(np.float32)
    expected = np.empty((5, n_out), np.float32)
    by_hand(work, 5, n_in, weights, n_out, expected)
    by_lanes(work, 5, n_in, weights, n_out)
    assert np.array_equal(work[5:, :n_out], expected)
    assert np.array_equal(work[5, :n_out], weights[n_in * n_out :])
