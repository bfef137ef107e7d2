"""A broken line of the ranker's logit that always rises: a start that bends, where one slope is too stiff.

Its smoothness is taught by the rows; beside it stand effects that stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from monocal.core.dataset import Dataset
from monocal.core.scores import Floats, log_losses, sigmoid
from monocal.ops.numpy_ops import NUMPY
from monocal.ops.operations import Ops, Values

Base = Literal["auto", "slope", "curve"]
"""How the ranker's logit enters: with one slope, along a curve, or as later rows say."""


@final
class BaseCurve:
    r"""The line through rising `values` at rising `knots`, straight in between and beyond.

    .. math:: g(z) = v_k + s_k (z - t_k), \qquad t_k \le z < t_{k+1}, \quad s_k > 0

    It never falls, to the last bit: inside a piece a rounded difference, product and sum keep order, and a piece that
    is rounded beyond the next value is bound by it.

    Arguments:
        knots: t, rising, at least two.
        values: v, rising, one per knot.

    Example:
        >>> curve = BaseCurve(np.array([-1.0, 0.0, 1.0]), np.array([-2.0, 0.0, 0.5]))
        >>> curve(np.array([-2.0, -0.5, 0.5, 3.0])).tolist()
        [-4.0, -1.0, 0.25, 1.5]
    """

    def __init__(self, knots: Floats, values: Floats) -> None:
        self.knots, self.values = knots, values
        self.slopes: Floats = np.diff(values) / np.diff(knots)
        self._inner = knots[1:-1]
        self._bounds = np.append(values[1:-1], np.inf)

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Returns the curve whose knots and values a fit kept."""
        return cls(arrays["knots"], arrays["values"])

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """Returns what a fit keeps."""
        return {"knots": self.knots, "values": self.values}

    def __call__(self, logits: Floats) -> Floats:
        found: Floats = self.map(NUMPY, logits)
        return found

    def map(self, ops: Ops, logits: Values) -> Values:
        """Returns the line at every logit, written over operations."""
        piece = ops.count_below(logits, self._inner, or_equal=True)
        beyond = logits - ops.look_up(self.knots[:-1], piece)
        line = beyond * ops.look_up(self.slopes, piece) + ops.look_up(self.values[:-1], piece)
        return ops.minimum(line, ops.look_up(self._bounds, piece))


FLATTEST = 0.05
"""No piece is flatter than this share of the straight line's slope, so that order is never lost."""

_FIRST_STIFFNESS = 10.0
_SOFTEST, _STRAIGHT = 1e-2, 1e5
"""At the upper end slopes of neighbouring pieces differ by a third of a per cent: that is a straight line."""

_SMALLEST_SLOPE = 1e-3
_STEPS = 40
_ROUNDS = 30
_CLOSE = 1e-3
_BLOCK_ROWS = 1 << 17


@final
@dataclass(frozen=True)
class FittedCurve:
    """The best straight line and the best broken line beside the same effects.

    Attributes:
        slope: Of the straight line, above 0.
        intercept: Of the straight line.
        curve: The broken line; its values are calibrated logits.
        stiffness: λ, 1 over the variance of a change of slope, as a share of `slope`.
    """

    slope: float
    intercept: float
    curve: BaseCurve
    stiffness: float

    def as_base(self, share: float) -> BaseCurve:
        r"""Returns the map of the ranker's logit after which the straight line's slope and intercept are right again.

        .. math:: g(z) = \frac{(1 - \alpha)(a z + c) + \alpha v(z) - c}{a}

        Arguments:
            share: α, the weight of the broken line.
        """
        knots = self.curve.knots
        return BaseCurve(knots, (1.0 - share) * knots + share * (self.curve.values - self.intercept) / self.slope)


