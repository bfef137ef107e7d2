"""Proving, on a finished model, that a higher score never gets a lower prediction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.core.errors import InvalidInput, MonocalError
from monocal.core.scores import Floats

Predict = Callable[[Floats, Any], ArrayLike]


class NotMonotone(MonocalError, AssertionError):
    """A prediction fell although the score rose and the features stayed. The message shows the worst fall."""


@dataclass(frozen=True)
class MonotoneCheck:
    """What was checked and found in order.

    Attributes:
        n_curves: How many feature rows were swept.
        n_steps: How many pairs of neighbouring scores were compared.
        n_ties: How many of them had equal predictions.
        worst_fall: Largest decrease met; 0 unless a tolerance was given.
    """

    n_curves: int
    n_steps: int
    n_ties: int
    worst_fall: float


def swaps_within(lists: ArrayLike, scores: ArrayLike, probabilities: ArrayLike) -> int:
    """Returns how many neighbours by score, of the same list, have probabilities in the other order.

    Arguments:
        lists: Which list (query, request) each row is an item of.
        scores: The ranker's scores.
        probabilities: The calibrated ones.

    Example:
        >>> swaps_within(["a", "a", "b", "b"], [0.1, 0.2, 0.3, 0.3], [0.2, 0.1, 0.5, 0.4])
        1
    """
    groups = np.unique(lists, return_inverse=True)[1]
    z, p = np.asarray(scores, dtype=np.float64), np.asarray(probabilities, dtype=np.float64)
    order = np.lexsort((p, z, groups))
    same_list = np.diff(groups[order]) == 0
    return int(np.count_nonzero(same_list & (np.diff(z[order]) > 0.0) & (np.diff(p[order]) < 0.0)))


def probe_logits(
    low: float = -16.0,
    high: float = 16.0,
    *,
    n_points: int = 2001,
    n_chains: int = 50,
    chain_length: int = 20,
    seed: int = 0,
) -> Floats:
    """Returns sorted logits to probe a curve: an even grid, and chains of neighbouring float32 numbers.

    A grid finds wrong shapes; chains of numbers without any float32 in between find rounding errors.

    Arguments:
        low: Left end.
        high: Right end.
        n_points: Points of the grid.
        n_chains: How many chains.
        chain_length: Numbers in each.
        seed: Of the places where chains start.

    Example:
        >>> probes = probe_logits(-1.0, 1.0, n_points=3, n_chains=1, chain_length=4)
        >>> len(probes), bool((np.diff(probes) > 0).all()), bool((probes == probes.astype(np.float32)).all())
        (7, True, True)
    """
    if not low < high or n_points < 2:
        raise InvalidInput.of(
            "low, high", f"[{low}, {high}] with {n_points} points", "low < high and 2 points", "widen the sweep"
        )
    grid = np.linspace(low, high, n_points).astype(np.float32)
    starts = np.random.default_rng(seed).uniform(low, high, size=n_chains).astype(np.float32)
    return np.unique(np.concatenate([grid, neighbours(starts, chain_length).ravel()])).astype(np.float64)


def neighbours(starts: NDArray[Any], n_numbers: int) -> NDArray[Any]:
    """Returns, for every start, a row of consecutive numbers of its type.

    Example:
        >>> chain = neighbours(np.array([1.0]), 3)[0]
        >>> bool(chain[1] == np.nextafter(1.0, 2.0)), bool(chain[2] == np.nextafter(chain[1], 2.0))
        (True, True)
    """
    chain = [starts]
    for _ in range(n_numbers - 1):
        chain.append(np.nextafter(chain[-1], np.inf))
    return np.stack(chain, axis=1)


def assert_monotone(
    predict: Predict,
    rows: NDArray[Any] | None = None,
    *,
    logits: ArrayLike | None = None,
    tolerance: float = 0.0,
) -> MonotoneCheck:
    """Sweeps the score for every given feature row and raises `NotMonotone` if a prediction ever falls.

    Works on anything that can predict: a fitted calibrator, a loaded model, a compiled predictor. Costs one call of
    a few thousand rows per feature row, so it can run after every training and before every deployment.

    Arguments:
        predict: Takes logits `(m,)` and `m` copies of one feature row, returns probabilities or logits `(m,)`.
        rows: Feature rows `(c, F)`, for example a sample of the log; None sweeps once and passes None on.
        logits: Increasing logits to sweep; `probe_logits()` if not given.
        tolerance: A fall up to this size is forgiven. The default forgives nothing.

    Example:
        >>> assert_monotone(lambda t, _: np.tanh(t), logits=[-1.0, 0.0, 2.0])
        MonotoneCheck(n_curves=1, n_steps=2, n_ties=0, worst_fall=0.0)
        >>> assert_monotone(lambda t, _: np.sin(t), logits=[0.0, 1.5, 3.0])
        Traceback (most recent call last):
        ...
        monocal.core.monotonicity.NotMonotone: the prediction falls 1 time in 2 steps; worst at feature row 0: ...
    """
    sweep = probe_logits() if logits is None else np.asarray(logits, dtype=np.float64)
    n_curves = 1 if rows is None else len(rows)
    n_falls, n_ties = 0, 0
    worst: tuple[float, int, int, float, float] = (0.0, 0, 0, 0.0, 0.0)
    for c in range(n_curves):
        copies = None if rows is None else np.repeat(rows[c : c + 1], sweep.shape[0], axis=0)
        curve = np.asarray(predict(sweep, copies), dtype=np.float64)
        if curve.shape != sweep.shape or not np.isfinite(curve).all():
            raise NotMonotone(f"the prediction at feature row {c} is not one finite number per score")
        steps = np.diff(curve)
        n_ties += int((steps == 0.0).sum())
        n_falls += int((steps < -tolerance).sum())
        at = int(np.argmin(steps))
        if -steps[at] > worst[0]:
            worst = (float(-steps[at]), c, at, float(curve[at]), float(curve[at + 1]))
    n_steps = n_curves * (sweep.shape[0] - 1)
    if n_falls:
        fall, c, at, before, after = worst
        raise NotMonotone(
            f"the prediction falls {n_falls} time{'s' * (n_falls > 1)} in {n_steps} steps; worst at feature row {c}: "
            f"from {before!r} at logit {float(sweep[at])!r} to {after!r} at {float(sweep[at + 1])!r}, "
            f"down by {fall:.3g}"
        )
    return MonotoneCheck(n_curves, n_steps, n_ties, worst[0])
