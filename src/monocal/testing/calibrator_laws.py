"""Laws that every calibrator keeps; run `check_calibrator` on your own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from monocal.calibrators import Calibrator
from monocal.calibrators.classifier import NotFitted
from monocal.core.errors import InvalidInput, MonocalWarning
from monocal.core.fields import Ids
from monocal.core.monotonicity import assert_monotone, neighbours
from monocal.core.scores import LOGIT_LIMIT, Floats, log_loss, logit
from monocal.lab.simulator import Affine, simulate_log

N_ROWS = 4000

Law = Callable[[Calibrator], None]


def check_calibrator(calibrator: Calibrator) -> None:
    """Checks an unfitted calibrator against every law; an AssertionError says which one is broken.

    Arguments:
        calibrator: Any calibrator, with any parameters. It is cloned, never fitted itself.

    Example:
        >>> from monocal.calibrators.platt import Platt
        >>> check_calibrator(Platt())
    """
    for law in LAWS:
        law(calibrator)


def check_fit_returns_self_and_mutates_nothing(calibrator: Calibrator) -> None:
    """`fit` returns the object itself; parameters and inputs are as they were."""
    scores, labels, features = _simulated()
    copies = scores.copy(), labels.copy(), features.copy()
    fitted = clone(calibrator)
    before = fitted.get_params(deep=False)
    assert fitted.fit(scores, labels, features=features) is fitted, "fit did not return self"
    assert fitted.get_params(deep=False) == before, "fit changed a parameter"
    for given, copy in zip((scores, labels, features), copies, strict=True):
        np.testing.assert_array_equal(given, copy, err_msg="fit changed its input")
    fitted.predict(scores, features=features)
    np.testing.assert_array_equal(scores, copies[0], err_msg="predict changed its input")


def check_predict_before_fit_explains_itself(calibrator: Calibrator) -> None:
    """An unfitted calibrator says so, with a hint."""
    with _refused(NotFitted, "before fit", "predict before fit did not raise"):
        clone(calibrator).predict([0.5], features=[[1]])


def check_output_is_a_probability_for_any_logit(calibrator: Calibrator) -> None:
    """Finite and in [0, 1] for logits from −40 to 40, scores 0 and 1, a single row, unseen ids."""
    fitted, features = _fitted(calibrator)
    grid = np.linspace(-40.0, 40.0, 801)
    rows = np.repeat(features[:1], grid.size, axis=0)
    p = fitted.predict(grid, features=rows, scores_are="logit")
    assert p.shape == grid.shape
    assert p.dtype == np.float64
    assert np.isfinite(p).all(), "a prediction is not finite"
    assert p.min() >= 0.0, "a prediction is below 0"
    assert p.max() <= 1.0, "a prediction is above 1"
    ends = fitted.predict([0.0, 1.0], features=features[:2])
    assert np.isfinite(ends).all(), "scores 0 and 1 have no finite prediction"
    unseen = np.zeros_like(features[:1])
    first = fitted.predict([0.3], features=unseen)
    for beyond in (np.full_like(unseen, 2**31 - 1), features.max(axis=0, keepdims=True) + 1):
        answer = fitted.predict([0.3], features=beyond)
        np.testing.assert_array_equal(first, answer, err_msg="an id beyond the table is not treated as unseen")
        answer = fitted.row_scorer()(logit([0.3]), beyond)
        np.testing.assert_array_equal(first, answer, err_msg="an id beyond the table is served otherwise")


def check_monotone_as_tagged(calibrator: Calibrator) -> None:
    """On a fitted model, to the last bit: 16,000 steps, the curve's kinks and chains of neighbouring numbers."""
    tag = calibrator.tags.monotone
    if tag == "none":
        return
    fitted, features = _fitted(calibrator)
    some = np.concatenate([features[np.linspace(0, len(features) - 1, 4).astype(int)], np.zeros_like(features[:1])])

    def predict(logits: Floats, rows: Ids) -> Floats:
        return fitted.predict(logits, features=rows, scores_are="logit")

    for row in some[:, None]:
        kinks = dense_probes(lambda logits, row=row: predict(logits, row.repeat(logits.size, 0)))  # type: ignore[misc]
        assert_monotone(predict, row, logits=kinks)
        if tag == "strict":
            steps = np.diff(predict(np.linspace(-10.0, 10.0, 401), row.repeat(401, 0)))
            assert np.all(steps > 0.0), "tagged strict, but two scores apart have the same prediction"


