"""Mini-batches: every row once, mixed the same way for the same seed, from arrays as from memory maps."""

import numpy as np
import pytest

from monocal.neural import batches
from monocal.neural.batches import batches_in_order, shuffled_batches


def columns_of(n_rows):
    return {"x": np.arange(2 * n_rows, dtype=np.int32).reshape(n_rows, 2), "y": np.arange(n_rows)}


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(batches, "BLOCK_ROWS", 16)
    monkeypatch.setattr(batches, "WINDOW_ROWS", 200)


@pytest.mark.parametrize("n_rows", [0, 1, 63, 64, 65, 1000])
@pytest.mark.parametrize("batch_rows", [1, 7, 64, 5000])
def test_every_row_comes_exactly_once_in_full_batches(n_rows, batch_rows, small):
    columns = columns_of(n_rows)
    shuffled = list(shuffled_batches(columns, batch_rows, seed=3, epoch=0))
    in_order = list(batches_in_order(columns, batch_rows))
    for found in (shuffled, in_order):
        rows = np.concatenate([batch["rows"] for batch in found]) if found else np.zeros(0, int)
        assert np.array_equal(rows if found is in_order else np.sort(rows), np.arange(n_rows))
        assert all(len(batch["y"]) == batch_rows for batch in found[:-1])
        for batch in found:
            assert np.array_equal(batch["x"], columns["x"][batch["rows"]])
            assert np.array_equal(batch["y"], columns["y"][batch["rows"]])
    assert all(np.shares_memory(batch["x"], columns["x"]) for batch in in_order)


def order_of(seed, epoch, n_rows=5000):
    found = shuffled_batches({"y": np.arange(n_rows)}, 100, seed=seed, epoch=epoch)
    return np.concatenate([batch["y"] for batch in found])


def test_same_seed_and_epoch_same_batches(small):
    assert np.array_equal(order_of(1, 2), order_of(1, 2))
    assert not np.array_equal(order_of(1, 2), order_of(1, 3))
    assert not np.array_equal(order_of(1, 2), order_of(2, 2))


def test_the_order_is_well_mixed(monkeypatch):
    monkeypatch.setattr(batches, "BLOCK_ROWS", 50)
    monkeypatch.setattr(batches, "WINDOW_ROWS", 1000)
    order = order_of(0, 0, n_rows=20_000)
    batch_means = order.reshape(-1, 100).mean(axis=1)
    # the mean of 100 rows drawn from 20 blocks all over the log; sorted rows would spread by 5774
    assert batch_means.std() < 2000
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.1
