"""Laws that every calibrator keeps; run `check_calibrator` on your own."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from monocal.calibrators import Calibrator
from monocal.calibrators.classifier import NotFitted
from monocal.core.errors import InvalidInput, MonocalWarning
from monocal.core.fields import Ids
from monocal.core.monotonicity import Predict, assert_monotone
from monocal.core.scores import Floats, log_loss, logit
from monocal.lab.simulator import Affine, simulate_log
from monocal.testing.probes import Curve, dense_probes

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
    scores, labels, features = _rows()
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
    try:
        clone(calibrator).predict([0.5], features=[[1]])
    except NotFitted as error:
        assert "before fit" in str(error)
    else:
        raise AssertionError("predict before fit did not raise")


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
    for row in some[:, None]:
        predict = _curve(fitted, row)
        assert_monotone(_without_rows(predict), logits=dense_probes(predict))
        if tag == "strict":
            steps = np.diff(predict(np.linspace(-10.0, 10.0, 401)))
            assert np.all(steps > 0.0), "tagged strict, but two scores apart have the same prediction"


def check_rows_are_independent(calibrator: Calibrator) -> None:
    """Neither row order nor batch size changes a prediction."""
    fitted, features = _fitted(calibrator)
    scores, _, _ = _rows()
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
    scores, labels, features = _rows()
    if _is_trained_by_batches(calibrator):
        times = np.where((labels == 1.0) & (features[:, 0] % 2 == 1), 3, 1)
        times[(labels == 0.0) & (scores > np.median(scores))] = 3
    else:
        times = np.random.default_rng(1).integers(0, 3, scores.size)
    rows = np.repeat(np.arange(scores.size), times)
    weighted = clone(calibrator).fit(scores, labels, features=features, weights=times)
    repeated = clone(calibrator).fit(scores[rows], labels[rows], features=features[rows])
    a = weighted.predict(scores, features=features)
    b = repeated.predict(scores, features=features)
    if _is_trained_by_batches(calibrator):
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
    scores, labels, features = _rows()
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
    assert _log_loss(p, test.labels) < allowed * _log_loss(test.scores, test.labels), "harms calibrated scores"


def check_a_known_distortion_is_reduced(calibrator: Calibrator) -> None:
    """Logits that are half as steep as they should be get closer to the truth, unless the method does nothing."""
    fit, test = _distorted(0), _distorted(1)
    fitted = clone(calibrator).fit(fit.scores, fit.labels, features=fit.features)
    p = fitted.predict(test.scores, features=test.features)
    before, after = _log_loss(test.scores, test.labels), _log_loss(p, test.labels)
    if calibrator.name == "none":
        assert after == before or abs(after - before) < 1e-6
    else:
        assert after < before, f"log-loss {before:.4f} became {after:.4f}"


def check_mean_is_kept_as_tagged(calibrator: Calibrator) -> None:
    """Where promised, the mean prediction on the fitting rows is their observed rate."""
    if not calibrator.tags.keeps_mean or calibrator.recent_share:
        return
    fitted, features = _fitted(calibrator)
    scores, labels, _ = _rows()
    p = fitted.predict(scores, features=features)
    assert abs(p.mean() / labels.mean() - 1.0) < 1e-4, "the mean prediction is not the observed rate"


def check_awkward_data_are_handled(calibrator: Calibrator) -> None:
    """One class is refused with a hint; a constant score and a handful of rows have a defined result."""
    features = np.ones((4, 2), dtype=np.int32)
    try:
        clone(calibrator).fit([0.1, 0.2, 0.3, 0.4], [1, 1, 1, 1], features=features)
    except InvalidInput as error:
        assert "both 0 and 1" in str(error)
    else:
        raise AssertionError("labels of one class were accepted")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MonocalWarning)
        for scores in ([0.2, 0.2, 0.2, 0.2], [0.0, 1.0, 0.5, 0.5]):
            fitted = clone(calibrator).fit(scores, [0, 1, 0, 1], features=features)
            assert np.isfinite(fitted.predict(scores, features=features)).all(), f"not finite after fitting {scores}"
    for bad in ([np.nan, 0.1, 0.2, 0.3], [1.5, 0.1, 0.2, 0.3]):
        try:
            clone(calibrator).fit(bad, [0, 1, 0, 1], features=features)
        except InvalidInput as error:
            assert "scores" in str(error)
        else:
            raise AssertionError(f"scores {bad} were accepted")


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
    scores, _, _ = _rows()
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


class _Log:
    def __init__(self, log: Any) -> None:
        self.scores: Floats = log.scores
        self.labels: NDArray[np.float64] = log.labels.astype(np.float64)
        self.features: Ids = np.ascontiguousarray(log.features[:, _FIELDS])


def _simulated(world: str, seed: int) -> _Log:
    return _Log(simulate_log(N_ROWS, seed=seed, world=world))


def _distorted(seed: int) -> _Log:
    return _Log(simulate_log(N_ROWS, seed=seed, world="calibrated", distortion=Affine(slope=0.5, intercept=0.5)))


def _rows() -> tuple[Floats, NDArray[np.float64], Ids]:
    log = _simulated("default", 0)
    return log.scores, log.labels, log.features


_KEPT: dict[str, Calibrator] = {}


def _fitted(calibrator: Calibrator) -> tuple[Calibrator, Ids]:
    """Returns a fitted clone, the same one for several laws: fitting is most of their time."""
    scores, labels, features = _rows()
    key = f"{type(calibrator).__qualname__} {sorted(calibrator.get_params(deep=False).items())}"
    if key not in _KEPT:
        _KEPT.clear()
        _KEPT[key] = clone(calibrator).fit(scores, labels, features=features)
    return _KEPT[key], features


def _is_trained_by_batches(calibrator: Calibrator) -> bool:
    return not calibrator.tags.weights_exactly


def _curve(fitted: Calibrator, row: Ids) -> Curve:
    def predict(logits: Floats) -> Floats:
        return fitted.predict(logits, features=np.repeat(row, logits.size, axis=0), scores_are="logit")

    return predict


def _without_rows(predict: Curve) -> Predict:
    return lambda logits, _: predict(logits)


def _global_generators() -> list[NDArray[Any]]:
    states: list[NDArray[Any]] = [np.random.get_state()[1].copy()]  # type: ignore[index]  # noqa: NPY002
    if find_spec("torch") is not None:
        import torch

        states.append(torch.random.get_rng_state().numpy().copy())
    return states


def _log_loss(p: Floats, labels: NDArray[np.float64]) -> float:
    return log_loss(logit(p), labels)
