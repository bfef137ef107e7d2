"""Logistic regression on a logit and one indicator per (field, value), without ever building the indicators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from monocal.calibrators.statistical.common_directions import CommonDirections
from monocal.calibrators.statistical.compiled_loops import loop_for
from monocal.calibrators.statistical.numeric_basis import FieldCoefficients
from monocal.calibrators.statistical.threaded_loss import Block, add_in_threads
from monocal.core.log_loss import log_losses
from monocal.core.row_weights import weights_of
from monocal.core.samples import Ids
from monocal.core.spaces import Floats, sigmoid
from monocal.core.team import Shards
from monocal.core.threads import allowed_threads, row_workers
from monocal.ops.numpy_ops import add_shifts

_BLOCK_ROWS = 1 << 16


@dataclass(frozen=True)
class WideParameters:
    """Slope, intercept, and the shifts of all fields in one array; field f starts at `offsets[f]`.

    Attributes:
        slope: a ≥ 0.
        intercept: c.
        shifts: One per id, field after field; 0 for id 0, the unseen value.
        offsets: Where each field starts; the last entry is the total.
        curvature: Of every shift's loss, without the penalty, where the search started.
        n_evaluations: How often the search looked at all rows.
    """

    slope: float
    intercept: float
    shifts: Floats
    offsets: NDArray[np.int64]
    curvature: Floats
    n_evaluations: int = 0


def field_offsets(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns where each field's ids start in one concatenated table; the last entry is the total."""
    return np.concatenate([[0], np.cumsum(sizes)])


def solve_wide(
    logits: Floats,
    labels: Floats,
    weights: Floats | None,
    features: Ids,
    sizes: NDArray[np.int64],
    *,
    l2: float | Floats,
    tolerance: float,
    max_iterations: int,
    slope_is_free: bool = True,
    start: WideParameters | None = None,
    shards: Shards | None = None,
    n_knots: Sequence[int] | None = None,
    columns: NDArray[np.int64] | None = None,
) -> WideParameters:
    r"""Minimises the logistic loss of :math:`a z + c + \sum_f \delta_{f, x_f}` plus
    :math:`\sum_f \tfrac{\lambda_f}{2}\|\delta_f\|^2`.

    L-BFGS on the variables of `CommonDirections`, in which frequent and rare values, whole fields, slope and
    intercept converge together. The slope is kept non-negative: where the free optimum has a negative one, the best
    with a ≥ 0 has a = 0, and the rest is solved again beside it. At the end each field's shifts are recentred, so
    that a row with an unseen value does not depend on where the search stopped. Memory beside the rows: a few tables.
    A field of numbers is solved for the coefficients of `smooth_basis`, which the penalty is on, too.

    Arguments:
        logits: z, one per row.
        labels: 0 or 1 per row.
        weights: How often each row counts; None means once.
        features: Field ids `(n, F)`.
        sizes: How many ids each field has.
        l2: The penalty λ: one for all fields, one per field, or one per id; shifts with penalties of their own are not
            recentred.
        tolerance: Stops when the loss falls by less than this share.
        max_iterations: L-BFGS steps allowed.
        slope_is_free: If false, the slope stays where it starts.
        start: Where to start; slope 1 and no shifts if not given.
        shards: How the rows are cut and with whom they are added up; all of them at once if not given.
        n_knots: Knots per field of numbers, 0 for categories; None if there are no numbers.
        columns: Which columns of `features` are the fields with shifts, so that leaving some out takes no copy of the
            others; None for all.
    """
    offsets = field_offsets(sizes)
    columns = np.arange(len(sizes)) if columns is None else columns
    numbers = FieldCoefficients(sizes, n_knots) if n_knots is not None and any(n_knots) else None
    penalty = np.asarray(l2, dtype=np.float64)
    by_value = penalty.shape == (int(offsets[-1]),) != sizes.shape
    if not by_value:
        penalty = np.repeat(np.broadcast_to(penalty, sizes.shape), sizes if numbers is None else numbers.sizes)
    rows = _Rows(logits, labels, weights, features, columns, shards or Shards.whole(logits.shape[0]))
    first = _first_parameters(rows, offsets) if start is None else start
    found = _search(rows, first, penalty, tolerance, max_iterations, numbers, slope_is_free=slope_is_free)
    if found.slope < 0.0:
        flat = replace(found, slope=0.0)
        again = _search(rows, flat, penalty, tolerance, max_iterations, numbers, slope_is_free=False)
        found = replace(again, n_evaluations=found.n_evaluations + again.n_evaluations)
    return found if by_value else recentred(found, n_knots)