def fit_curve(
    data: Dataset,
    beside: Floats,
    knots: Floats,
    *,
    line: tuple[float, float] = (1.0, 0.0),
    stiffness: float = _FIRST_STIFFNESS,
) -> FittedCurve | None:
    r"""Minimises the logistic loss of :math:`v(z) + o` plus :math:`\tfrac{\lambda}{2 a^2}\sum_k (s_{k+1} - s_k)^2`.

    v is a broken line with slopes s between its knots and a is the slope of the best straight line. Each s is at least
    a twentieth of a. λ is learned as for fields of numbers, by evidence: changes of slope are draws from a
    normal distribution, whose variance is re-estimated. Newton steps; each pass over the rows gives a quadratic model,
    on which λ and the bounds are settled without the rows. Returns None where the straight line does not rise, or
    the rows want no other line.

    Arguments:
        data: The rows.
        beside: o, what stands beside the line.
        knots: Rising, at least three.
        line: Slope and intercept to start from.
        stiffness: Where to start the search for λ.

    Example:
        The log-odds rise twice as fast above 0.

        >>> random = np.random.default_rng(0)
        >>> z = random.normal(size=100_000)
        >>> labels = (random.random(100_000) < sigmoid(np.where(z > 0.0, z, 0.5 * z))).astype(float)
        >>> found = fit_curve(Dataset(z, labels), np.zeros(100_000), np.linspace(-2.0, 2.0, 5))
        >>> found.curve.slopes.round(1).tolist()
        [0.5, 0.5, 1.0, 1.0]
    """
    rows = _Pieces.of(data, beside, knots)
    n_knots = knots.size
    # parameters are the value at the first knot, then the slopes of all pieces
    to_values = np.column_stack([np.ones(n_knots), np.tril(np.tile(np.diff(knots), (n_knots, 1)), -1)])
    straight = np.zeros((n_knots, 2))
    straight[0, 0], straight[1:, 1] = 1.0, 1.0
    first = np.array([line[0] * knots[0] + line[1], line[0]])
    best = _settled(rows, to_values @ straight, first, _Smoothness.none())
    if best is None or best.theta[1] <= _SMALLEST_SLOPE:
        return None
    slope = float(best.theta[1])
    smoothness = _Smoothness(
        np.diff(np.eye(n_knots)[1:], axis=0) / slope,
        np.concatenate([[-np.inf], np.full(n_knots - 1, FLATTEST * slope)]),
        stiffness,
    )
    found = _settled(rows, to_values, straight @ best.theta, smoothness)
    if found is None or found.stiffness >= _STRAIGHT:
        return None
    intercept = float(best.theta[0]) - slope * float(knots[0])
    return FittedCurve(slope, intercept, BaseCurve(knots, to_values @ found.theta), found.stiffness)


class _Smoothness(NamedTuple):
    differences: Floats | None
    lowest: Floats
    stiffness: float

    @classmethod
    def none(cls) -> _Smoothness:
        return cls(None, np.full(2, -np.inf), 0.0)


class _Found(NamedTuple):
    theta: Floats
    stiffness: float


class _Pieces(NamedTuple):
    """The piece of the line in which every row lies, and where in it."""

    data: Dataset
    beside: Floats
    piece: NDArray[np.int8]
    place: Floats
    n_pieces: int

    @classmethod
    def of(cls, data: Dataset, beside: Floats, knots: Floats) -> _Pieces:
        pieces, places = np.empty(data.n_rows, np.int8), np.empty(data.n_rows)
        for first in range(0, data.n_rows, _BLOCK_ROWS):
            rows = slice(first, first + _BLOCK_ROWS)
            piece = np.searchsorted(knots[1:-1], data.z[rows], side="right")
            pieces[rows], places[rows] = piece, (data.z[rows] - knots[piece]) / np.diff(knots)[piece]
        return cls(data, beside, pieces, places, knots.size - 1)

    def derivatives(self, values: Floats) -> tuple[float, Floats, Floats]:
        """Returns loss, gradient and second derivative by the values at the knots."""
        rises = np.diff(values)
        found: list[list[Floats | float]] = []
        for part in self.data.parts():
            loss, total = 0.0, np.zeros((5, self.n_pieces))
            for block in part.blocks(_BLOCK_ROWS):
                piece, place, w = block.of(self.piece).astype(np.intp), block.of(self.place), block.w
                z = block.of(self.beside) + values[piece] + place * rises[piece]
                p = sigmoid(z)
                residual, curvature = w * (p - block.y), w * p * (1.0 - p)
                columns = (residual, residual * place, curvature, curvature * place, curvature * place**2)
                loss += float(w @ log_losses(z, block.y))
                total += [np.bincount(piece, column, self.n_pieces) for column in columns]
            found.append([loss, *total])
        all_loss, r, r_place, b, b_place, b_squared = self.data.cut.add(found)
        gradient = np.append(r - r_place, 0.0) + np.append(0.0, r_place)
        left, right = np.append(b - 2.0 * b_place + b_squared, 0.0), np.append(0.0, b_squared)
        mixed = np.diag(b_place - b_squared, 1)
        return float(all_loss), gradient, np.diag(left + right) + mixed + mixed.T