def check_rows_are_independent(calibrator: Calibrator) -> None:
    """Neither row order nor batch size changes a prediction."""
    fitted, features = _fitted(calibrator)
    scores, _, _ = _simulated()
    whole = fitted.predict(scores[:300], features=features[:300])
    order = np.random.default_rng(0).permutation(300)
    shuffled = fitted.predict(scores[:300][order], features=features[:300][order])
    np.testing.assert_allclose(shuffled, whole[order], rtol=0.0, atol=1e-7, err_msg="row order matters")
    singles = [fitted.predict(scores[k : k + 1], features=features[k : k + 1])[0] for k in range(0, 300, 60)]
    np.testing.assert_allclose(singles, whole[::60], rtol=0.0, atol=1e-7, err_msg="batch size matters")


def check_weights_are_repetitions(calibrator: Calibrator) -> None:
    """Weight k is the row k times, weight 0 is no row.

    Methods trained by mini-batches draw other batches from repeated rows. For them weights are chosen that move the
    answer far (clicks of odd values and misses of high scores count three times), and the weighted fit must be closer
    to the repeated one than half the distance of a fit without weights. With a recent share the newest slice may
    begin inside a repeated row, which moves the shift by one row's worth. All others must agree to 1e-6.
    """
    scores, labels, features = _simulated()
    is_trained_by_batches = not calibrator.tags.weights_exactly
    if is_trained_by_batches:
        times = np.where((labels == 1.0) & (features[:, 0] % 2 == 1), 3, 1)
        times[(labels == 0.0) & (scores > np.median(scores))] = 3
    else:
        times = np.random.default_rng(1).integers(0, 3, scores.size)
    rows = np.repeat(np.arange(scores.size), times)
    weighted = clone(calibrator).fit(scores, labels, features=features, weights=times)
    repeated = clone(calibrator).fit(scores[rows], labels[rows], features=features[rows])
    a = weighted.predict(scores, features=features)
    b = repeated.predict(scores, features=features)
    if is_trained_by_batches:
        unweighted = clone(calibrator).fit(scores, labels, features=features).predict(scores, features=features)
        share = np.abs(logit(a) - logit(b)).mean() / np.abs(logit(unweighted) - logit(b)).mean()
        assert share < 0.5, f"weights do {1.0 - share:.0%} of what repetition does"
    else:
        tolerance = 1e-2 if calibrator.recent_share else 1e-6
        np.testing.assert_allclose(a, b, rtol=0.0, atol=tolerance, err_msg="weights are not repetitions")


def check_same_seed_same_result(calibrator: Calibrator) -> None:
    """Two fits agree bit by bit, and the global generators of numpy and torch are untouched."""
    before = _global_generators()
    first, _ = _fitted(calibrator)
    scores, labels, features = _simulated()
    second = clone(calibrator).fit(scores, labels, features=features)
    np.testing.assert_array_equal(
        first.predict(scores, features=features), second.predict(scores, features=features), err_msg="not repeatable"
    )
    for state, other in zip(before, _global_generators(), strict=True):
        np.testing.assert_array_equal(state, other, err_msg="a global generator was used")


def check_calibrated_scores_are_not_made_worse(calibrator: Calibrator) -> None:
    """On fresh rows of a world whose score is the truth, log-loss rises by at most 4 %.

    Methods that are not monotone may put many scores into one bin, and lose up to 12 % with the order.
    """
    fit, test = _simulated("calibrated", 0), _simulated("calibrated", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MonocalWarning)
        fitted = clone(calibrator).fit(fit.scores, fit.labels, features=fit.features)
    p = fitted.predict(test.scores, features=test.features)
    allowed = 1.12 if calibrator.tags.monotone == "none" else 1.04
    after, before = log_loss(logit(p), test.labels), log_loss(logit(test.scores), test.labels)
    assert after < allowed * before, "harms calibrated scores"


