"""A fit borrows torch's number of threads and gives it back; how many threads share it changes nothing but the time."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import monocal  # noqa: E402
from monocal.core.process import allowed_threads  # noqa: E402
from monocal.neural import train  # noqa: E402


def test_a_training_has_one_thread_of_torch_and_the_caller_gets_its_number_back(monkeypatch):
    before, seen, step = torch.get_num_threads(), [], train.Adam.step
    monkeypatch.setattr(train.Adam, "step", lambda own: seen.append(torch.get_num_threads()) or step(own))
    torch.set_num_threads(3)
    try:
        log = monocal.simulate_log(600, seed=2)
        monocal.calibrator("umc", n_epochs=1, n_threads=2).fit(log.scores, log.labels, features=log.features)
        assert set(seen) == {1}
        assert torch.get_num_threads() == 3
        assert allowed_threads() == 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("method", ["umc", "sbcr"])
def test_a_fit_by_two_threads_has_the_bits_of_one(method, monkeypatch):
    monkeypatch.setattr("monocal.core.dataset.BLOCK_ROWS", 4_096)
    monkeypatch.setattr("monocal.wide.solver.COMPILED_FROM_CELLS", 1)
    monkeypatch.setattr("monocal.neural.base.CHUNK_ROWS", 3_000)
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
