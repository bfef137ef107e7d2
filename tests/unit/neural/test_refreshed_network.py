"""A refresh of a neural calibrator moves its share, shifts and level; the trained network stays until the next fit."""

import numpy as np
import pyarrow as pa
import pytest

import monocal
from monocal.calibrators import calibrator
from monocal.core.scores import sigmoid

N = 6_000
QUICK = {"size": "small", "n_threads": 1, "show_progress": False, "batch_rows": 256}


def day(number, curved=0.0):
    """Two sites; on the second one scores above −1 are too high by a factor that `curved` sets."""
    random = np.random.default_rng(number)
    z, site = random.normal(-1.0, 1.2, N), random.integers(1, 3, N)
    truth = z - np.where(site == 2, 0.8 * np.maximum(z + 1.0, 0.0), 0.0) + curved * np.abs(z + 1.0)
    labels = (random.random(N) < sigmoid(truth)).astype(float)
    return {"scores": z, "labels": labels, "features": site[:, None], "scores_are": "logit"}


@pytest.fixture(scope="module")
def fitted():
    """Believes its network: nothing is held back."""
    rows = [day(number) for number in range(3)]
    joined = {name: np.concatenate([row[name] for row in rows]) for name in ("scores", "labels", "features")}
    return calibrator("umc", carry="none", **QUICK).fit(**joined, scores_are="logit")


@pytest.fixture(scope="module")
def bent(fitted):
    """Three days after a day on which the curves became others."""
    generations = [fitted]
    for number in range(3):
        generations.append(generations[-1].refresh(**day(10 + number, curved=0.8)))
    return generations


def test_a_refresh_leaves_the_trained_network_alone(fitted, bent):
    for name, array in fitted.weights_.items():
        if name.startswith(("curve.", "encoder.")):
            assert np.array_equal(bent[-1].weights_[name], array), name
    assert not np.array_equal(bent[-1].weights_["wide.shifts"], fitted.weights_["wide.shifts"])


def test_refreshed_networks_are_monotone_repeatable_and_leave_the_old_one_alone(fitted, bent):
    again = fitted
    for number in range(3):
        again = again.refresh(**day(10 + number, curved=0.8))
    grid = np.linspace(-20.0, 20.0, 20_001)
    for site in (1, 2, 9):
        ids = np.full((grid.size, 1), site)
        p = bent[-1].predict(grid, features=ids, scores_are="logit")
        assert np.all(np.diff(p) >= 0.0)
        assert np.array_equal(p, again.predict(grid, features=ids, scores_are="logit"))
    restored = calibrator("umc", **bent[1].get_params()).restore(bent[1].state())
    following = restored.refresh(**day(11, curved=0.8))
    assert all(np.array_equal(following.weights_[name], array) for name, array in bent[2].weights_.items())


def test_several_tasks_and_a_network(tmp_path):
    log = monocal.simulate_log(40_000, seed=4).table()
    two = log.append_column("second", pa.array((np.arange(40_000) * 7 % 11 == 0).astype(int)))
    tasks = {"click": ("click", "pctr"), "second": ("second", "pctr")}
    model = monocal.fit(
        two.slice(0, 12_000),
        method=monocal.Umc(n_epochs=1, size="small"),
        tasks=tasks,
        fields=["site_id"],
        time="timestamp",
    )
    following = model.refresh(two.slice(20_000, 8_000))
    entry = following.info["history"][-1]["tasks"]
    assert set(entry) == {"click", "second"}
    assert set(entry["second"]) & {"network", "slope"}
    answers = following.predict(two.slice(28_000))
    for task in tasks:
        assert np.all((answers[task] > 0.0) & (answers[task] < 1.0))
        assert not np.array_equal(answers[task], model.predict(two.slice(28_000), task))
    following.save(tmp_path / "model")
    assert monocal.load(tmp_path / "model").fingerprint == following.fingerprint
