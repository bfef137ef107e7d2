"""Matrix products with one thread, and memory that goes back to the system."""

import platform
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  loads a library of its own
from threadpoolctl import threadpool_info, threadpool_limits

from monocal import calibrator
from monocal.core.process import one_blas_thread, release_pages, trim_heap


def _threads():
    return {found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"}


def test_products_inside_have_one_thread_and_the_number_is_restored_after_an_error():
    with threadpool_limits(2, user_api="blas"):
        with pytest.raises(ZeroDivisionError), one_blas_thread():
            assert _threads() == {1}
            _ = 1 / 0
        assert _threads() == {2}


def test_the_last_of_several_blocks_lifts_the_limit():
    first_is_in, second_is_in, first_is_out = Event(), Event(), Event()

    def first():
        with one_blas_thread():
            first_is_in.set()
            assert second_is_in.wait(10)
        first_is_out.set()

    def second():
        assert first_is_in.wait(10)
        with one_blas_thread():
            second_is_in.set()
            assert first_is_out.wait(10)
            return _threads()

    with ThreadPoolExecutor(1) as before:
        limits = before.submit(threadpool_limits, 2, "blas").result()
    # its thread has ended, so others are listened to
    with ThreadPoolExecutor(2) as pool:
        pool.submit(first)
        assert pool.submit(second).result() == {1}
    assert _threads() == {2}
    limits.restore_original_limits()


def test_a_fit_is_the_same_to_the_bit_whatever_the_number_of_blas_threads():
    random = np.random.default_rng(0)
    z = random.normal(-1.0, 1.0, 60_000)
    features = random.integers(1, 50, (60_000, 3)).astype(np.int32)
    labels = (random.random(60_000) < 1.0 / (1.0 + np.exp(-z - 0.02 * features[:, 0]))).astype(float)
    found = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, user_api="blas"):
            fitted = calibrator("wide_logistic").fit(z, labels, features=features, scores_are="logit")
        found.append(fitted.predict(z, features=features, scores_are="logit"))
    assert np.array_equal(*found)


def anonymous_bytes():
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library has no call for it")
def test_holes_between_arrays_that_stay_are_given_back():
    trim_heap()
    pieces = [np.ones(8192) for _ in range(2000)]
    full = anonymous_bytes()
    kept = pieces[::2]
    del pieces
    trim_heap()
    assert full - anonymous_bytes() > 0.8 * sum(piece.nbytes for piece in kept)


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
