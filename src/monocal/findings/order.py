"""Pairs of rows that changed order, and what that did to ranking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.core.spaces import Floats
from monocal.findings.before_after import BeforeAfter
from monocal.findings.reliability import wilson
from monocal.findings.rows import TaskRows
from monocal.metrics import Interval

Places = NDArray[np.intp]

SAMPLED_PAIRS = 400_000
TOP_SHARES = (0.01, 0.1)


@final
@dataclass(frozen=True)
class PairChanges:
    """Pairs of rows drawn at random, by what calibration did to their order.

    Attributes:
        n_pairs: Pairs drawn.
        swapped: Share whose order is now the opposite.
        swapped_interval: Its interval.
        tied: Share that was ordered and is now tied.
        split: Share that was tied and is now ordered.
    """

    n_pairs: int
    swapped: float
    swapped_interval: Interval
    tied: float
    split: float


@final
@dataclass(frozen=True)
class OrderChanges:
    """Everything about order.

    Attributes:
        pairs: Any two rows.
        within_groups: Two rows of the same group (user, request); None without groups or without such pairs.
        corrected: Among pairs of a positive and a negative: share that was in the wrong order and is now right.
        worsened: Among the same: share that was right and is now wrong. AUC rises by the difference (ties apart).
        kept_on_top: Share of the top rows by score that are still on top, for each of `TOP_SHARES`.
        monotone: What the calibrator guarantees about the score for a fixed feature row.
        uses_features: Whether two rows with different features may swap at all.
    """

    pairs: PairChanges
    within_groups: PairChanges | None
    corrected: float
    worsened: float
    kept_on_top: tuple[float, ...]
    monotone: str
    uses_features: bool


def order_changes(rows: TaskRows, *, monotone: str, uses_features: bool, seed: int = 0) -> OrderChanges:
    """Draws pairs and counts; rows are drawn in proportion to their weights."""
    rng = np.random.default_rng(seed)
    first, second = _draw(rows, rng, SAMPLED_PAIRS), _draw(rows, rng, SAMPLED_PAIRS)
    corrected, worsened = _corrected(rows, rng)
    return OrderChanges(
        _changes(rows, first, second),
        _within_groups(rows, rng),
        corrected,
        worsened,
        tuple(_kept_on_top(rows, share) for share in TOP_SHARES),
        monotone,
        uses_features,
    )


def _differences(rows: TaskRows, first: Places, second: Places) -> BeforeAfter[Floats]:
    return (rows.final or rows.forecasts).map(lambda probabilities: probabilities[first] - probabilities[second])


def _changes(rows: TaskRows, first: Places, second: Places) -> PairChanges:
    before, after = _differences(rows, first, second)
    n = before.shape[0]
    swapped = float(np.mean(before * after < 0.0))
    low, high = wilson(np.array([swapped]), np.array([float(n)]))
    return PairChanges(
        n,
        swapped,
        Interval(float(low[0]), float(high[0])),
        float(np.mean((before != 0.0) & (after == 0.0))),
        float(np.mean((before == 0.0) & (after != 0.0))),
    )


def _corrected(rows: TaskRows, rng: np.random.Generator) -> tuple[float, float]:
    positive, negative = np.flatnonzero(rows.labels == 1.0), np.flatnonzero(rows.labels == 0.0)
    if not positive.size or not negative.size:
        return float("nan"), float("nan")
    before, after = _differences(rows, *(_draw(rows, rng, SAMPLED_PAIRS, among) for among in (positive, negative)))
    return float(np.mean((before < 0.0) & (after > 0.0))), float(np.mean((before > 0.0) & (after < 0.0)))


def _within_groups(rows: TaskRows, rng: np.random.Generator) -> PairChanges | None:
    if rows.groups is None:
        return None
    order = np.argsort(rows.groups, kind="stable")
    sizes = np.bincount(rows.groups)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    large = np.flatnonzero(sizes >= 2)
    if not large.size:
        return None
    pairs_of = sizes[large].astype(np.float64) * (sizes[large] - 1)
    group = large[np.searchsorted(np.cumsum(pairs_of) / pairs_of.sum(), rng.random(SAMPLED_PAIRS))]
    a = rng.integers(0, sizes[group])
    b = (a + rng.integers(1, sizes[group])) % sizes[group]
    first, second = order[starts[group] + a], order[starts[group] + b]
    return _changes(rows, first, second)


def _kept_on_top(rows: TaskRows, share: float) -> float:
    k = round(share * rows.n_rows)
    if k < 1:
        return float("nan")
    tops = [np.argpartition(-column, k - 1)[:k] for column in (rows.final or rows.forecasts)]
    return float(np.intersect1d(tops[0], tops[1]).size) / k


def _draw(rows: TaskRows, rng: np.random.Generator, n: int, among: Places | None = None) -> Places:
    if rows.weights is None:
        return _pick(rng.integers(0, rows.n_rows if among is None else among.size, n), among)
    weights = rows.weights if among is None else rows.weights[among]
    mass = np.cumsum(weights)
    return _pick(np.minimum(np.searchsorted(mass, rng.random(n) * mass[-1], side="right"), mass.size - 1), among)


def _pick(places: Places, among: Places | None) -> Places:
    return places if among is None else among[places]
