"""UMC at knots, compiled: folded tables, trunk, exact quadratic pieces. The twin of `maps.umc`, checked against it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.compiled.fold import DEFAULT_TABLE_BYTES, N_COLUMNS, N_WIDEST, State, constant_layer, fold, layers_of
from monocal.compiled.jit import LOG_SCALE_LIMIT, Vector, compiled, scalar
from monocal.compiled.rows import BLOCK, FoldedPredictor, Net, mixed, on_line, run_layers, sum_fields


@scalar
def bounded_scale(log_scale: float) -> float:
    """Returns exp(w) with w clamped to ±15."""
    return math.exp(min(max(log_scale, -LOG_SCALE_LIMIT), LOG_SCALE_LIMIT))


@scalar
def height(raw: float) -> float:
    """Returns 1 + ELU(raw) as e^min(raw, 0) + max(raw, 0), positive for every raw value above -745."""
    return math.exp(min(raw, 0.0)) + max(raw, 0.0)


@scalar
def between(left: float, right: float, h0: float, h1: float, u0: float, u1: float, t: float) -> float:
    """Integrates the line from h0 to h1 up to t, given the integral at both ends.

    From the end with the lower height: then only non-negative numbers are multiplied and added to a growing (or
    subtracted with a shrinking) distance, so that rounding cannot break the order.
    """
    slope = (h1 - h0) / (2.0 * (right - left))
    if h1 >= h0:
        rise = t - left
        return min(u0 + rise * (h0 + rise * slope), u1)
    fall = right - t
    return max(u1 - fall * (h1 - fall * slope), u0)


@scalar
def integrate_knots(t: float, knots: Any, n_knots: int, raw: Any, row: int) -> Any:
    """Integrates from the middle knot to t the broken line whose raw heights are in `raw[row]`.

    Only the heights between the middle and t are needed. Partial sums are taken outwards from the middle, the same
    for every t.
    """
    j = (n_knots - 1) // 2
    u = knots[j]
    h = height(float(raw[row, j]))
    if t >= knots[j]:
        while j + 1 < n_knots:
            h_next = height(float(raw[row, j + 1]))
            u_next = u + (knots[j + 1] - knots[j]) * (h + h_next) * 0.5
            if t < knots[j + 1]:
                return between(knots[j], knots[j + 1], h, h_next, u, u_next, t)
            u, h = u_next, h_next
            j += 1
        return u + (t - knots[j]) * h
    while j > 0:
        h_next = height(float(raw[row, j - 1]))
        u_next = u - (knots[j] - knots[j - 1]) * (h + h_next) * 0.5
        if t >= knots[j - 1]:
            return between(knots[j - 1], knots[j], h_next, h, u_next, u, t)
        u, h = u_next, h_next
        j -= 1
    return u - (knots[0] - t) * h


@compiled()
def score_knot_rows(
    logits: Vector, field_ids: Any, net: Net, knots: Vector, constants: Vector, line: Vector, out: Vector
) -> None:
    """Writes calibrated logits into `out`; see `FoldedPredictor.score` for `line`.

    `constants`: beta, intercept. The plan ends with the output that is w (b follows) or -1 and the skipping column that
    is the wide shift or -1.
    """
    plan = net[0]
    n_rows = logits.shape[0]
    n_block = min(n_rows, BLOCK)
    sums = np.empty((n_block, plan[N_COLUMNS]), np.float32)
    work = np.empty((2 * n_block, plan[N_WIDEST]), np.float32)
    n_knots = knots.shape[0]
    w_column, wide_column = plan[-2], plan[-1]
    first = 0
    while first < n_rows:
        n_here = min(n_block, n_rows - first)
        for row in range(n_here):
            sum_fields(net, field_ids, first + row, sums, row)
        result = run_layers(n_here, net, sums, work)
        for row in range(n_here):
            scale, shift = 1.0, constants[1]
            if wide_column >= 0:
                shift += float(sums[row, wide_column])
            if w_column >= 0:
                scale = bounded_scale(float(work[result + row, w_column]))
                shift += float(work[result + row, w_column + 1])
            start = on_line(logits[first + row], line)
            area = integrate_knots(start, knots, n_knots, work, result + row)
            out[first + row] = mixed(start, scale * area + (scale * constants[0] + shift), line)
        first += n_here


def umc_predictor(
    state: State,
    *,
    field_sizes: Sequence[int],
    vectors: NDArray[Any] | None = None,
    wide_shifts: NDArray[Any] | None = None,
    intercept: float = 0.0,
    max_table_bytes: int = DEFAULT_TABLE_BYTES,
) -> FoldedPredictor:
    r"""Returns what scores rows of ids as `maps.umc` does on numpy arrays, to rounding.

    .. math:: f(t, x) = e^{w(x)} (U(t, x) + \beta) + b(x) + \mathrm{wide}(x) + \mathrm{intercept}

    The result never decreases in t for fixed ids, not even between neighbouring float64 numbers; see `knot_integral`.

    Arguments:
        state: What the map learned, by name.
        field_sizes: How many ids each field has; empty if there are no features at all.
        vectors: The context encoder's table `(sum(field_sizes), d)`; None if the map ignores features.
        wide_shifts: One shift per value `(sum(field_sizes),)` or `(…, 1)`; None if there is no wide part.
        intercept: A constant logit shift, for example of a recent-intercept refit.
        max_table_bytes: Budget of the folded table.
    """
    n_values, knots = int(sum(field_sizes)), np.ascontiguousarray(state["knots"], np.float64)
    own = None if wide_shifts is None else np.asarray(wide_shifts, np.float64).reshape(n_values, 1)
    table = np.zeros((n_values, 0)) if vectors is None else np.asarray(vectors)
    if "constants" in state:
        layers = [constant_layer(state["constants"], table.shape[1] * len(field_sizes))]
    else:
        layers = layers_of(state, "trunk")
    net = fold(field_sizes, table, layers, own_columns=own, max_table_bytes=max_table_bytes)
    # heights, then w and b if there are more outputs; the wide shift alone skips the network
    w_column = len(knots) if net.n_outputs > len(knots) else -1
    constants = np.array([float(np.asarray(state["beta"]).reshape(())), intercept], np.float64)
    return FoldedPredictor(net, score_knot_rows, net.arrays(w_column, net.n_skip - 1), knots, constants)
