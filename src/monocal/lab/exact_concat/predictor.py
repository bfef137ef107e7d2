"""Prediction of UMC with the paper's integrand: folded tables, rescaling network, exact integral."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.compiled.fold import (
    DEFAULT_TABLE_BYTES,
    N_COLUMNS,
    N_WIDEST,
    FoldedNet,
    State,
    constant_layer,
    fold,
    layer_of,
    layers_of,
)
from monocal.compiled.jit import LANES, Ids, Matrix, Vector, compiled
from monocal.compiled.knots import bounded_scale
from monocal.compiled.rows import BLOCK, FoldedPredictor, mixed, on_line, run_layers, sum_fields
from monocal.lab.exact_concat.integral import IntegrandWeights, pack_integrand
from monocal.lab.exact_concat.kernel import integrate_row
from monocal.lab.exact_concat.walk import CAP, N_IDS, N_SCRATCH


@compiled()
def score_rows(
    logits: Vector,
    field_ids: Any,
    plan: Ids,
    table: Matrix,
    vectors: Matrix,
    projections: Matrix,
    layers: Vector,
    slopes: Vector,
    weights: Matrix,
    biases: Vector,
    third: Vector,
    constants: Vector,
    line: Vector,
    out: Vector,
) -> None:
    """Writes calibrated logits into `out`; see `FoldedPredictor.score` for `line`.

    `constants`: the integrand's last bias, beta, intercept. The plan ends with the output that is w (b follows) or -1
    and the skipping column that is the wide shift or -1.
    """
    n_rows = logits.shape[0]
    n_block = min(n_rows, BLOCK)
    n_wide = max(plan[N_COLUMNS], -(-slopes.shape[0] // LANES) * LANES)
    sums = np.empty((n_block, n_wide), np.float32)
    work = np.empty((2 * n_block, plan[N_WIDEST]), np.float32)
    scratch = np.empty(N_SCRATCH, np.float32)
    ids = np.empty(N_IDS, np.int64)
    crossing = np.empty(CAP, np.uint8)
    crossing_words = crossing.view(np.uint64)
    n_first = slopes.shape[0]
    n_second = third.shape[0]
    third_bias = np.float32(constants[0])
    w_column, wide_column = plan[-2], plan[-1]
    first = 0
    while first < n_rows:
        n_here = min(n_block, n_rows - first)
        for row in range(n_here):
            sum_fields(plan, layers, table, vectors, projections, field_ids, first + row, sums, row)
        result = 0
        if w_column >= 0:
            result = run_layers(n_here, plan, layers, sums, work)
        for row in range(n_here):
            scale, shift = 1.0, constants[2]
            if wide_column >= 0:
                shift += float(sums[row, wide_column])
            if w_column >= 0:
                scale = bounded_scale(float(work[result + row, w_column]))
                shift += float(work[result + row, w_column + 1])
            start = on_line(logits[first + row], line)
            area = integrate_row(
                row,
                np.float32(start),
                sums,
                slopes,
                weights,
                biases,
                third,
                third_bias,
                n_first,
                n_second,
                scratch,
                ids,
                crossing,
                crossing_words,
            )
            out[first + row] = mixed(start, scale * area + (scale * constants[1] + shift), line)
        first += n_here


@final
class FoldedUmc(FoldedPredictor):
    r"""Scores rows with UMC through the exact integral.

    .. math:: f(t, x) = e^{w(x)} (U(t, x) + \beta) + b(x) + \mathrm{wide}(x) + \mathrm{intercept}

    The result never decreases in t for fixed ids: all but U is a constant of the row, and U does not decrease.

    Arguments:
        net: The folded network. Its skipping columns are the integrand's offsets, then the wide shift if there is
            one; its outputs are w and b if `rescaling`.
        integrand: Packed weights of the integrand.
        beta: Constant of the integral.
        intercept: Added to every result.
        rescaling: Whether the network returns w and b; otherwise the integral is not rescaled.
        wide: Whether the last skipping column is a wide shift.
    """

    def __init__(
        self,
        net: FoldedNet,
        integrand: IntegrandWeights,
        *,
        beta: float = 0.0,
        intercept: float = 0.0,
        rescaling: bool = True,
        wide: bool = False,
    ) -> None:
        super().__init__(net)
        self.integrand = integrand
        constants = np.array([integrand.third_bias, beta, intercept], np.float64)
        places = np.array([0 if rescaling else -1, net.n_skip - 1 if wide else -1], np.int64)
        self._rest = (
            *(np.concatenate([net.plan, places]), net.table, net.vectors, net.projections, net.weights),
            *(integrand.slopes, integrand.weights, integrand.biases, integrand.third),
            constants,
        )

    def write(
        self,
        logits: NDArray[np.float64],
        field_ids: NDArray[np.int32],
        line: NDArray[np.float64],
        out: NDArray[np.float64],
    ) -> None:
        score_rows(logits, field_ids, *self._rest, line, out)


def concat_predictor(
    state: State,
    *,
    field_sizes: Sequence[int],
    vectors: NDArray[Any] | None = None,
    wide_shifts: NDArray[Any] | None = None,
    intercept: float = 0.0,
    max_table_bytes: int = DEFAULT_TABLE_BYTES,
) -> FoldedUmc:
    """Returns what scores rows of ids as `ConcatMap` does; arguments as for `umc_predictor`."""
    n_values, n_shape = int(sum(field_sizes)), state["integrand.slopes"].shape[0]
    own = None if wide_shifts is None else np.asarray(wide_shifts, np.float64).reshape(n_values, 1)
    table = np.zeros((n_values, 0)) if vectors is None else np.asarray(vectors)
    if "constants" in state:
        n_inputs, constants = table.shape[1] * len(field_sizes), np.asarray(state["constants"])
        skip = constant_layer(constants[:n_shape], n_inputs)
        layers = [constant_layer(constants[n_shape:], n_inputs)] if len(constants) > n_shape else []
    else:
        skip, layers = layer_of(state, "offsets"), layers_of(state, "rescaler")
    packed = pack_integrand(
        state["integrand.slopes"],
        state["integrand.second.weight"],
        state["integrand.second.bias"],
        state["integrand.third.weight"][0],
        float(state["integrand.third.bias"][0]),
    )
    return FoldedUmc(
        fold(field_sizes, table, layers, skip=skip, own_columns=own, max_table_bytes=max_table_bytes),
        packed,
        beta=float(np.asarray(state["beta"]).reshape(())),
        intercept=intercept,
        rescaling=bool(layers),
        wide=own is not None,
    )
