"""Shares where all later rows of a value share its shock: a value counts by what it can tell, not by its rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.statistical.carry_over.later_rows import LEVEL_PRECISION, LaterRows
from monocal.core.spaces import Floats, sigmoid

_ROUNDS = 2
_STEPS = 12
_CLOSE = 1e-4
_VARIANCE_ROUNDS = 12
_SWEEPS = 200
_COLUMNS = 4


@final
@dataclass(frozen=True)
class Weighed:
    """Shares from weighed rows.

    Attributes:
        values: One per field.
        strength: How much the prior of each counts beside the weighed rows.
        scatter: Covariance of the fields' scores, by time blocks, and by values where that is more.
        curvature: How fast each field's score (first axis) falls with each share.
    """

    values: Floats
    strength: Floats
    scatter: Floats
    curvature: Floats


def shock_variances(residuals: Floats, curvatures: Floats, fields: NDArray[np.int64], n_fields: int) -> Floats:
    r"""Returns per field the variance of the shocks of its cells, in squared logits.

    The residual r of a cell scatters by its curvature h from counting alone, and by h² τ² more from a shock. So

    .. math:: \tau^2 = \max\Big(0, \frac{\sum_c \omega_c^2 (r_c^2 - h_c)}{\sum_c \omega_c^2 h_c^2}\Big),
              \qquad \omega_c = \frac{1}{1 + \tau^2 h_c}

    whose weights keep a few frequent values from deciding alone.

    Arguments:
        residuals: Per cell, the sum of w (y − p).
        curvatures: Per cell, the sum of w p (1 − p).
        fields: The field of every cell.
        n_fields: How many fields there are.

    Example:
        Two hundred values, each with a shock of standard deviation ½.

        >>> random = np.random.default_rng(0)
        >>> h = np.full(200, 50.0)
        >>> r = random.normal(size=200) * np.sqrt(h + 0.25 * h**2)
        >>> shock_variances(r, h, np.zeros(200, dtype=int), 1).round(2).tolist()
        [0.23]
    """
    seen = curvatures > 0.0
    r, h, field = residuals[seen], curvatures[seen], fields[seen]
    beyond, squares = r**2 - h, h**2
    variances = np.zeros(n_fields)
    for _ in range(_VARIANCE_ROUNDS):
        weights = 1.0 / (1.0 + variances[field] * h) ** 2
        above = np.maximum(np.bincount(field, weights * beyond, n_fields), 0.0)
        variances = above / np.maximum(np.bincount(field, weights * squares, n_fields), 1e-300)
    return variances


def weigh_by_values(
    rows: LaterRows, values: Floats, levels: Floats, prior: Floats, strength: Floats, bounds: tuple[Floats, Floats]
) -> Weighed | None:
    r"""Solves one equation per field in which a row of cell c counts :math:`\omega_c = 1 / (1 + \tau_k^2 h_c)`.

    A cell has a normal shock of variance :math:`\tau_k^2`; integrated out, to first order, it leaves these weights. A
    cell of many rows counts as one observation of its effect and no more, so a field tells as much as it has values,
    and not as much as the most frequent few of them. Each field's contribution is centred within levels with its own
    weights, so that levels need not be known better than rows tell them:

    .. math:: \sum_c \omega_c \sum_{i \in c} w (y - p) (D_k - \bar D_{k g}) = \kappa \varphi_k
              \frac{\sum_c \omega_c \sum_{i \in c} w\,p\,(1 - p) D_k^2}{\sum_i w\,p\,(1 - p) D_k^2} (a_k - \pi_k)

    or the share lies at a bound: the prior is weighed down like the rows, so that it counts as much beside them as it
    would without weights. The equations of all fields are solved together by linear steps with projection. They are
    not the gradient of a loss, so that the steps are limited in number instead of followed down a slope.

    Arguments:
        rows: The later rows, with their cells.
        values: Shares to start from: those of rows that all count the same.
        levels: The levels beside them.
        prior: π.
        strength: κφ, how much the prior counts beside rows that all count the same.
        bounds: The least and the largest share of each field.

    Returns:
        None if no field has shocks: then rows do count the same.
    """
    cells = rows.cells
    assert cells is not None
    for _ in range(_ROUNDS):
        residuals, curvatures = rows.add(partial(_cell_sums, values=values, levels=levels))
        variances = shock_variances(residuals, curvatures, cells.fields, values.size)
        if not variances.any():
            return None
        weights = cells.by_field(1.0 / (1.0 + variances[cells.fields] * curvatures))
        for _ in range(_STEPS):
            levels, means, news = _centre(rows, values, levels, weights)
            of_fields = partial(_scores, values=values, levels=levels, weights=weights, means=means)
            score, curvature = rows.add(of_fields)
            matrix = curvature + np.diag(strength * news)
            target = matrix @ values + score - strength * news * (values - prior)
            before, values = values, _solve_within(matrix, target, values, bounds)
            if np.abs(values - before).max() < _CLOSE:
                break
    return Weighed(values, strength * news, _scatter(rows, values, levels, weights, means), curvature)


def _fitted(some: LaterRows, values: Floats, levels: Floats) -> tuple[Floats, Floats]:
    """Returns every row's residual and curvature."""
    p = sigmoid(some.offset + some.contributions @ values + levels[some.levels])
    return some.weights * (some.labels - p), some.weights * p * (1.0 - p)