def _settled(rows: _Pieces, basis: Floats, theta: Floats, smoothness: _Smoothness) -> _Found | None:
    """Minimises loss plus penalty by Newton steps from `theta`, learning the stiffness on the way; None if it fails."""
    stiffness, before = smoothness.stiffness, np.inf
    origin = theta
    for _ in range(_STEPS):
        loss, gradient, hessian = rows.derivatives(basis @ theta)
        if loss + _penalty(smoothness, stiffness, theta) > before + _CLOSE:
            theta = 0.5 * (origin + theta)
            continue
        gradient, hessian = basis.T @ gradient, basis.T @ hessian @ basis
        target, stiffness = _best_on_model(theta, gradient, hessian, smoothness, stiffness)
        step = target - theta
        before = loss + _penalty(smoothness, stiffness, theta)
        expected = before - loss - float(gradient @ step + 0.5 * step @ hessian @ step)
        origin, theta = theta, target
        if expected - _penalty(smoothness, stiffness, target) < _CLOSE:
            return _Found(theta, stiffness)
    return None


def _penalty(smoothness: _Smoothness, stiffness: float, theta: Floats) -> float:
    if smoothness.differences is None:
        return 0.0
    return 0.5 * stiffness * float(np.sum((smoothness.differences @ theta) ** 2))


def _best_on_model(
    theta: Floats, gradient: Floats, hessian: Floats, smoothness: _Smoothness, stiffness: float
) -> tuple[Floats, float]:
    """Returns the best parameters of a quadratic model, and the stiffness that its bends ask for."""
    if smoothness.differences is None:
        return theta - np.linalg.solve(hessian + _tiny(hessian), gradient), 0.0
    rough = smoothness.differences.T @ smoothness.differences
    n_changes = smoothness.differences.shape[0]
    for _ in range(_ROUNDS):
        full = hessian + stiffness * rough
        full += _tiny(full)
        target = _bounded(full, hessian @ theta - gradient, smoothness.lowest)
        held = n_changes - stiffness * float(np.sum(np.linalg.inv(full) * rough))
        wanted = max(held, 1e-3) / max(float(np.sum((smoothness.differences @ target) ** 2)), 1e-12)
        wanted = float(np.clip(wanted, _SOFTEST, _STRAIGHT))
        change, stiffness = abs(np.log(wanted / stiffness)), wanted
        if change < 0.02:
            break
    return target, stiffness


def _bounded(matrix: Floats, right: Floats, lowest: Floats) -> Floats:
    """Minimises ½ x'Mx − r'x over x ≥ lowest."""
    free = np.asarray(np.linalg.solve(matrix, right), dtype=np.float64)
    if np.all(free >= lowest):
        return free
    scale = 1.0 / np.sqrt(np.diag(matrix))
    root = np.linalg.cholesky(matrix * np.outer(scale, scale)).T
    goal = np.linalg.solve(root.T, right * scale)
    found = lsq_linear(root, goal, (lowest / scale, np.full(lowest.size, np.inf)), method="bvls").x * scale
    return np.maximum(np.asarray(found, dtype=np.float64), lowest)


def _tiny(matrix: Floats) -> Floats:
    """Keeps pieces without rows from making a matrix singular."""
    return np.diag(1e-10 * np.diag(matrix) + 1e-12)