def recentred(found: WideParameters, n_knots: Sequence[int] | None = None) -> WideParameters:
    """Moves the mean of each field's shifts into the intercept.

    Where every row has a known value of the field, the sum of intercept and shift stays what it was and the penalty
    falls to its least; so the optimum is always centred, and a search that stopped early is brought nearer to it.
    Values without rows keep a shift of 0; a field with unseen values among its rows is left alone, because for
    those rows the intercept is all there is, and so is a field of numbers, whose shift has no mean over its knots.
    """
    shifts, intercept = found.shifts.copy(), found.intercept
    knots = n_knots or (0,) * (len(found.offsets) - 1)
    for first, end, smooth in zip(found.offsets[:-1], found.offsets[1:], knots, strict=True):
        if smooth or found.curvature[first] > 0.0:
            continue
        with_rows = found.curvature[first:end] > 0.0
        if with_rows.any():
            mean = float(shifts[first:end][with_rows].mean())
            shifts[first:end][with_rows] -= mean
            intercept += mean
    return replace(found, shifts=shifts, intercept=intercept)


class _Rows(NamedTuple):
    """This member's rows, shard after shard."""

    logits: Floats
    labels: Floats
    weights: Floats | None
    features: Ids
    columns: NDArray[np.int64]
    shards: Shards

    def blocks(self, part: slice) -> Iterator[Block]:
        """Yields logits, labels, weights and ids of a shard in blocks whose temporary columns stay small."""
        ones = np.ones(min(_BLOCK_ROWS, part.stop - part.start))
        for first in range(part.start, part.stop, _BLOCK_ROWS):
            block = slice(first, min(first + _BLOCK_ROWS, part.stop))
            weights = ones[: block.stop - first] if self.weights is None else self.weights[block]
            yield self.logits[block], self.labels[block], weights, self.features[block]


def _first_parameters(rows: _Rows, offsets: NDArray[np.int64]) -> WideParameters:
    def sums(block: slice) -> list[Floats | float]:
        w = weights_of(rows.weights, block, rows.labels.shape[0])
        return [np.array([(w * rows.labels[block]).sum(), (w * sigmoid(rows.logits[block])).sum(), w.sum()])]

    positive, predicted, weight = rows.shards.add_up(sums)[0]
    rate, mean = positive / weight, float(np.clip(predicted / weight, 1e-9, 1.0 - 1e-9))
    intercept = float(np.log(rate / (1.0 - rate)) - np.log(mean / (1.0 - mean)))
    nothing = np.zeros(int(offsets[-1]))
    return WideParameters(1.0, intercept, nothing, offsets, nothing)


