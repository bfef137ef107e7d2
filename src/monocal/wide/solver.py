"""Logistic regression on a logit and one indicator per (field, value), without ever building the indicators.

How strongly the shifts of each field are pulled to zero is given, or learned from the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from monocal.core.dataset import Block, Dataset
from monocal.core.fields import FieldSchema
from monocal.core.process import MapPieces, allowed_threads, row_workers, trim_heap
from monocal.core.scores import Floats, log_losses, sigmoid

_SMALLEST_CURVATURE = 1e-9
_SMALLEST_EIGENVALUE = 1e-12


@final
@dataclass(frozen=True)
class WideParameters:
    """Slope, intercept, and the shifts of all fields in one table, as the rows' `FieldSchema` has it.

    Attributes:
        slope: a ≥ 0.
        intercept: c.
        shifts: One per id, field after field; 0 for id 0, the unseen value.
        curvature: Of every shift's loss, without the penalty, where the search started.
        n_evaluations: How often the search looked at all rows.
    """

    slope: float
    intercept: float
    shifts: Floats
    curvature: Floats
    n_evaluations: int = 0

    @classmethod
    def at(cls, shifts: Floats, slope: float = 1.0, intercept: float = 0.0) -> WideParameters:
        """Returns parameters at which no search has been yet."""
        return cls(slope, intercept, shifts, np.zeros_like(shifts))


@final
@dataclass(frozen=True)
class Search:
    """When a search stops.

    Attributes:
        tolerance: Where the loss falls by less than this share.
        max_iterations: L-BFGS steps allowed.
        slope_is_free: If false, the slope stays where it starts.
    """

    tolerance: float = 1e-9
    max_iterations: int = 200
    slope_is_free: bool = True


def solve_wide(
    data: Dataset, penalty: float | Floats, search: Search, start: WideParameters | None = None
) -> WideParameters:
    r"""Minimises the logistic loss of :math:`a z + c + \sum_f \delta_{f, x_f}` plus
    :math:`\sum_f \tfrac{\lambda_f}{2}\|\delta_f\|^2`.

    L-BFGS on the variables of `CommonDirections`, in which frequent and rare values, whole fields, slope and
    intercept converge together. The slope is kept non-negative: where the free optimum has a negative one, the best
    with a ≥ 0 has a = 0, and the rest is solved again beside it. At the end each field's shifts are recentred, so
    that a row with an unseen value does not depend on where the search stopped. Memory beside the rows: a few tables.
    The penalty is on the coefficients of the fields' bases (`FieldSchema`), which are what is searched.

    Arguments:
        data: The rows, with labels.
        penalty: λ; one for all fields, one per field, or one per id; shifts with penalties of their own are not
            recentred.
        search: When to stop.
        start: Where to start; slope 1 and no shifts if not given.
    """
    schema, slope_is_free = data.fields, search.slope_is_free
    own = np.asarray(penalty, dtype=np.float64)
    by_id = own.shape == (schema.n_ids,) != schema.sizes.shape
    if not by_id:
        own = np.repeat(np.broadcast_to(own, schema.sizes.shape), schema.n_coefficients)
    start = start or _first_parameters(data)
    theta = np.concatenate([start.shifts, [start.slope, start.intercept]])
    known, together = _second_derivatives(data, theta)
    curvature = _beside_line(schema, known, schema.contract_curvature)
    # rows are looked at by id; the search is for the coefficients behind them
    theta = _beside_line(schema, theta, schema.coefficients)
    n_shifts = int(schema.starts[-1])
    scaling = CommonDirections(curvature, together, own, schema.starts, slope_is_free=slope_is_free)
    # one loop for all members of a fit: it must not depend on who has how many rows
    n_cells = np.inf if data.cut.n > 1 else data.n_rows * len(schema)
    add_rows = loop_for(n_cells, add_loss_and_gradient, "monocal.compiled.wide")
    n_threads = 1 if add_rows is add_loss_and_gradient else allowed_threads()
    held = np.append(schema.starts[:-1], [] if slope_is_free else [n_shifts]).astype(np.int64)

    def loss_and_gradient(scaled: Floats) -> tuple[float, Floats]:
        at = scaling.parameters(scaled)
        pull = own * at[:n_shifts]
        table = _beside_line(schema, at, schema.expand)

        found: list[list[Floats | float]] = []
        for part in data.parts():
            gradient, loss = np.zeros_like(table), 0.0
            if part.number == 0:  # the penalty counts once
                loss = 0.5 * float(pull @ at[:n_shifts])
                if schema.is_identity:
                    gradient[:n_shifts] = pull
            blocks = part.blocks()
            if n_threads > 1 and len(blocks) > 1:
                loss = add_in_threads(blocks, schema, table, gradient, loss, map_pieces, n_threads)
            else:
                for block in blocks:
                    loss += add_rows(
                        block.z, block.y, block.w, block.ids, schema.places, schema.offsets, table, gradient
                    )
            found.append([gradient, loss])
        gradient, total = data.cut.add(found)
        if not schema.is_identity:
            gradient = _beside_line(schema, gradient, schema.contract)
            gradient[:n_shifts] += pull
        gradient[held] = 0.0
        return float(total), scaling.gradient(gradient)

    steps = search.max_iterations
    options = {"maxiter": steps, "maxfun": 2 * steps, "ftol": search.tolerance, "gtol": 0.0, "maxcor": 10}
    with row_workers() as map_pieces:
        found = minimize(loss_and_gradient, scaling.scaled(theta), jac=True, method="L-BFGS-B", options=options)
    theta = scaling.parameters(found.x)
    slope = float(theta[n_shifts]) if slope_is_free else start.slope
    shifts = schema.expand(theta[:n_shifts])
    best = WideParameters(slope, float(theta[n_shifts + 1]), shifts, known[:-2], int(found.nfev))
    if slope < 0.0:
        again = solve_wide(data, penalty, replace(search, slope_is_free=False), replace(best, slope=0.0))
        return replace(again, n_evaluations=best.n_evaluations + again.n_evaluations)
    return best if by_id else recentred(best, schema)


def recentred(found: WideParameters, schema: FieldSchema) -> WideParameters:
    """Moves the mean of each field's shifts into the intercept.

    Where every row has a known value of the field, the sum of intercept and shift stays what it was and the penalty
    falls to its least; so the optimum is always centred, and a search that stopped early is brought nearer to it.
    Values without rows keep a shift of 0; a field with unseen values among its rows is left alone, because for
    those rows the intercept is all there is, and so is a field of numbers, whose shift has no mean over its knots.
    """
    shifts, intercept = found.shifts.copy(), found.intercept
    for field in np.flatnonzero(~schema.is_numeric).tolist():
        here = schema.ids_of(field)
        with_rows = found.curvature[here] > 0.0
        if with_rows.any() and not with_rows[0]:
            mean = float(shifts[here][with_rows].mean())
            shifts[here][with_rows] -= mean
            intercept += mean
    return replace(found, shifts=shifts, intercept=intercept)


def _first_parameters(data: Dataset) -> WideParameters:
    labels = data.labels

    def sums(block: Block) -> list[Floats]:
        return [np.array([(block.w * block.of(labels)).sum(), (block.w * sigmoid(block.z)).sum(), block.w.sum()])]

    positive, predicted, weight = data.sum(sums)[0]
    rate, mean = positive / weight, float(np.clip(predicted / weight, 1e-9, 1.0 - 1e-9))
    intercept = float(np.log(rate / (1.0 - rate)) - np.log(mean / (1.0 - mean)))
    return WideParameters.at(np.zeros(data.fields.n_ids), intercept=intercept)


def _beside_line(schema: FieldSchema, theta: Floats, turn: Callable[[Floats], Floats]) -> Floats:
    """Turns all but the last two numbers, which belong to slope and intercept, if fields have bases."""
    if schema.is_identity:
        return theta
    return np.concatenate([turn(theta[:-2]), theta[-2:]])


def _second_derivatives(data: Dataset, theta: Floats) -> tuple[Floats, Floats]:
    """Returns the diagonal of the loss's second derivative, and its values along fields, slope and intercept."""
    schema = data.fields.alone()
    n_shifts, n_fields, places = schema.n_ids, len(schema), data.fields.places

    found: list[list[Floats | float]] = []
    for part in data.parts():
        diagonal = np.zeros(n_shifts + 2)
        together = np.zeros((n_fields + 2, n_fields + 2))
        for block in part.blocks():
            z, ids = block.z, block.ids
            # in the order of rows even where columns were chosen, because products round by the order in memory
            ids = ids if n_fields == ids.shape[1] else np.ascontiguousarray(ids[:, places])
            p = sigmoid(schema.add_shifts(theta[n_shifts] * z + theta[n_shifts + 1], ids, theta[:n_shifts]))
            curvature = block.w * p * (1.0 - p)
            diagonal[:n_shifts] += schema.sums(ids, curvature)
            common = np.column_stack([schema.common(ids), z, np.ones_like(z)])
            together += (common.T * curvature) @ common
        found.append([diagonal, together])
    diagonal, together = data.cut.add(found)
    diagonal[n_shifts:] = together[n_fields, n_fields], together[-1, -1]
    return diagonal, together


