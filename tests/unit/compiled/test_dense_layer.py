"""The compiled layer of all maps but UMC's."""

import numpy as np
import pytest

from monocal.ops.numpy_ops import add_products as one_input_after_the_other

pytest.importorskip("numba")
from monocal.compiled.dense_layer import add_products


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
