"""A saved model whose learned numbers contradict its promise of order is refused, whichever rows it remembers."""

import numpy as np
import pytest

import monocal
from monocal.calibrators import calibrator
from monocal.core.errors import ArtefactError

FIELDS = ["site_id", "country"]


@pytest.fixture(scope="module")
def log():
    return monocal.simulate_log(6_000, seed=1).table()


def fitted(log, method, **arguments):
    return monocal.fit(log, method=calibrator(method, **arguments), score="pctr", label="click", fields=FIELDS)


def test_a_falling_segment_that_no_remembered_row_falls_into_is_refused(log, tmp_path):
    model = fitted(log, "per_segment", field=0, min_events=5)
    one = model.tasks[0].calibrator
    remembered = set(model.canary["ids"][:, 0].tolist())
    places = [k for k, value in enumerate(one.values_.tolist()) if value not in remembered]
    one.segments_[places[0]].slope_ = -1.0
    folder = model.save(tmp_path / "model")
    with pytest.raises(ArtefactError, match="the prediction falls"):
        monocal.load(folder)


def lower(arrays, name, place):
    changed = arrays[name].copy()
    changed[place] = -1.0
    return {**arrays, name: changed}


BREAKS = {
    "platt": lambda one: setattr(one, "slope_", -1e-3),
    "temperature": lambda one: setattr(one, "temperature_", -5.0),
    "beta": lambda one: setattr(one, "b_", float("nan")),
    "isotonic": lambda one: setattr(one, "rates_", one.rates_[::-1].copy()),
    "sir": lambda one: setattr(one, "knots_", one.knots_[::-1].copy()),
    "wide_logistic": lambda one: setattr(one, "slope_", -0.5),
    "umc": lambda one: setattr(one, "weights_", lower(one.weights_, "affine", 0)),
    "sbcr": lambda one: setattr(one, "weights_", {**one.weights_, "mix": np.array([1.5])}),
    "umc_concat": lambda one: setattr(one, "weights_", lower(one.weights_, "affine", 0)),
}


@pytest.mark.parametrize("method", BREAKS)
def test_learned_numbers_that_contradict_the_tag_are_named(log, method):
    quick = {"n_epochs": 1} if method in ("umc", "umc_concat", "sbcr") else {}
    one = fitted(log, method, **quick).tasks[0].calibrator
    assert one.broken_promise() is None
    BREAKS[method](one)
    assert one.broken_promise() is not None


def test_a_falling_base_curve_is_named(log):
    one = fitted(log, "wide_logistic").tasks[0].calibrator
    for last, broken in ((2.0, None), (0.5, "a slope of base_ is -0.5")):
        one.base_ = {"knots": np.array([-1.0, 0.0, 1.0]), "values": np.array([0.0, 1.0, last])}
        assert one.broken_promise() == broken


def test_a_fall_between_the_scores_that_a_load_tries_is_refused(log, tmp_path):
    model = fitted(log, "isotonic")
    one = model.tasks[0].calibrator
    place = int(np.argmax(np.diff(one.rates_)))
    one.knots_ = np.insert(one.knots_, place + 1, one.knots_[place] + np.array([1e-12, 2e-12]))
    one.rates_ = np.insert(one.rates_, place + 1, [one.rates_[place] + 1e-9, one.rates_[place]])
    with pytest.raises(ArtefactError, match="a step of rates_ is -1e-09, though isotonic is monotone"):
        monocal.load(model.save(tmp_path / "model"))