# Penalties: how strongly the shifts of each field are pulled to zero, learned from the rows

Penalty = float | Literal["auto"]

N_ROUNDS = 5
FIRST_PENALTY = 10.0
SMALLEST_PENALTY, LARGEST_PENALTY = 1.0, 1e4
"""The penalty of a field is 1 over the variance of its shifts: standard deviations from 1 down to 0.01."""

MOST_ROWS = 1_000_000
"""Penalties are estimated on this many of the most recent rows; the shifts then use all."""


def solve_with_penalties(
    data: Dataset,
    l2: Penalty,
    search: Search,
    start: WideParameters | None = None,
    *,
    first: Floats | None = None,
    n_rounds: int = N_ROUNDS,
) -> tuple[WideParameters, Floats]:
    r"""Solves for shifts with a given penalty, or with one per field that the rows teach; returns both.

    With `auto` a field's shifts are taken as draws of a normal distribution with variance :math:`1/\lambda_f`. Where a
    field truly matters they scatter widely and are hardly shrunk; where it does not, or where thousands of its values
    have a handful of rows each, what looks like scatter is noise, and they are. After each solve

    .. math:: \lambda_f \leftarrow \frac{\gamma_f}{\|\delta_f\|^2}, \qquad
              \gamma_f = \sum_v \frac{h_v}{h_v + \lambda_f}

    with h the curvature of the loss and γ the number of shifts that the rows can determine; all of it for the
    coefficients of the field's basis.

    References:
        MacKay. Bayesian interpolation. 1992.

    Arguments:
        data: The rows, with labels; where they are in parts, each gives its share of the newest rows.
        l2: The penalty of all fields; `auto` learns one per field.
        search: When each solve stops.
        start: Where the first solve starts.
        first: Where the estimate of penalties starts, one per field; None means 10 for each.
        n_rounds: How often they are updated.

    Example:
        The first field shifts the logit by ±1; the second means nothing.

        >>> random = np.random.default_rng(0)
        >>> ids = random.integers(1, 30, (20_000, 2)).astype(np.int32)
        >>> labels = (random.random(20_000) < np.where(ids[:, 0] % 2, 0.27, 0.73)).astype(float)
        >>> _, penalties = solve_with_penalties(Dataset(np.zeros(20_000), labels, ids=ids), "auto", Search(1e-7, 100))
        >>> bool(penalties[0] < 3.0), bool(penalties[1] > 100.0)
        (True, True)
    """
    if l2 != "auto":
        penalties = np.full(len(data.fields), float(l2))
        return solve_wide(data, penalties, search, start), penalties
    penalties = np.full(len(data.fields), FIRST_PENALTY) if first is None else first
    found = start
    if n_rounds:
        recent = data.take(data.cut.newest(MOST_ROWS))
        for _ in range(n_rounds):
            found = solve_wide(recent, penalties, search, found)
            penalties = _updated(penalties, found, data.fields)
        del recent
    found = solve_wide(data, penalties, search, found)
    trim_heap()  # what dozens of arrays as long as the shifts left behind
    return found, penalties


