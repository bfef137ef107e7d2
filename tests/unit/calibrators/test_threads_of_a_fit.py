"""A fit borrows torch's number of threads and gives it back."""

import pytest

torch = pytest.importorskip("torch")

import monocal  # noqa: E402
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


@pytest.mark.parametrize("method", ["umc", "desc"])
def test_a_fit_trains_with_one_thread_and_gives_the_callers_number_back(threads, method):
    log = monocal.simulate_log(600, seed=2)
    monocal.calibrator(method, n_epochs=1).fit(log.scores, log.labels, features=log.features[:, 3:])
    assert set(threads) == {1}
    assert torch.get_num_threads() == 3


def test_none_keeps_the_callers_number(threads):
    log = monocal.simulate_log(600, seed=2)
    monocal.calibrator("umc", n_epochs=1, n_threads=None).fit(log.scores, log.labels, features=log.features[:, 3:])
    assert set(threads) == {3}
