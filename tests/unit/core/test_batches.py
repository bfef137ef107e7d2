import numpy as np
import pytest

from monocal.core.batches import iterate_batches, release_pages
from monocal.core.errors import InvalidInput


def _columns(n_rows):
    return {"x": np.arange(2 * n_rows, dtype=np.int32).reshape(n_rows, 2), "y": np.arange(n_rows)}


@pytest.mark.parametrize("n_rows", [0, 1, 63, 64, 65, 1000])
@pytest.mark.parametrize("batch_rows", [1, 7, 64, 5000])
@pytest.mark.parametrize("seed", [None, 3])
def test_every_row_comes_exactly_once_in_full_batches(n_rows, batch_rows, seed):
    columns = _columns(n_rows)
    batches = list(iterate_batches(columns, batch_rows, seed=seed, with_rows=True, block_rows=16, window_rows=200))
    rows = np.concatenate([b["rows"] for b in batches]) if batches else np.zeros(0, int)
    assert np.array_equal(np.sort(rows), np.arange(n_rows))
    assert all(len(b["y"]) == batch_rows for b in batches[:-1])
    for batch in batches:
        assert np.array_equal(batch["x"], columns["x"][batch["rows"]])
        assert np.array_equal(batch["y"], columns["y"][batch["rows"]])


def test_without_a_seed_rows_come_in_order_as_views():
    columns = _columns(100)
    batches = list(iterate_batches(columns, 30))
    assert np.array_equal(np.concatenate([b["y"] for b in batches]), np.arange(100))
    assert all(np.shares_memory(b["x"], columns["x"]) for b in batches)


def _order(seed, epoch, n_rows=5000):
    batches = iterate_batches({"y": np.arange(n_rows)}, 100, seed=seed, epoch=epoch, block_rows=50, window_rows=1000)
    return np.concatenate([b["y"] for b in batches])


def test_same_seed_and_epoch_same_batches_and_the_global_generator_is_untouched():
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    assert np.array_equal(_order(1, 2), _order(1, 2))
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    assert not np.array_equal(_order(1, 2), _order(1, 3))
    assert not np.array_equal(_order(1, 2), _order(2, 2))


def test_the_order_is_well_mixed():
    order = _order(0, 0, n_rows=20_000)
    batch_means = order.reshape(-1, 100).mean(axis=1)
    # the mean of 100 rows drawn from 20 blocks all over the log; sorted rows would spread by 5774
    assert batch_means.std() < 2000
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.1


def test_drop_last_leaves_out_only_the_short_batch():
    for seed in (None, 1):
        sizes = [len(b["y"]) for b in iterate_batches(_columns(1050), 100, seed=seed, drop_last=True, window_rows=300)]
        assert sizes == [100] * 10


def test_memory_maps_give_the_same_batches_as_arrays(tmp_path):
    columns = _columns(3000)
    np.save(tmp_path / "x.npy", columns["x"])
    mapped = {"x": np.load(tmp_path / "x.npy", mmap_mode="r"), "y": columns["y"]}
    for seed in (None, 9):
        pairs = zip(iterate_batches(columns, 128, seed=seed), iterate_batches(mapped, 128, seed=seed), strict=True)
        assert all(np.array_equal(a["x"], b["x"]) for a, b in pairs)


def test_released_pages_stay_readable(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(100_000))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    total = int(mapped.sum())
    release_pages(mapped)
    assert int(mapped[10:].sum()) == total - 45


def test_a_writable_map_keeps_its_changes(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(10))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="c")
    mapped[3] = 7.0
    release_pages(mapped)
    assert mapped[3] == 7.0


def test_wrong_arguments_are_named():
    with pytest.raises(InvalidInput, match="batch_rows: got 0"):
        iterate_batches(_columns(3), 0)
    with pytest.raises(InvalidInput, match=r"columns: got lengths \{'a': 1, 'b': 2\}"):
        iterate_batches({"a": np.zeros(1), "b": np.zeros(2)}, 1)
    with pytest.raises(InvalidInput, match="columns: got no column"):
        iterate_batches({}, 1)
    with pytest.raises(InvalidInput, match="the name 'rows'"):
        iterate_batches({"rows": np.zeros(1)}, 1)