def _updated(penalties: Floats, found: WideParameters, schema: FieldSchema) -> Floats:
    updated = penalties.copy()
    for field, penalty in enumerate(penalties):
        shifts, curvature = schema.of_field(field, found.shifts, found.curvature)
        shifts, curvature = shifts[1:], curvature[1:]
        determined = float(np.sum(curvature / (curvature + penalty)))
        if determined > 0.0:
            scatter = float(np.sum(shifts**2))
            updated[field] = np.clip(determined / max(scatter, 1e-12), SMALLEST_PENALTY, LARGEST_PENALTY)
    return updated


# Scaling: each parameter by its own curvature, and the few directions they share by theirs


@final
class CommonDirections:
    r"""Variables in which the wide loss bends about equally in every direction.

    Scaled by the diagonal of its second derivative, the loss still bends thousands of times more in some directions
    than in others, and all of these are combinations of F + 2: all values of one field together, the slope, and the
    intercept. With D the diagonal scaling, Q the orthonormal common directions in scaled variables and A the exact
    curvature among them,

    .. math:: \theta = D^{-1}\big(I + Q\,(A^{-1/2} - I)\,Q^\top\big)\,s

    Common directions of different fields touch different parameters, so Q is one number per parameter and a product
    with it one pass over the table.

    Arguments:
        curvature: Diagonal of the loss's second derivative: all shifts, then slope and intercept. Parameters that
            the rows do not move have none.
        together: Second derivative along the common directions `(F + 2, F + 2)`: fields, slope, intercept.
        penalty: λ of every shift.
        offsets: Where each field's shifts start.
        slope_is_free: If false, no direction moves the slope.

    Example:
        Scaling there and back changes nothing.

        >>> scaling = CommonDirections(np.array([0.0, 4.0, 2.0, 9.0, 6.0]), np.array([[6.0, 1.0, 6.0],
        ...     [1.0, 9.0, 1.0], [6.0, 1.0, 6.0]]), np.ones(3), np.array([0, 3]), slope_is_free=True)
        >>> scaling.parameters(scaling.scaled(np.array([0.0, 0.5, -0.2, 1.0, -2.0]))).round(6).tolist()
        [0.0, 0.5, -0.2, 1.0, -2.0]
    """

    def __init__(
        self,
        curvature: Floats,
        together: Floats,
        penalty: Floats,
        offsets: NDArray[np.int64],
        *,
        slope_is_free: bool,
    ) -> None:
        n_shifts = int(offsets[-1])
        n_fields = offsets.shape[0] - 1
        self._starts = np.concatenate([offsets[:-1], [n_shifts, n_shifts + 1]])
        self._sizes = np.diff(np.concatenate([self._starts, [n_shifts + 2]]))
        diagonal = curvature.copy()
        diagonal[:n_shifts] += penalty
        self._root = np.sqrt(np.maximum(diagonal, _SMALLEST_CURVATURE))
        moved = curvature > 0.0
        moved[offsets[:-1]] = False
        moved[n_shifts] = moved[n_shifts] and slope_is_free
        direction = np.where(moved, self._root, 0.0)
        length = np.sqrt(np.add.reduceat(direction**2, self._starts))
        alive = length > 0.0
        length[~alive] = 1.0
        self._direction = direction / np.repeat(length, self._sizes)
        common_curvature = together.copy()
        own_penalty = (
            np.add.reduceat(np.where(moved[:n_shifts], penalty, 0.0), offsets[:-1]) if n_fields else np.zeros(0)
        )
        common_curvature[np.arange(n_fields), np.arange(n_fields)] += own_penalty
        common_curvature /= np.outer(length, length)
        common_curvature[~alive] = 0.0
        common_curvature[:, ~alive] = 0.0
        common_curvature[~alive, ~alive] = 1.0
        values, vectors = np.linalg.eigh(0.5 * (common_curvature + common_curvature.T))
        values = np.maximum(values, _SMALLEST_EIGENVALUE)
        self._shrink = (vectors * (values**-0.5 - 1.0)) @ vectors.T
        self._stretch = (vectors * (values**0.5 - 1.0)) @ vectors.T

    def parameters(self, scaled: Floats) -> Floats:
        """Returns θ, from the scaled variables s."""
        result = self._along(scaled, self._shrink)
        result /= self._root
        return result

    def scaled(self, parameters: Floats) -> Floats:
        """Returns s, from the parameters θ."""
        return self._along(parameters * self._root, self._stretch)

    def gradient(self, by_parameters: Floats) -> Floats:
        """Returns the gradient by s, from the one by θ."""
        return self._along(by_parameters / self._root, self._shrink)

    def _along(self, vector: Floats, change: Floats) -> Floats:
        result: Floats = self._direction * vector
        moved = change @ np.add.reduceat(result, self._starts)
        # in place and field by field: with millions of values every array of their length counts
        for start, size, amount in zip(self._starts, self._sizes, moved, strict=True):
            here = slice(start, start + size)
            np.multiply(self._direction[here], amount, out=result[here])
        result += vector
        return result


