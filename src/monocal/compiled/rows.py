"""Folded networks on blocks of rows: the compiled loops, and what every predictor made of them offers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.compiled.dense import LINE_NUMBERS, N_AT_ONCE, add_to_8, add_to_16, add_to_64, fetch
from monocal.compiled.fold import FIRST_FIELD, N_COLUMNS, N_FIELDS, N_FOLDED, N_LAYERS, N_SKIP, N_VECTOR, FoldedNet
from monocal.compiled.jit import MOST_COLUMNS, ZERO, Matrix, scalar, vector

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
