"""Neural calibrators with carry-over: the share of the network, what it may see, and that nothing breaks order."""

import numpy as np
import pytest

from monocal.calibrators import calibrator
from monocal.lab.simulator import Compose, Drifting, Field, Lasting, World, simulate_log
from monocal.neural.fitted import CompiledUmc

QUICK = {"size": "small", "n_epochs": 2, "n_threads": 1, "show_progress": False}


def fitted(log, **arguments):
    one = calibrator("umc", **QUICK, **arguments)
    return one.fit(log.logits, log.labels, features=log.features, times=log.times, scores_are="logit")


@pytest.fixture(scope="module")
def bent():
    """Curves that depend on the features and stay: what the network is for."""
    return simulate_log(60_000, world="conditional")


@pytest.fixture(scope="module")
def passing():
    """Shifts of one field that change every day, which is what a network must not learn."""
    fields = tuple(Field(name, 300, exponent=0.3) for name in ("a", "b"))
    drifting = Drifting((Lasting("a", transient=1.0), Lasting("b", persistent=0.4)), n_periods=20)
    world = World("for a test", fields, 0.3, Compose(drifting), draws="score", days=20)
    return simulate_log(40_000, world=world)


def test_a_network_that_holds_is_kept(bent):
    one = fitted(bent)
    assert one.carry_["network"][0] > 0.3
    assert one.weights_["mix"][0] == one.carry_["network"][0]
    last = max(name for name in one.weights_ if name.startswith("curve.trunk.") and name.endswith("weight"))
    assert (one.weights_[last] != 0.0).any(axis=1).all()  # no height of the curve stayed where it started


def test_a_field_that_passes_leaves_the_network_too(passing):
    one = fitted(passing)
    assert one.carry_["share"][0] == 0.0
    assert one.carry_["share"][1] > 0.8
    sizes = np.diff(one.weights_["encoder.offsets"])
    assert np.unique(one.weights_["encoder.slots"][: sizes[0]]).size == 1
    first, second = ([[1, 3]], [[9, 3]])
    assert one.predict([0.3], features=first)[0] == one.predict([0.3], features=second)[0]


def test_the_mix_is_the_same_compiled_and_by_numpy(bent, monkeypatch):
    one = fitted(bent.take(slice(0, 20_000)))
    few = bent.take(slice(0, 500))
    assert isinstance(one._fitted_map(), CompiledUmc)
    for share in (1.0, 0.37, 0.05):
        one.weights_ = {**one.weights_, "mix": np.array([share])}
        quick = one.predict(few.logits, features=few.features)
        monkeypatch.setattr("monocal.neural.methods.numba_is_installed", lambda: False)
        one.weights_ = dict(one.weights_)
        np.testing.assert_allclose(one.predict(few.logits, features=few.features), quick, atol=1e-6)
        monkeypatch.undo()


def test_a_rejected_network_leaves_a_line_and_shifts(bent):
    one = fitted(bent.take(slice(0, 20_000)))
    one.weights_ = {**one.weights_, "mix": np.array([0.0])}
    few = bent.take(slice(0, 100))
    slope, intercept = one.weights_["affine"]
    logits = slope * few.logits + intercept + one.weights_["wide.intercept"][0] + one.recent_shift_
    for field in range(few.features.shape[1]):
        start, end = one.weights_["wide.offsets"][field : field + 2]
        ids = few.features[:, field]
        logits += one.weights_["wide.shifts"][start + np.where(ids < end - start, ids, 0)]
    p = one.predict(few.logits, features=few.features)
    np.testing.assert_allclose(p, 1.0 / (1.0 + np.exp(-logits)), rtol=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.63])
def test_order_holds_after_the_mix_on_sharp_weights(bent, share):
    one = fitted(bent.take(slice(0, 20_000)))
    random = np.random.default_rng(0)
    sharp = {
        name: (value + 3.0 * random.normal(size=value.shape)).astype(value.dtype) if ".weight" in name else value
        for name, value in one.weights_.items()
    }
    one.weights_ = {**sharp, "mix": np.array([share])}
    sweep = np.linspace(-8.0, 4.0, 4001)
    for row in range(5):
        p = one.predict(sweep, features=np.repeat(bent.features[row : row + 1], sweep.size, axis=0))
        assert np.all(np.diff(p) >= 0.0)


def test_published_presets_and_none_learn_no_shares(bent):
    few = bent.take(slice(0, 3000))
    published = calibrator("umc_concat", preset="authors", n_epochs=1)
    for one in (published, calibrator("umc", **{**QUICK, "carry": "none"})):
        one.fit(few.logits, few.labels, features=few.features, scores_are="logit")
        assert "carry_" not in vars(one)
        assert "mix" not in one.weights_


def test_rows_of_one_moment_prove_nothing_about_time(bent):
    at_once = np.zeros(bent.labels.shape[0], dtype=np.int64)
    one = calibrator("umc", **QUICK)
    one.fit(bent.logits, bent.labels, features=bent.features, times=at_once, scores_are="logit")
    assert one.carry_["network"][0] == 0.0
    assert (one.carry_["share"] == 0.5).all()
    kept = calibrator("umc", **QUICK, carry={0: 1.0})
    kept.fit(bent.logits, bent.labels, features=bent.features, times=at_once, scores_are="logit")
    assert kept.carry_["share"].tolist()[:2] == [1.0, 0.5]