# The loss of rows and its gradient: by numpy, compiled, or by several threads

COMPILED_FROM_CELLS = 500_000
"""Rows times fields from which the compiled loop, if numba is there, is worth loading."""

BLOCKS_AT_ONCE = 8
"""Blocks of rows whose derivatives are held at a time: 16 MiB, and few enough waits of threads for each other."""


def loop_for(n_cells: float, by_numpy: Callable[..., Any], module: str) -> Callable[..., Any]:
    """Returns a loop over rows, compiled if there is enough to do.

    Arguments:
        n_cells: Rows times fields.
        by_numpy: The loop for few rows, and for machines without numba.
        module: The one that holds the same function, compiled.
    """
    if n_cells < COMPILED_FROM_CELLS or find_spec("numba") is None:
        return by_numpy
    compiled: Callable[..., Any] = getattr(import_module(module), by_numpy.__name__)
    return compiled


def add_loss_and_gradient(
    logits: Floats,
    labels: Floats,
    weights: Floats,
    features: NDArray[np.int32],
    columns: NDArray[np.int64],
    offsets: NDArray[np.int64],
    theta: Floats,
    gradient: NDArray[Any],
) -> float:
    """What `monocal.compiled.wide` does, by numpy."""
    n_shifts = theta.shape[0] - 2
    z = theta[n_shifts] * logits + theta[n_shifts + 1]
    for column, start in zip(columns, offsets, strict=False):
        z += theta[start + features[:, column]]
    residual = weights * (sigmoid(z) - labels)
    for field, column in enumerate(columns):
        here = slice(offsets[field], offsets[field + 1])
        gradient[here] += np.bincount(features[:, column], residual, here.stop - here.start)
    gradient[n_shifts] += float(residual @ logits)
    gradient[n_shifts + 1] += float(residual.sum())
    return float(np.sum(weights * log_losses(z, labels)))


