import numpy as np
import pytest

from monocal.lab.prepare import time_order
from monocal.lab.prepare.time_order import ArrayFile, is_sorted, oldest_rows, sort_by_time


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(time_order, "_CHUNK_ROWS", 64)
    monkeypatch.setattr(time_order, "_BUCKET_ROWS", 100)
    monkeypatch.setattr(time_order, "_SAMPLES", 50)


CASES = {
    "random": lambda rng: rng.integers(0, 10**12, 1000),
    "many ties": lambda rng: rng.integers(0, 5, 1000),
    "one heavy moment": lambda rng: np.where(rng.random(1000) < 0.8, 500, rng.integers(0, 1000, 1000)),
    "constant": lambda rng: np.full(1000, 7),
    "reversed": lambda rng: np.arange(1000)[::-1],
    "negative": lambda rng: rng.integers(-50, 50, 777),
    "one row": lambda rng: np.array([3]),
}


@pytest.mark.parametrize("case", CASES)
def test_rows_are_sorted_and_those_at_the_same_time_keep_their_order(case, tmp_path):
    times = CASES[case](np.random.default_rng(0)).astype(np.int64)
    n = len(times)
    matrix = np.arange(3 * n, dtype=np.int32).reshape(n, 3)
    arrays = []
    for name, rows in {"features": matrix, "time": times}.items():
        array = ArrayFile(name, tmp_path / f"{name}.npy", rows.dtype, rows.shape)
        with array.create(array.path) as stream:
            array.append(stream, rows)
        arrays.append(array)
    sort_by_time(arrays, times)
    order = np.argsort(times, kind="stable")
    assert np.array_equal(np.load(tmp_path / "features.sorted"), matrix[order])
    assert np.array_equal(np.load(tmp_path / "time.sorted"), times[order])
    assert np.array_equal(np.load(tmp_path / "time.npy"), times)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 1.0])
def test_oldest_rows_are_the_ones_a_stable_sort_puts_first(case, share):
    times = CASES[case](np.random.default_rng(1)).astype(np.int64)
    n_oldest = int(len(times) * share)
    moment, n_ties = oldest_rows(times, n_oldest)
    chosen = times < moment
    chosen[np.flatnonzero(times == moment)[:n_ties]] = True
    assert np.array_equal(np.flatnonzero(chosen), np.sort(np.argsort(times, kind="stable")[:n_oldest]))


def test_sortedness_is_seen_across_blocks():
    times = np.arange(200)
    assert is_sorted(times)
    times[64] = 0
    assert not is_sorted(times)
