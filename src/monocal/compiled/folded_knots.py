"""Prediction of UMC with the integrand at knots: folded tables, trunk, exact quadratic pieces."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.compiled.folded_net import N_COLUMNS, N_WIDEST, FoldedNet
from monocal.compiled.folded_rows import BLOCK, run_layers, sum_fields
from monocal.compiled.jit import Ids, Matrix, Vector, compiled
from monocal.compiled.knot_integral import integrate_knots
from monocal.compiled.predictor import FoldedPredictor, mixed, on_line
from monocal.compiled.rescaling import bounded_scale


@compiled()
def score_knot_rows(
    logits: Vector,
    field_ids: Any,
    plan: Ids,
    table: Matrix,
    vectors: Matrix,
    projections: Matrix,
    layers: Vector,
    knots: Vector,
    constants: Vector,
    line: Vector,
    out: Vector,
) -> None:
    """Writes calibrated logits into `out`; see `FoldedPredictor.score` for `line`.

    `constants`: beta, intercept. The plan ends with the output that is w (b follows) or -1 and the skipping column that
    is the wide shift or -1.
    """
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
            sum_fields(plan, layers, table, vectors, projections, field_ids, first + row, sums, row)
        result = run_layers(n_here, plan, layers, sums, work)
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


@final
class FoldedKnots(FoldedPredictor):
    r"""Scores rows with UMC whose integrand is given at knots.

    .. math:: f(t, x) = e^{w(x)} (U(t, x) + \beta) + b(x) + \mathrm{wide}(x) + \mathrm{intercept}

    The result never decreases in t for fixed ids, not even between neighbouring float64 numbers; see
    `knot_integral`.

    Arguments:
        net: The folded network. Its only skipping column is the wide shift, if there is one; its outputs are one raw
            height per knot, then w and b if `rescaling`.
        knots: Increasing positions on the logit axis, at least two.
        beta: Constant of the integral.
        intercept: Added to every result.
        rescaling: Whether the network returns w and b.
        wide: Whether there is a wide shift.
    """

    def __init__(
        self,
        net: FoldedNet,
        knots: NDArray[Any],
        *,
        beta: float = 0.0,
        intercept: float = 0.0,
        rescaling: bool = True,
        wide: bool = False,
    ) -> None:
        super().__init__(net)
        self.knots = np.ascontiguousarray(knots, np.float64)
        n_knots = self.knots.shape[0]
        constants = np.array([beta, intercept], np.float64)
        places = np.array([n_knots if rescaling else -1, net.n_skip - 1 if wide else -1], np.int64)
        self._rest = (
            *(np.concatenate([net.plan, places]), net.table, net.vectors, net.projections, net.weights),
            *(self.knots, constants),
        )

    def write(
        self,
        logits: NDArray[np.float64],
        field_ids: NDArray[np.int32],
        line: NDArray[np.float64],
        out: NDArray[np.float64],
    ) -> None:
        score_knot_rows(logits, field_ids, *self._rest, line, out)
