"""The compiled layers: inputs in their order, to the last bit, and nothing read that is not there."""

import numpy as np
import pytest

from monocal.compiled.dense import add_products
from monocal.compiled.jit import compiled
from monocal.compiled.predict import dense_wide
from monocal.ops.numpy_ops import add_products as one_input_after_the_other

pytest.importorskip("numba")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("n_in", [1, 7, 8, 64, 75, 336])
@pytest.mark.parametrize("n_out", [1, 5, 8, 9, 40, 72, 100, 104, 200])
def test_every_output_is_the_sum_over_inputs_in_their_order_to_the_bit(n_in, n_out, rng):
    rows = rng.normal(size=(67, n_in)).astype(np.float32)
    rows[rng.random(rows.shape) < 0.3] = 0.0
    matrix = rng.normal(size=(n_in, n_out)).astype(np.float32)
    start = rng.normal(size=(67, n_out)).astype(np.float32)
    found, expected = start.copy(), start.copy()
    add_products(rows, matrix, found)
    one_input_after_the_other(rows, matrix, expected)
    assert np.array_equal(found, expected)


def test_a_row_does_not_depend_on_its_neighbours(rng):
    rows, matrix = rng.normal(size=(100, 50)).astype(np.float32), rng.normal(size=(50, 30)).astype(np.float32)
    together = np.zeros((100, 30), np.float32)
    add_products(rows, matrix, together)
    for row in (0, 31, 32, 99):
        alone = np.zeros((1, 30), np.float32)
        add_products(rows[row : row + 1], matrix, alone)
        assert np.array_equal(alone[0], together[row])


def test_inputs_that_are_no_numbers_reach_the_outputs():
    rows = np.array([[np.nan, 0.0], [np.inf, 1.0]], np.float32)
    out = np.zeros((2, 3), np.float32)
    add_products(np.pad(rows, ((0, 0), (0, 6))), np.ones((8, 3), np.float32), out)
    assert np.isnan(out[0]).all()
    assert np.isinf(out[1]).all()


@compiled(freedom=frozenset({"contract"}))
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