def check_a_known_distortion_is_reduced(calibrator: Calibrator) -> None:
    """Logits that are half as steep as they should be get closer to the truth, unless the method does nothing."""
    half = Affine(slope=0.5, intercept=0.5)
    fit, test = (_simulated("calibrated", seed, distortion=half) for seed in (0, 1))
    fitted = clone(calibrator).fit(fit.scores, fit.labels, features=fit.features)
    p = fitted.predict(test.scores, features=test.features)
    before, after = log_loss(logit(test.scores), test.labels), log_loss(logit(p), test.labels)
    if calibrator.name == "none":
        assert after == before or abs(after - before) < 1e-6
    else:
        assert after < before, f"log-loss {before:.4f} became {after:.4f}"


def check_mean_is_kept_as_tagged(calibrator: Calibrator) -> None:
    """Where promised, the mean prediction on the fitting rows is their observed rate."""
    if not calibrator.tags.keeps_mean or calibrator.recent_share:
        return
    fitted, features = _fitted(calibrator)
    scores, labels, _ = _simulated()
    p = fitted.predict(scores, features=features)
    assert abs(p.mean() / labels.mean() - 1.0) < 1e-4, "the mean prediction is not the observed rate"


def check_awkward_data_are_handled(calibrator: Calibrator) -> None:
    """One class is refused with a hint; a constant score and a handful of rows have a defined result."""
    features = np.ones((4, 2), dtype=np.int32)
    with _refused(InvalidInput, "both 0 and 1", "labels of one class were accepted"):
        clone(calibrator).fit([0.1, 0.2, 0.3, 0.4], [1, 1, 1, 1], features=features)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MonocalWarning)
        for scores in ([0.2, 0.2, 0.2, 0.2], [0.0, 1.0, 0.5, 0.5]):
            fitted = clone(calibrator).fit(scores, [0, 1, 0, 1], features=features)
            assert np.isfinite(fitted.predict(scores, features=features)).all(), f"not finite after fitting {scores}"
    for bad in ([np.nan, 0.1, 0.2, 0.3], [1.5, 0.1, 0.2, 0.3]):
        with _refused(InvalidInput, "scores", f"scores {bad} were accepted"):
            clone(calibrator).fit(bad, [0, 1, 0, 1], features=features)


def check_clone_and_parameters_round_trip(calibrator: Calibrator) -> None:
    """`clone`, `get_params` and `repr` agree; constructing only stores."""
    copy = clone(calibrator)
    assert copy is not calibrator
    assert copy.get_params(deep=False) == calibrator.get_params(deep=False)
    assert not [name for name in vars(type(calibrator)()) if name.endswith("_")], "constructing learned something"
    assert repr(calibrator).startswith(type(calibrator).__name__ + "(")


def check_state_round_trip_gives_identical_numbers(calibrator: Calibrator) -> None:
    """A calibrator restored from its state predicts the same bits."""
    fitted, features = _fitted(calibrator)
    scores, _, _ = _simulated()
    restored = clone(calibrator).restore(fitted.state())
    np.testing.assert_array_equal(
        fitted.predict(scores, features=features), restored.predict(scores, features=features), err_msg="state loses"
    )


LAWS: tuple[Law, ...] = (
    check_fit_returns_self_and_mutates_nothing,
    check_predict_before_fit_explains_itself,
    check_output_is_a_probability_for_any_logit,
    check_monotone_as_tagged,
    check_rows_are_independent,
    check_weights_are_repetitions,
    check_same_seed_same_result,
    check_calibrated_scores_are_not_made_worse,
    check_a_known_distortion_is_reduced,
    check_mean_is_kept_as_tagged,
    check_awkward_data_are_handled,
    check_clone_and_parameters_round_trip,
    check_state_round_trip_gives_identical_numbers,
)

