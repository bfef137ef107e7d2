"""Folded networks on blocks of rows, and UMC at knots on top of them: the compiled loops, and the predictor they make.

The loop of UMC is the twin of `maps.umc`, checked against it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.compiled.dense import LINE_NUMBERS, N_AT_ONCE, add_to_8, add_to_16, add_to_64, fetch
from monocal.compiled.fold import (
    DEFAULT_TABLE_BYTES,
    FIRST_FIELD,
    N_COLUMNS,
    N_FIELDS,
    N_FOLDED,
    N_LAYERS,
    N_SKIP,
    N_VECTOR,
    N_WIDEST,
    FoldedNet,
    State,
    constant_layer,
    fold,
    layers_of,
)
from monocal.compiled.jit import LOG_SCALE_LIMIT, MOST_COLUMNS, ZERO, Matrix, Vector, compiled, scalar, vector

BLOCK = 32
"""Rows that are taken through the network together, so that a layer's weights stay in the cache."""

N_AHEAD = 4
"""How many rows before its turn a row's part of the table is asked for: behind a ranker it lies in no near cache."""

N_NEAR = 1 << 13
"""Numbers of a field's table that the first rows of a request bring near for the others."""


Net = Any
"""A folded network in a loop: plan, table, vectors, projections and weights (`FoldedNet.arrays`)."""


@scalar
def fetch_folded(net: Net, field_ids: Any, row: int) -> None:
    """Starts to load what `add_folded` will add `N_AHEAD` rows after this one, of fields with many values."""
    plan, table = net[0], net[1]
    row += N_AHEAD
    if row < field_ids.shape[0]:
        n_columns = plan[N_COLUMNS]
        for f in range(plan[N_FOLDED]):
            p = FIRST_FIELD + 4 * f
            size = plan[p + 1]
            if size * n_columns > N_NEAR:
                i0 = field_ids[row, plan[p]]
                place = plan[p + 2] + (i0 if 0 <= i0 < size else 0)
                for c in range(0, n_columns, LINE_NUMBERS):
                    fetch(table, place, c)


@vector
def add_folded(net: Net, field_ids: Any, row: int, sums: Matrix, to: int) -> None:
    """Adds the table rows of the folded fields to `sums[to]`, in the plan's order."""
    plan, table = net[0], net[1]
    n_columns, last = min(plan[N_COLUMNS], MOST_COLUMNS), plan[N_FOLDED]
    f = 0
    while f + 4 <= last:
        p = FIRST_FIELD + 4 * f
        i0 = field_ids[row, plan[p]]
        i1 = field_ids[row, plan[p + 4]]
        i2 = field_ids[row, plan[p + 8]]
        i3 = field_ids[row, plan[p + 12]]
        t0 = plan[p + 2] + (i0 if 0 <= i0 < plan[p + 1] else 0)
        t1 = plan[p + 6] + (i1 if 0 <= i1 < plan[p + 5] else 0)
        t2 = plan[p + 10] + (i2 if 0 <= i2 < plan[p + 9] else 0)
        t3 = plan[p + 14] + (i3 if 0 <= i3 < plan[p + 13] else 0)
        for c in range(n_columns):
            sums[to, c] += (table[t0, c] + table[t1, c]) + (table[t2, c] + table[t3, c])
        f += 4
    while f < last:
        p = FIRST_FIELD + 4 * f
        i0 = field_ids[row, plan[p]]
        t0 = plan[p + 2] + (i0 if 0 <= i0 < plan[p + 1] else 0)
        for c in range(n_columns):
            sums[to, c] += table[t0, c]
        f += 1


@vector
def add_large(net: Net, field_ids: Any, row: int, sums: Matrix, to: int) -> None:
    """Adds the projected vectors of the fields that are too large for the table to `sums[to]`."""
    plan, vectors, projections = net[0], net[2], net[3]
    n_columns = min(plan[N_COLUMNS], MOST_COLUMNS)
    for f in range(plan[N_FOLDED], plan[N_FIELDS]):
        p = FIRST_FIELD + 4 * f
        i0 = field_ids[row, plan[p]]
        at = plan[p + 2] + (i0 if 0 <= i0 < plan[p + 1] else 0)
        base = plan[p + 3]
        for i in range(plan[N_VECTOR]):
            x = vectors[at, i]
            for c in range(n_columns):
                sums[to, c] += x * projections[base + i, c]


@vector
def sum_fields(net: Net, field_ids: Any, row: int, sums: Matrix, to: int) -> None:
    """Writes a row's first layer into `sums[to]`."""
    for c in range(min(net[0][N_COLUMNS], MOST_COLUMNS)):
        sums[to, c] = net[4][c]
    fetch_folded(net, field_ids, row)
    add_folded(net, field_ids, row, sums, to)
    add_large(net, field_ids, row, sums, to)