def add_in_threads(
    blocks: Sequence[Block],
    schema: FieldSchema,
    theta: Floats,
    gradient: Floats,
    loss: float,
    map_pieces: MapPieces,
    n_threads: int,
) -> float:
    """Returns `loss` plus that of all blocks and adds their gradient, with the bits of one thread.

    A block's sums are those of one thread, and blocks are added in their order. A shift's derivative is added up by
    the one thread that has its field, row after row. So no sum changes its order, whatever the number of threads.

    Arguments:
        blocks: The rows.
        schema: Their fields.
        theta: All shifts, then slope and intercept.
        gradient: As long as `theta`.
        loss: What the loss is before.
        map_pieces: Does several pieces at once.
        n_threads: Among how many the fields are divided.
    """
    from monocal.compiled.wide import add_residuals, losses_and_residuals

    edges = np.linspace(0, len(schema), min(n_threads, len(schema)) + 1).round().astype(np.int64)
    for begin in range(0, len(blocks), BLOCKS_AT_ONCE):
        some = [(block.z, block.y, block.w, block.ids) for block in blocks[begin : begin + BLOCKS_AT_ONCE]]
        residuals = [np.empty(len(rows[0])) for rows in some]

        def add_losses(rows: Sequence[NDArray[Any]], residual: Floats) -> tuple[float, float, float]:
            found: tuple[float, float, float]
            found = losses_and_residuals(*rows, schema.places, schema.offsets, theta, residual)
            return found

        def add_fields(first: int, end: int, some: Any = some, residuals: Any = residuals) -> None:
            for (*_, ids), residual in zip(some, residuals, strict=True):
                add_residuals(residual, ids, schema.places, schema.offsets, first, end, gradient)

        sums = list(map_pieces(add_losses, some, residuals))
        list(map_pieces(add_fields, edges[:-1], edges[1:]))
        for block_loss, d_slope, d_intercept in sums:
            loss += block_loss
            gradient[-2] += d_slope
            gradient[-1] += d_intercept
    return loss
