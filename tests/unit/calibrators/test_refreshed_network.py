"""A network goes on with newer rows: a challenger learns, the next rows judge it, and it comes in only if it pays."""

import numpy as np
import pyarrow as pa
import pytest

import monocal
from monocal.calibrators import calibrator
from monocal.calibrators.neural.fitting.challenger import contest, judge_challenger
from monocal.core.samples import Samples
from monocal.core.spaces import sigmoid
from monocal.models.inspection import history_lines

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


def verdicts(generations):
    return [generation.moved_["trained_network"]["verdict"] for generation in generations[1:]]


def test_a_network_that_pays_on_later_rows_comes_in(fitted, bent):
    assert verdicts(bent)[:2] == ["begun", "adopted"]
    assert not np.array_equal(bent[2].weights_["curve.beta"], fitted.weights_["curve.beta"])
    later = day(20, curved=0.8)
    inputs = {name: later[name] for name in ("scores", "features", "scores_are")}
    alone = replace_network(bent[-1], fitted)
    losses = [
        -np.mean(np.log(np.where(later["labels"] == 1, p, 1 - p)))
        for p in (network.predict(**inputs) for network in (bent[-1], alone))
    ]
    assert losses[0] < losses[1] - 0.002


def replace_network(model, other):
    """The same calibrator with the network of another one."""
    copy = calibrator("umc", **model.get_params()).restore(model.state())
    network = {name: array for name, array in other.weights_.items() if name.startswith("curve.")}
    copy.weights_ = {**copy.weights_, **network}
    return copy


def test_a_network_is_left_alone_where_nothing_changed(fitted):
    following = fitted.refresh(**day(30)).refresh(**day(31))
    facts = following.moved_["trained_network"]
    assert facts["verdict"] != "adopted"
    for name, array in fitted.weights_.items():
        if name.startswith("curve."):
            assert np.array_equal(following.weights_[name], array), name


def test_refreshed_networks_are_monotone_repeatable_and_leave_the_old_one_alone(fitted, bent):
    assert "challenger_" not in vars(fitted)
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


def test_a_challenger_no_better_than_noise_does_not_come_in():
    rows = Samples.of(np.full(N, 0.3), np.arange(N) % 3 == 0)
    random = np.random.default_rng(0)
    same = np.full(N, -0.7)
    adopted = [contest(same, same + random.normal(0.0, 1e-3, N), rows).verdict == "adopted" for _ in range(200)]
    assert np.mean(adopted) < 0.06
    assert contest(same, same + 1.0, rows).verdict == "dropped"


def test_a_fit_that_did_without_its_network_trains_none():
    judged = judge_challenger(None, {"mix": np.zeros(1)}, {}, None, 0.0, "")
    assert not judged.goes_on
    assert judged.facts == {"verdict": "none", "why": "the fit did without one"}


@pytest.mark.parametrize("method", ["fac", "sbcr", "desc", "adacalib"])
def test_every_network_goes_on_or_says_why_not(method):
    rows = day(0)
    rows["features"] = np.column_stack([rows["features"], rows["features"]])
    options = {"carry": "none", "n_epochs": 1, "n_threads": 1, "show_progress": False}
    following = calibrator(method, **options).fit(**rows).refresh(**rows)
    facts = following.moved_["trained_network"]
    if method == "adacalib":
        assert facts == {"verdict": "none", "why": "adacalib keeps no network after a fit"}
        return
    assert facts == {"verdict": "begun"}
    trained = following.challenger_
    assert set(trained) == {name for name in following.weights_ if name.startswith("curve.")}
    assert any(not np.array_equal(array, following.weights_[name]) for name, array in trained.items())


def test_what_became_of_the_network_is_said_in_words(bent):
    moved = [{"level": {"moved": 0.0}, **generation.moved_, "fields": {}} for generation in bent[1:]]
    entry = {"generation": 2, "parent": "0123456789", "n_rows": 10, "new_values": {}}
    first, second, _ = history_lines({"history": [{**entry, "tasks": {"click": fact}} for fact in moved]})
    assert "network left alone (a second one was trained, which the next rows will judge)" in first
    assert "network replaced by the one trained on the rows before (log-loss -0." in second


def test_several_tasks_and_a_network(tmp_path):
    log = monocal.simulate_log(40_000, seed=4).table()
    two = log.append_column("second", pa.array((np.arange(40_000) * 7 % 11 == 0).astype(int)))
    tasks = {"click": ("click", "pctr"), "second": ("second", "pctr")}
    model = monocal.fit(
        two.slice(0, 12_000), method="umc", tasks=tasks, fields=["site_id"], time="timestamp", n_epochs=1, size="small"
    )
    following = model.refresh(two.slice(20_000, 8_000))
    entry = following.info["history"][-1]["tasks"]
    assert set(entry) == {"click", "second"}
    assert set(entry["second"]) & {"network", "slope"}
    assert all(task["trained_network"]["verdict"] in ("begun", "none") for task in entry.values())
    answers = following.predict(two.slice(28_000))
    for task in tasks:
        assert np.all((answers[task] > 0.0) & (answers[task] < 1.0))
        assert not np.array_equal(answers[task], model.predict(two.slice(28_000), task))
    following.save(tmp_path / "model")
    assert monocal.load(tmp_path / "model").fingerprint == following.fingerprint