@scalar
def dense_wide(
    work: Matrix, source: int, target: int, n_rows: int, n_in: int, weights: Matrix, start: int, n_out: int
) -> None:
    """Writes `W relu(x) + b` of rows from `source` on into rows from `target` on; `weights` is flat from `start` on.

    64 inputs × 64 outputs of the weights serve all rows while they are in the fastest cache. Inputs that ReLU makes 0
    are skipped; the others are added in their order, whatever the rows beside.
    """
    width = work.shape[1]
    for row in range(n_rows):
        for j in range(n_out):
            work[target + row, j] = weights[start + n_in * n_out + j]
    j = 0
    while j < n_out:
        n_left = n_out - j
        for k in range(0, n_in, N_AT_ONCE):
            n = min(n_in - k, N_AT_ONCE)
            place = start + k * n_out + j
            for row in range(n_rows):
                inputs, outputs = (source + row) * width + k, (target + row) * width + j
                if n_left >= 64:
                    add_to_64(work, inputs, work, outputs, n, weights, place, n_out)
                elif n_left >= 16:
                    add_to_16(work, inputs, work, outputs, n, weights, place, n_out)
                else:
                    add_to_8(work, inputs, work, outputs, n, weights, place, n_out)
        j += 64 if n_left >= 64 else 16 if n_left >= 16 else 8


@vector
def dense_narrow(work: Matrix, source: int, target: int, n_in: int, weights: Matrix, n_out: int) -> None:
    """The same for a few outputs, whose weights are kept one output per row with the bias at the end."""
    n_in = min(n_in, MOST_COLUMNS)
    for j in range(n_out):
        total = ZERO
        for k in range(n_in):
            x = work[source, k]
            total += weights[j, k] * (x if x > ZERO else ZERO)
        work[target, j] = total + weights[j, n_in]


@vector
def run_layers(n_rows: int, net: Net, sums: Matrix, work: Matrix) -> int:
    """Takes a block's first layer through the other ones; returns the row of `work` where the results begin.

    `work` has `2 * n_rows` rows: the layers go back and forth between its halves.
    """
    plan, weights = net[0], net[4]
    first = plan[N_SKIP]
    n_columns = min(plan[N_COLUMNS] - first, MOST_COLUMNS)
    for row in range(n_rows):
        for c in range(n_columns):
            work[row, c] = sums[row, first + c]
    source, target = 0, n_rows
    for layer in range(plan[N_LAYERS]):
        p = FIRST_FIELD + 4 * plan[N_FIELDS] + 4 * layer
        n_in, n_out, n_padded, place = plan[p], plan[p + 1], plan[p + 2], plan[p + 3]
        if n_padded == 0:
            narrow = weights[place : place + n_out * (n_in + 1)].reshape((n_out, n_in + 1))
            for row in range(n_rows):
                dense_narrow(work, source + row, target + row, n_in, narrow, n_out)
        else:
            dense_wide(work, source, target, n_rows, n_in, weights, place, n_padded)
        source, target = target, source
    return source


AS_IT_IS = np.array([1.0, 0.0, 1.0, 0.0])
"""The line that changes nothing; see `FoldedPredictor.score`."""


@scalar
def on_line(logit: float, line: Any) -> Any:
    """Returns where a logit starts: its place on the straight line."""
    return line[0] * logit + line[1]


@scalar
def mixed(start: float, value: float, line: Any) -> Any:
    """Returns the curve's value mixed with the line's by its share, plus the shift of all rows."""
    return (1.0 - line[2]) * start + line[2] * value + line[3]


@final
class FoldedPredictor:
    """Turns logits and field ids into calibrated logits on numpy arrays: no torch, one thread.

    A row's result does not depend on the other rows of the call, to the last bit. Calls from several threads are
    safe: nothing is kept between them.

    Arguments:
        net: The folded network.
        loop: Takes logits, ids, what `rest` holds, the line, and the array to write into.
        rest: What the loop needs of the network and beside it.
    """

    def __init__(self, net: FoldedNet, loop: Callable[..., None], *rest: Any) -> None:
        self.net = net
        self._loop, self._rest = loop, rest
        self._n_fields = net.n_fields

    def score(
        self, logits: NDArray[Any], field_ids: NDArray[Any], line: NDArray[np.float64] = AS_IT_IS
    ) -> NDArray[np.float64]:
        r"""Returns calibrated logits `(n,)` for logits `(n,)` and ids `(n, F)`; ids that a field lacks count as 0.

        .. math:: s = a t + c, \qquad y = (1 - m) s + m f(s, x) + d

        Arguments:
            logits: The ranker's logits.
            field_ids: Ids of the field values.
            line: The numbers a, c, m and d.
        """
        t = np.ascontiguousarray(logits, np.float64)
        rows = np.ascontiguousarray(field_ids, np.int32)
        if t.ndim != 1 or rows.shape != (*t.shape, self._n_fields):
            raise ValueError(f"ids have shape {rows.shape}, expected {(*t.shape[:1], self._n_fields)}")
        out = np.empty(t.shape)
        self._loop(t, rows, *self._rest, line, out)
        return out

    def warm_up(self) -> None:
        """Compiles or loads the loops now instead of at the first request."""
        self.score(np.zeros(1), np.zeros((1, self._n_fields), np.int32))

    def write(
        self,
        logits: NDArray[np.float64],
        field_ids: NDArray[np.int32],
        line: NDArray[np.float64],
        out: NDArray[np.float64],
    ) -> None:
        """Writes what `score` returns into `out`, without looking at the arrays' shapes."""
        self._loop(logits, field_ids, *self._rest, line, out)


# UMC at knots: folded tables, trunk, exact quadratic pieces


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
