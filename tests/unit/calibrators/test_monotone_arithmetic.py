"""Order is kept to the last bit, also by parameters that no ordinary log would give."""

import numpy as np
import pytest

from monocal.calibrators.binned import Isotonic, Sir
from monocal.calibrators.contract import CalibratorState
from monocal.calibrators.gauss_gamma import Gamma, Gauss
from monocal.calibrators.platt import Beta
from monocal.core.monotonicity import assert_monotone, neighbours
from monocal.core.scores import logit, shift_probabilities
from monocal.ops.numpy_ops import NUMPY
from monocal.testing.calibrator_laws import dense_probes

FITTED = {"scores_are_": "logit", "sampling_rate_": None, "n_fields_": 0, "recent_shift_": 0.0, "fell_back_": False}


def never_falls(calibrator, *, also=(), **learned):
    arrays = {name: value for name, value in learned.items() if isinstance(value, np.ndarray)}
    values = {name: value for name, value in learned.items() if name not in arrays}
    one = calibrator.restore(CalibratorState(arrays, {**FITTED, **values}))
    probes = np.union1d(dense_probes(one.predict), np.clip(also, -40.0, 40.0))
    return assert_monotone(lambda z, _: one.predict(z), logits=probes)


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (2.0, 0.5), (0.0, 3.0), (3.0, 0.0), (1e-9, 1e-9), (40.0, 40.0)])
@pytest.mark.parametrize("c", [0.0, -2.0, 13.0])
def test_beta_never_falls(a, b, c):
    near_zero = neighbours(np.linspace(-1.0, 1.0, 200), 100).ravel()
    never_falls(Beta(), also=near_zero, a_=a, b_=b, c_=c)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1.0, 1.0),
        (26.0, -1.0),  # flat at the right end
        (-1e-4, 1.0),  # flat at the left end
        (5.0, 0.0),
        (0.0, 0.7),
        (300.0, -11.0),
        (-1.0, 1e4),
        (-0.01, 400.0),
        (2.6000000000000001e-7, -1e-8),
    ],
)
@pytest.mark.parametrize("centre", [1e-4, 2.0, 26.0])
def test_gamma_never_falls(a, b, centre):
    # where the prediction is about one half, float64 probabilities see the most of the logit
    c = -(a * np.log(centre) + b * centre)
    ends = neighbours(np.array([12.9999, 12.9, 12.0, -13.0, -12.9999, -11.0, 5.0, -12.5]), 2000).ravel()
    fine = np.concatenate([np.linspace(12.9, 13.0, 4000), np.linspace(-13.0, -12.999, 4000)])
    never_falls(Gamma(), also=np.concatenate([ends, fine]), a_=a, b_=b, c_=float(c))


def test_gamma_is_still_its_formula():
    calibrator = Gamma()
    for a, b, c in [(1.5, 0.2, -3.0), (26.0, -1.0, 0.5), (-1e-4, 1.0, -13.0), (3.0, -0.1, -4.0)]:
        calibrator.restore(CalibratorState({}, {**FITTED, "a_": a, "b_": b, "c_": c}))
        z = np.linspace(-14.0, 14.0, 57)
        r = np.clip(z + 13.0, 1e-4, 26.0)
        expected = 1.0 / (1.0 + np.exp(-(a * np.log(r) + b * r + c)))
        np.testing.assert_allclose(calibrator.predict(z), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("a", "b"), [(1.0, 26.0), (-1.0, 26.0), (0.0, 1.0), (0.02, 0.6), (-0.02, 0.6)])
def test_gauss_never_falls(a, b):
    never_falls(Gauss(), a_=a, b_=b, c_=-1.0)


@pytest.mark.parametrize(("a", "b"), [(0.02, 0.6), (-0.02, 0.6), (0.0, 1.0), (-0.01, 0.9)])
def test_gauss_is_still_its_formula(a, b):
    calibrator = Gauss().restore(CalibratorState({}, {**FITTED, "a_": a, "b_": b, "c_": -1.0}))
    z = np.linspace(-15.0, 15.0, 61)
    inside = np.clip(z, -13.0, 13.0)
    expected = 1.0 / (1.0 + np.exp(-(a * inside**2 + b * inside - 1.0)))
    np.testing.assert_allclose(calibrator.predict(z), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("kind", [Isotonic, Sir])
@pytest.mark.parametrize("shift", [0.0, 0.37, -2.0])
def test_broken_lines_never_fall_at_their_knots(kind, shift):
    generator = np.random.default_rng(3)
    for n_knots in (4, 4, 4, 4, 6, 300):
        knots = np.sort(generator.uniform(0.0, 1.0, n_knots)) ** 3
        rates = np.sort(generator.uniform(0.0, 1.0, n_knots // 2)).repeat(2)
        at = logit(knots)
        for _ in range(20):
            at = np.nextafter(at, -np.inf)
        never_falls(kind(), also=neighbours(at, 40).ravel(), knots_=knots, rates_=rates, recent_shift_=shift)


def test_a_broken_line_is_not_rounded_beyond_its_next_knot():
    knots, values = (
        np.array([0.1268630034530434, 0.6397833998204913]),
        np.array([0.065624278777352, 0.9059433534382965]),
    )
    just_before = np.array([np.nextafter(knots[1], 0.0)])
    assert np.interp(just_before, knots, values)[0] > values[1]
    assert NUMPY.interpolate(just_before, knots, values)[0] == values[1]


def test_a_shift_of_probabilities_never_turns_them_around():
    starts = np.concatenate([np.geomspace(1e-8, 0.5, 400), 1.0 - np.geomspace(1e-8, 0.5, 400)])
    p = np.unique(np.clip(neighbours(starts, 300), 0.0, 1.0))
    for shift in (-3.0, -0.1, 1e-9, 0.4, 5.0):
        assert (np.diff(shift_probabilities(p, shift)) >= 0.0).all()


def test_a_shift_of_probabilities_is_a_shift_of_logits():
    p = np.array([0.0, 1e-9, 0.01, 0.5, 0.9, 1.0])
    expected = 1.0 / (1.0 + np.exp(-(logit(p) + 0.7)))
    np.testing.assert_allclose(shift_probabilities(p, 0.7), expected, rtol=1e-13)