def _search(
    rows: _Rows,
    start: WideParameters,
    penalty: Floats,
    tolerance: float,
    max_iterations: int,
    numbers: FieldCoefficients | None,
    *,
    slope_is_free: bool,
) -> WideParameters:
    """Returns the optimum, with a slope of any sign if it is free; searches for coefficients where fields hold numbers.

    Rows are looked at by id in any case, so their loops know nothing of numbers.
    """
    offsets = start.offsets
    theta = np.concatenate([start.shifts, [start.slope, start.intercept]])
    by_id, together = _second_derivatives(rows, offsets, theta, numbers)
    starts, curvature = offsets, by_id
    if numbers is not None:
        starts, curvature = numbers.offsets, _beside_line(by_id, numbers.curvature)
        theta = _beside_line(theta, numbers.coefficients)
    n_shifts = int(starts[-1])
    scaling = CommonDirections(curvature, together, penalty, starts, slope_is_free=slope_is_free)
    # one loop for all members of a team: it must not depend on who has how many rows
    n_cells = np.inf if rows.shards.n > 1 else rows.features.shape[0] * len(rows.columns)
    add_rows = loop_for(n_cells, add_loss_and_gradient, "monocal.compiled.wide")
    n_threads = 1 if add_rows is add_loss_and_gradient else allowed_threads()
    held = np.append(starts[:-1], [] if slope_is_free else [n_shifts]).astype(np.int64)

    def loss_and_gradient(scaled: Floats) -> tuple[float, Floats]:
        at = scaling.parameters(scaled)
        pull = penalty * at[:n_shifts]
        table = at if numbers is None else _beside_line(at, numbers.shifts)
        sums: list[list[Floats | float]] = []
        for number, part in rows.shards.parts():
            gradient, loss = np.zeros_like(table), 0.0
            if number == 0:  # the penalty counts once
                loss = 0.5 * float(pull @ at[:n_shifts])
                if numbers is None:
                    gradient[:n_shifts] = pull
            if n_threads > 1 and part.stop - part.start > _BLOCK_ROWS:
                loss = add_in_threads(
                    list(rows.blocks(part)), rows.columns, offsets, table, gradient, loss, do_all, n_threads
                )
            else:
                for z, y, w, features in rows.blocks(part):
                    loss += add_rows(z, y, w, np.ascontiguousarray(features), rows.columns, offsets, table, gradient)
            sums.append([gradient, loss])
        gradient, total = rows.shards.add(sums)
        if numbers is not None:
            gradient = _beside_line(gradient, numbers.gradient)
            gradient[:n_shifts] += pull
        gradient[held] = 0.0
        return float(total), scaling.gradient(gradient)

    options = {"maxiter": max_iterations, "maxfun": 2 * max_iterations, "ftol": tolerance, "gtol": 0.0, "maxcor": 10}
    with row_workers() as do_all:
        found = minimize(loss_and_gradient, scaling.scaled(theta), jac=True, method="L-BFGS-B", options=options)
    theta = scaling.parameters(found.x)
    slope = float(theta[n_shifts]) if slope_is_free else start.slope
    shifts = theta[:n_shifts] if numbers is None else numbers.shifts(theta[:n_shifts])
    return WideParameters(slope, float(theta[n_shifts + 1]), shifts, offsets, by_id[:-2], int(found.nfev))


def _beside_line(theta: Floats, turn: Callable[[Floats], Floats]) -> Floats:
    """Turns all but the last two numbers, which belong to slope and intercept."""
    return np.concatenate([turn(theta[:-2]), theta[-2:]])


def _second_derivatives(
    rows: _Rows, offsets: NDArray[np.int64], theta: Floats, numbers: FieldCoefficients | None
) -> tuple[Floats, Floats]:
    """Returns the diagonal of the loss's second derivative, and its values along fields, slope and intercept."""
    n_shifts, n_fields = int(offsets[-1]), len(rows.columns)
    sums: list[list[Floats | float]] = []
    for _, part in rows.shards.parts():
        diagonal = np.zeros(n_shifts + 2)
        together = np.zeros((n_fields + 2, n_fields + 2))
        for z, _, w, features in rows.blocks(part):
            # in the order of rows even where columns were chosen, because products round by the order in memory
            ids = np.ascontiguousarray(features if n_fields == features.shape[1] else features[:, rows.columns])
            p = sigmoid(add_shifts(theta[n_shifts] * z + theta[n_shifts + 1], ids, theta[:n_shifts], offsets))
            curvature = w * p * (1.0 - p)
            for field in range(n_fields):
                here = slice(offsets[field], offsets[field + 1])
                diagonal[here] += np.bincount(ids[:, field], curvature, here.stop - here.start)
            known: NDArray[Any] = ids > 0 if numbers is None else numbers.common(ids)
            common = np.column_stack([known, z, np.ones_like(z)])
            together += (common.T * curvature) @ common
        sums.append([diagonal, together])
    diagonal, together = rows.shards.add(sums)
    diagonal[n_shifts:] = together[n_fields, n_fields], together[-1, -1]
    return diagonal, together


def add_loss_and_gradient(
    logits: Floats,
    labels: Floats,
    weights: Floats,
    features: Ids,
    columns: NDArray[np.int64],
    offsets: NDArray[np.int64],
    theta: Floats,
    gradient: NDArray[Any],
) -> float:
    """What `monocal.compiled.wide` does, by numpy."""
    n_shifts = theta.shape[0] - 2
    features = features if len(columns) == features.shape[1] else features[:, columns]
    z = add_shifts(theta[n_shifts] * logits + theta[n_shifts + 1], features, theta[:n_shifts], offsets)
    residual = weights * (sigmoid(z) - labels)
    for field in range(features.shape[1]):
        here = slice(offsets[field], offsets[field + 1])
        gradient[here] += np.bincount(features[:, field], residual, here.stop - here.start)
    gradient[n_shifts] += float(residual @ logits)
    gradient[n_shifts + 1] += float(residual.sum())
    return float(np.sum(weights * log_losses(z, labels)))
