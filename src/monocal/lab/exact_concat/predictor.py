"""Prediction of UMC with the paper's integrand: folded tables, rescaling network, exact integral."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.compiled.fold import (
    DEFAULT_TABLE_BYTES,
    N_COLUMNS,
    N_WIDEST,
    State,
    constant_layer,
    fold,
    layer_of,
    layers_of,
)
from monocal.compiled.jit import LANES, Matrix, Vector, compiled
from monocal.compiled.predict import BLOCK, FoldedPredictor, Net, bounded_scale, mixed, on_line, run_layers, sum_fields
from monocal.lab.exact_concat.integral import pack_integrand
from monocal.lab.exact_concat.kernel import integrate_row
from monocal.lab.exact_concat.walk import CAP, N_IDS, N_SCRATCH


@compiled()
def score_rows(
    logits: Vector,
    field_ids: Any,
    net: Net,
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
    plan = net[0]
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
            sum_fields(net, field_ids, first + row, sums, row)
        result = 0
        if w_column >= 0:
            result = run_layers(n_here, net, sums, work)
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


def concat_predictor(
    state: State,
    *,
    field_sizes: Sequence[int],
    vectors: NDArray[Any] | None = None,
    wide_shifts: NDArray[Any] | None = None,
    intercept: float = 0.0,
    max_table_bytes: int = DEFAULT_TABLE_BYTES,
) -> FoldedPredictor:
    r"""Returns what scores rows of ids as `ConcatMap` does, by the exact integral; arguments as for `umc_predictor`.

    .. math:: f(t, x) = e^{w(x)} (U(t, x) + \beta) + b(x) + \mathrm{wide}(x) + \mathrm{intercept}

    The result never decreases in t for fixed ids: all but U is a constant of the row, and U does not decrease.
    """
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
    net = fold(field_sizes, table, layers, skip=skip, own_columns=own, max_table_bytes=max_table_bytes)
    constants = np.array([packed.third_bias, float(np.asarray(state["beta"]).reshape(())), intercept], np.float64)
    return FoldedPredictor(
        net,
        score_rows,
        # the network returns w and b; the wide shift is the last column that skips it, behind the offsets
        net.arrays(0 if layers else -1, -1 if own is None else net.n_skip - 1),
        *(packed.slopes, packed.weights, packed.biases, packed.third),
        constants,
    )
