"""A fit borrows torch's number of threads and gives it back; how many threads share it changes nothing but the time."""

import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import monocal  # noqa: E402
from monocal.calibrators.statistical import wide_solver  # noqa: E402
from monocal.core.threads import allowed_threads, threads_for_rows, usable_cores  # noqa: E402
from monocal.training.history import TrainingHistory  # noqa: E402


@pytest.fixture
def threads(monkeypatch):
    """The numbers of threads that training steps ran with, while the caller has three."""
    before, seen = torch.get_num_threads(), []
    add = TrainingHistory.add

    def adding(history, loss):
        seen.append(torch.get_num_threads())
        add(history, loss)

    monkeypatch.setattr(TrainingHistory, "add", adding)
    torch.set_num_threads(3)
    yield seen
    torch.set_num_threads(before)


@pytest.mark.parametrize("n_threads", [1, 2, None])
@pytest.mark.parametrize("method", ["umc", "desc"])
def test_a_training_has_one_thread_of_torch_and_the_caller_gets_its_number_back(threads, method, n_threads):
    log = monocal.simulate_log(600, seed=2)
    calibrator = monocal.calibrator(method, n_epochs=1, n_threads=n_threads)
    calibrator.fit(log.scores, log.labels, features=log.features[:, 3:])
    assert set(threads) == {1}
    assert torch.get_num_threads() == 3
    found = []
    asking = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    asking.start()
    asking.join()
    assert found == [3]
    assert allowed_threads() == 1


@pytest.mark.parametrize("method", ["umc", "sbcr"])
def test_a_fit_by_two_threads_has_the_bits_of_one(method, monkeypatch):
    monkeypatch.setattr(wide_solver, "_BLOCK_ROWS", 4_096)
    monkeypatch.setattr("monocal.calibrators.statistical.compiled_loops.COMPILED_FROM_CELLS", 1)
    monkeypatch.setattr("monocal.neural.neural_calibrator.CHUNK_ROWS", 3_000)
    log = monocal.simulate_log(30_000, seed=5)
    fits = []
    for n_threads in (1, 2, 3):
        calibrator = monocal.calibrator(method, n_epochs=1, batch_rows=1_024, n_threads=n_threads)
        fits.append(calibrator.fit(log.scores, log.labels, features=log.features))
    for other in fits[1:]:
        assert fits[0].weights_.keys() == other.weights_.keys()
        for name, array in fits[0].weights_.items():
            assert np.array_equal(array, other.weights_[name]), name
        assert fits[0].recent_shift_ == other.recent_shift_
        assert fits[0].carry_["network"] == other.carry_["network"]


def test_a_wide_fit_by_two_threads_has_the_bits_of_one(monkeypatch):
    monkeypatch.setattr(wide_solver, "_BLOCK_ROWS", 1_000)
    monkeypatch.setattr("monocal.calibrators.statistical.compiled_loops.COMPILED_FROM_CELLS", 1)
    shared, add = [], wide_solver.add_in_threads
    monkeypatch.setattr(wide_solver, "add_in_threads", lambda *given: shared.append(1) or add(*given))
    log = monocal.simulate_log(20_500, seed=1)
    sizes = log.features.max(axis=0).astype(np.int64) + 1
    rows = log.scores, log.labels.astype(float), np.random.default_rng(0).random(20_500), log.features, sizes
    found = []
    for n_threads in (1, 2, 5):
        with threads_for_rows(n_threads):
            found.append(wide_solver.solve_wide(*rows, l2=1.0, tolerance=1e-9, max_iterations=50))
        assert bool(shared) == (n_threads > 1)
    for other in found[1:]:
        assert np.array_equal(found[0].shifts, other.shifts)
        assert (found[0].slope, found[0].intercept) == (other.slope, other.intercept)


def test_the_cores_of_this_process_are_counted():
    assert usable_cores() >= 1