def _cell_sums(some: LaterRows, values: Floats, levels: Floats) -> list[Floats | float]:
    assert some.cells is not None
    fields = range(values.size)
    return [
        np.concatenate([some.cells.sums(field, amounts) for field in fields])
        for amounts in _fitted(some, values, levels)
    ]


def _centre(rows: LaterRows, values: Floats, levels: Floats, weights: list[Floats]) -> tuple[Floats, Floats, Floats]:
    """Returns levels one step nearer to the rows, each field's weighed mean in every level, and its mean weight."""
    n = levels.size

    def sums(some: LaterRows) -> list[Floats | float]:
        residual, row_curvature = _fitted(some, values, levels)
        mass, first, second = np.empty((n, values.size)), np.empty((n, values.size)), np.empty((2, values.size))
        for field, column in enumerate(some.contributions.T):
            weighed = _weights(some, field, weights) * row_curvature
            mass[:, field] = np.bincount(some.levels, weighed, n)
            first[:, field] = np.bincount(some.levels, weighed * column, n)
            second[:, field] = weighed @ column**2, row_curvature @ column**2
        by_level = np.empty((n, 2))
        for place, amounts in enumerate((residual, row_curvature)):
            by_level[:, place] = np.bincount(some.levels, amounts, n)
        return [by_level, mass, first, second]

    by_level, mass, first, (weighed_squares, squares) = rows.add(sums)
    step = (by_level[:, 0] - LEVEL_PRECISION * levels) / (by_level[:, 1] + LEVEL_PRECISION)
    news = np.divide(weighed_squares, squares, out=np.ones(values.size), where=squares > 0.0)
    return levels + np.clip(step, -1.0, 1.0), first / np.maximum(mass, 1e-300), news


def _scores(
    some: LaterRows, values: Floats, levels: Floats, weights: list[Floats], means: Floats
) -> list[Floats | float]:
    """Returns each field's score, and how fast the scores fall with the shares."""
    residual, row_curvature = _fitted(some, values, levels)
    score, curvature = np.empty(values.size), np.empty((values.size, values.size))
    for first in range(0, values.size, _COLUMNS):
        fields = range(first, min(first + _COLUMNS, values.size))
        columns = np.stack([_weighed_column(some, field, weights, means) for field in fields])
        score[first : first + _COLUMNS] = columns @ residual
        columns *= row_curvature
        curvature[first : first + _COLUMNS] = columns @ some.contributions
    return [score, curvature]


def _scatter(rows: LaterRows, values: Floats, levels: Floats, weights: list[Floats], means: Floats) -> Floats:
    """Returns the covariance of the scores over time blocks, and over values where a field scatters more by those."""
    n_blocks = rows.n_groups()[1]

    def sums(some: LaterRows) -> list[Floats | float]:
        assert some.cells is not None
        residual, _ = _fitted(some, values, levels)
        by_block, by_cell = np.empty((n_blocks, values.size)), []
        for field in range(values.size):
            scores = _weighed_column(some, field, weights, means) * residual
            by_block[:, field] = np.bincount(some.blocks, scores, n_blocks)
            by_cell.append(some.cells.sums(field, scores))
        return [by_block, np.concatenate(by_cell)]

    assert rows.cells is not None
    by_block, by_cell = rows.add(sums)
    scatter = by_block.T @ by_block
    # a value's rows come once for every cut
    by_value = [table.reshape(rows.cells.n_cuts, -1).sum(axis=0) for table in rows.cells.by_field(by_cell)]
    np.fill_diagonal(scatter, np.maximum(np.diag(scatter), [float(table @ table) for table in by_value]))
    return scatter


def _weights(some: LaterRows, field: int, weights: list[Floats]) -> Floats:
    assert some.cells is not None
    return weights[field][some.cells.numbers[:, field]]


def _weighed_column(some: LaterRows, field: int, weights: list[Floats], means: Floats) -> Floats:
    centred: Floats = some.contributions[:, field] - means[some.levels, field]
    centred *= _weights(some, field, weights)
    return centred


def _solve_within(matrix: Floats, target: Floats, start: Floats, bounds: tuple[Floats, Floats]) -> Floats:
    """Solves `matrix @ x = target` within bounds, one share after the other; the matrix need not be symmetric."""
    x, (low, high) = start.copy(), bounds
    for _ in range(_SWEEPS):
        before = x.copy()
        for place, row in enumerate(matrix):
            nearer = x[place] + (target[place] - row @ x) / row[place]
            x[place] = min(max(nearer, low[place]), high[place])
        if np.abs(x - before).max() < 0.1 * _CLOSE:
            break
    return x
