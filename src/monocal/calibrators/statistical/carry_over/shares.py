"""How much of a learned contribution held on later rows: one share in [0, 1] each, beside free levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from monocal.core.log_loss import log_losses
from monocal.core.spaces import Floats, sigmoid

PRIOR_STRENGTH = 4.0
"""κ: how many independent, fully informative observations the prior share counts for."""

_LEVEL_PRECISION = 0.01
"""A block with one class alone would push its level to infinity; a normal prior of ten logits keeps it finite."""

_ROUNDS = 2
_STEPS = 25
_CLOSE = 1e-7


@final
@dataclass(frozen=True)
class LaterRows:
    """Rows judged by what was learned before them.

    Attributes:
        offset: Logit without the contributions.
        contributions: What each part adds, `(n, K)`.
        labels: 0 or 1.
        weights: How often each row counts.
        levels: Which free level a row belongs to: one per cut and time block.
        blocks: Which time block it lies in, whatever the cut.
    """

    offset: Floats
    contributions: Floats
    labels: Floats
    weights: Floats
    levels: NDArray[np.int64]
    blocks: NDArray[np.int64]


@final
@dataclass(frozen=True)
class Shares:
    """Shares that were found.

    Attributes:
        values: In [0, 1], one per part.
        errors: Standard error of each, from the scatter over time blocks; NaN where nothing could be learned.
        design_effects: How many rows of a part count as one, at least 1.
    """

    values: Floats
    errors: Floats
    design_effects: Floats


def solve_shares(rows: LaterRows, prior: Floats, fixed: Floats | None = None) -> Shares:
    r"""Minimises the log-loss of :math:`o + \sum_k a_k D_k + u_g` over :math:`0 \le a \le 1` and free levels u.

    A level per cut and time block keeps drift of the level from being blamed on the parts. Beside the loss stands
    :math:`\tfrac{\kappa}{2} \varphi_k (a_k - \pi_k)^2` with the design effect

    .. math:: \varphi_k = \max\Big(1, \frac{\sum_b (\sum_{i \in b} w (y - p) D_k)^2}{\sum w\,p\,(1 - p) D_k^2}\Big)

    because rows that share a shock count as one observation, not as thousands. Newton steps; each solves the
    quadratic problem with its bounds exactly.

    Arguments:
        rows: The later rows.
        prior: π, what is believed of each share without evidence.
        fixed: Shares that are given; NaN where they are to be learned.

    Example:
        The first contribution persisted in half, the second not at all.

        >>> random = np.random.default_rng(0)
        >>> parts, block = random.normal(size=(40_000, 2)), np.arange(40_000) // 4000
        >>> labels = (random.random(40_000) < sigmoid(-1.0 + 0.1 * block + 0.5 * parts[:, 0])).astype(float)
        >>> rows = LaterRows(np.zeros(40_000), parts, labels, np.ones(40_000), block, block)
        >>> solve_shares(rows, prior=np.ones(2)).values.round(1).tolist()
        [0.5, 0.0]
    """
    n_parts = rows.contributions.shape[1]
    low, high = np.zeros(n_parts), np.ones(n_parts)
    if fixed is not None:
        given = ~np.isnan(fixed)
        low[given] = high[given] = fixed[given]
    values = np.clip(prior, low, high)
    levels = np.zeros(int(rows.levels.max()) + 1)
    effects = np.ones(n_parts)
    for _ in range(_ROUNDS):
        values, levels = _newton(rows, values, levels, prior, PRIOR_STRENGTH * effects, low, high)
        effects, scatter, curvature = _scatter(rows, values, levels)
    precision = np.linalg.inv(curvature + np.diag(PRIOR_STRENGTH * effects))
    errors = np.sqrt(np.maximum(np.diag(precision @ (scatter + np.diag(PRIOR_STRENGTH * effects)) @ precision), 0.0))
    errors[np.diag(curvature) <= 0.0] = np.nan
    return Shares(values, errors, effects)


def _newton(
    rows: LaterRows, values: Floats, levels: Floats, prior: Floats, strength: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    parts, weights, which = rows.contributions, rows.weights, rows.levels

    def loss(a: Floats, u: Floats) -> float:
        z = rows.offset + parts @ a + u[which]
        penalty = 0.5 * float(strength @ (a - prior) ** 2) + 0.5 * _LEVEL_PRECISION * float(u @ u)
        return float(weights @ log_losses(z, rows.labels)) + penalty

    now = loss(values, levels)
    free = high > low
    for _ in range(_STEPS):
        p = sigmoid(rows.offset + parts @ values + levels[which])
        residual = weights * (p - rows.labels)
        bend = weights * p * (1.0 - p)
        by_level = np.bincount(which, residual, levels.size) + _LEVEL_PRECISION * levels
        by_part = parts.T @ residual + strength * (values - prior)
        level_bend = np.bincount(which, bend, levels.size) + _LEVEL_PRECISION
        mixed = _sums(parts * bend[:, None], which, levels.size)
        curvature = (parts.T * bend) @ parts + np.diag(strength) - (mixed.T / level_bend) @ mixed
        slope = by_part - mixed.T @ (by_level / level_bend)
        step = np.zeros_like(values)
        if free.any():
            root = np.linalg.cholesky(curvature[np.ix_(free, free)])
            target = -np.linalg.solve(root, slope[free])
            bounds = (low - values)[free] - 1e-12, (high - values)[free] + 1e-12
            # bvls lands on the bounds exactly, where a share of 0 or 1 belongs
            step[free] = lsq_linear(root.T, target, bounds, method="bvls").x
        level_step = -(by_level + mixed @ step) / level_bend
        share = 1.0
        while share > 1e-4:
            a, u = np.clip(values + share * step, low, high), levels + share * level_step
            following = loss(a, u)
            if following <= now:
                break
            share *= 0.5
        else:
            return values, levels
        gain, values, levels, now = now - following, a, u, following
        if gain < _CLOSE * max(1.0, 1e-3 * abs(now)):
            break
    return values, levels


def _scatter(rows: LaterRows, values: Floats, levels: Floats) -> tuple[Floats, Floats, Floats]:
    """Returns design effects, the scatter of the parts' scores over time blocks, and their curvature."""
    parts, which = rows.contributions, rows.levels
    p = sigmoid(rows.offset + parts @ values + levels[which])
    bend = rows.weights * p * (1.0 - p)
    residual = rows.weights * (rows.labels - p)
    mixed = _sums(parts * bend[:, None], which, levels.size)
    level_bend = np.maximum(np.bincount(which, bend, levels.size), 1e-12)
    curvature = (parts.T * bend) @ parts - (mixed.T / level_bend) @ mixed
    by_level = _sums(parts * residual[:, None], which, levels.size)
    information = np.maximum(((parts**2).T * bend).sum(axis=1), 1e-12)
    effects = np.maximum(1.0, (by_level**2).sum(axis=0) / information)
    by_block = _sums(parts * residual[:, None], rows.blocks, int(rows.blocks.max()) + 1)
    return effects, by_block.T @ by_block, curvature


def _sums(columns: Floats, which: NDArray[np.int64], n: int) -> Floats:
    return np.column_stack([np.bincount(which, column, n) for column in columns.T])
