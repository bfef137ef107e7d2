"""Prediction of several UMC maps with one trunk: folded tables and hidden layers once, then every task's curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.kernels.compiled import compiled
from monocal.kernels.folded_net import FIRST_FIELD, N_COLUMNS, N_FOLDED, N_LARGE, N_WIDEST, FoldedNet
from monocal.kernels.folded_rows import BLOCK, add_folded, add_large, fetch_folded, run_layers
from monocal.kernels.integral_walk import Ids, Matrix, Vector
from monocal.kernels.knot_integral import integrate_knots
from monocal.kernels.rescaling import bounded_scale

AT_ONCE = 4
"""Fields whose table rows are added up before they are added to the sum."""


@final
@dataclass(frozen=True)
class Head:
    """One task's own part.

    Attributes:
        knots: Increasing positions on the logit axis.
        first: Output of the network that is its first raw height.
        rescaling: Whether two outputs, w and b, follow the heights.
        wide: The skipping column that is its wide shift, or -1.
        line: Slope and intercept of the straight line that the curve starts from.
        share: How far the curve is believed.
        beta: Constant of the integral.
        constant: Added to the curve.
        shift: Added to the whole.
    """

    knots: NDArray[np.float64]
    first: int
    rescaling: bool
    wide: int
    line: tuple[float, float]
    share: float
    beta: float
    constant: float
    shift: float


@compiled()
def score_head_rows(
    logits: Matrix,
    field_ids: Any,
    plan: Ids,
    table: Matrix,
    vectors: Matrix,
    projections: Matrix,
    layers: Vector,
    knots: Matrix,
    places: Any,
    constants: Matrix,
    out: Matrix,
) -> None:
    """Writes calibrated logits `(tasks, n)` into `out`.

    `places` per task: its first output, its knots, the output that is w or -1, the column of its wide shift or -1.
    `constants` per task: slope, intercept, share, beta, constant, shift. Leading fields that all rows have in common
    are added up once; every row is still summed in the order of the fields, so that its result does not depend on it.
    """
    n_tasks, n_rows = logits.shape
    n_block = min(n_rows, BLOCK)
    n_columns, n_folded = plan[N_COLUMNS], plan[N_FOLDED]
    sums = np.empty((n_block + 1, n_columns), np.float32)
    work = np.empty((2 * n_block, plan[N_WIDEST]), np.float32)
    n_same = 0
    while n_same < n_folded and _is_same(field_ids, plan[FIRST_FIELD + 4 * n_same], n_rows):
        n_same += 1
    if n_same < n_folded:
        n_same -= n_same % AT_ONCE
    for c in range(n_columns):
        sums[n_block, c] = layers[c]
    add_folded(plan, 0, n_same, 0, field_ids, table, sums, n_block)
    first = 0
    while first < n_rows:
        n_here = min(n_block, n_rows - first)
        for row in range(n_here):
            for c in range(n_columns):
                sums[row, c] = sums[n_block, c]
            fetch_folded(plan, n_same, n_folded, first + row, field_ids, table)
            add_folded(plan, n_same, n_folded, first + row, field_ids, table, sums, row)
            add_large(plan, n_folded, n_folded + plan[N_LARGE], first + row, field_ids, vectors, projections, sums, row)
        result = run_layers(n_here, plan, layers, sums, work)
        for task in range(n_tasks):
            start, n_knots, w_column, wide_column = places[task, 0], places[task, 1], places[task, 2], places[task, 3]
            own_knots, share = knots[task], constants[task, 2]
            for row in range(n_here):
                scale, shift = 1.0, constants[task, 4]
                if wide_column >= 0:
                    shift += float(sums[row, wide_column])
                if w_column >= 0:
                    scale = bounded_scale(float(work[result + row, w_column]))
                    shift += float(work[result + row, w_column + 1])
                t = constants[task, 0] * logits[task, first + row] + constants[task, 1]
                area = integrate_knots(t, own_knots, n_knots, work[:, start:], result + row)
                value = scale * area + (scale * constants[task, 3] + shift)
                if share != 1.0:
                    value = (1.0 - share) * t + share * value
                out[task, first + row] = value + constants[task, 5]
        first += n_here


@compiled(inline=True)
def _is_same(field_ids: Any, column: int, n_rows: int) -> bool:
    row = 1
    while row < n_rows and field_ids[row, column] == field_ids[0, column]:
        row += 1
    return row >= n_rows


@final
class FoldedHeads:
    """Scores rows for several tasks whose UMC maps have the same hidden layers.

    A row's result for a task is that of `FoldedKnots` with that task's map alone, to the last bit.

    Arguments:
        net: The folded network; its outputs are the heads' side by side, its skipping columns their wide shifts.
        heads: Each task's own part.
    """

    def __init__(self, net: FoldedNet, heads: Sequence[Head]) -> None:
        self.net = net
        most = max(len(head.knots) for head in heads)
        self._heads = (
            np.array([np.pad(head.knots, (0, most - len(head.knots))) for head in heads]),
            np.array(
                [
                    [head.first, len(head.knots), head.first + len(head.knots) if head.rescaling else -1, head.wide]
                    for head in heads
                ]
            ),
            np.array([[*head.line, head.share, head.beta, head.constant, head.shift] for head in heads]),
        )
        self._net = (net.plan, net.table, net.vectors, net.projections, net.weights)

    def score(
        self, logits: NDArray[np.float64], field_ids: NDArray[np.int32], tasks: Sequence[int] | None = None
    ) -> NDArray[np.float64]:
        """Returns calibrated logits `(tasks, n)`.

        Arguments:
            logits: `(tasks, n)`, C-contiguous.
            field_ids: `(n, F)`, C-contiguous; ids that a field lacks count as 0.
            tasks: Which heads the rows of `logits` belong to; None for all, in order.
        """
        out = np.empty(logits.shape)
        heads = self._heads if tasks is None else tuple(part[list(tasks)] for part in self._heads)
        score_head_rows(logits, field_ids, *self._net, *heads, out)
        return out