_FIELDS = [2, 5]
"""Country and device: few values, so that a few thousand rows say something about each."""


class _Rows(NamedTuple):
    scores: Floats
    labels: Floats
    features: Ids


def _simulated(world: str = "default", seed: int = 0, **options: Any) -> _Rows:
    log = simulate_log(N_ROWS, seed=seed, world=world, **options)
    return _Rows(log.scores, log.labels.astype(np.float64), np.ascontiguousarray(log.features[:, _FIELDS]))


_KEPT: dict[str, Calibrator] = {}


def _fitted(calibrator: Calibrator) -> tuple[Calibrator, Ids]:
    """Returns a fitted clone, the same one for several laws: fitting is most of their time."""
    scores, labels, features = _simulated()
    key = f"{type(calibrator).__qualname__} {sorted(calibrator.get_params(deep=False).items())}"
    if key not in _KEPT:
        _KEPT.clear()
        _KEPT[key] = clone(calibrator).fit(scores, labels, features=features)
    return _KEPT[key], features


@contextmanager
def _refused(kind: type[Exception], words: str, otherwise: str) -> Iterator[None]:
    try:
        yield
    except kind as error:
        assert words in str(error)
    else:
        raise AssertionError(otherwise)


def _global_generators() -> list[NDArray[Any]]:
    states: list[NDArray[Any]] = [np.random.get_state()[1].copy()]  # type: ignore[index]  # noqa: NPY002
    if find_spec("torch") is not None:
        import torch

        states.append(torch.random.get_rng_state().numpy().copy())
    return states


# Where a curve that should never fall is probed


Curve = Callable[[Floats], Floats]

_N_STEPS = 16_000
_KINKS, _PIECES, _ROUNDS = 24, 32, 7


def dense_probes(curve: Curve, *, seed: int = 0) -> Floats:
    """Returns sorted logits from −40 to 40: an even grid of 16,000 steps, the curve's kinks, chains of neighbours.

    A grid finds wrong shapes. Between two pieces of a curve a rounding error can make a step down that is narrower
    than any grid: the cells where the slope changes most are divided 32-fold, seven times over, down to neighbouring
    float64 numbers. Chains of numbers without any float64 in between find functions that round up and down in turn.

    Arguments:
        curve: Takes logits, returns one prediction each.
        seed: Of the places where chains start.

    Example:
        >>> probes = dense_probes(lambda z: np.where(z < 0.3, z, 0.3))
        >>> len(probes) > 16_000, float(probes[0]), float(probes[-1])
        (True, -40.0, 40.0)
        >>> bool(np.isin([np.nextafter(0.3, -1.0), 0.3], probes).all())
        True
    """
    grid = np.linspace(-LOGIT_LIMIT, LOGIT_LIMIT, _N_STEPS + 1)
    generator = np.random.default_rng(seed)
    starts = np.concatenate([generator.uniform(-1.0, 1.0, 24), generator.uniform(-16.2, 16.2, 24)])
    return np.unique(np.concatenate([grid, _around_kinks(curve, grid), neighbours(starts, 48).ravel()]))


def _around_kinks(curve: Curve, grid: Floats) -> Floats:
    found = [np.zeros(0)]
    second_differences = np.abs(np.diff(curve(grid), n=2))
    middles = np.argsort(second_differences)[-_KINKS:] + 1
    low, high = grid[middles - 1], grid[middles + 1]
    for _ in range(_ROUNDS):
        pieces = np.clip(np.linspace(low, high, _PIECES + 1, axis=1), grid[0], grid[-1])
        found.append(pieces.ravel())
        second_differences = np.abs(np.diff(curve(pieces.ravel()).reshape(pieces.shape), n=2, axis=1))
        at = np.argmax(second_differences, axis=1)
        each = np.arange(_KINKS)
        low, high = pieces[each, at], pieces[each, at + 2]
    middle = 0.5 * (low + high)
    for _ in range(24):
        middle = np.nextafter(middle, -np.inf)
    found.append(neighbours(middle, 48).ravel())
    return np.clip(np.concatenate(found), grid[0], grid[-1])
