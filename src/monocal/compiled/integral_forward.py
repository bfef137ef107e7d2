"""The exact integral of one row and of many."""

from __future__ import annotations

import numpy as np

from monocal.compiled.integral_walk import (
    CROSSING_AT,
    CROSSING_ID,
    KINK_AT,
    KINK_ID,
    N_IDS,
    N_SCRATCH,
    ONE,
    SLACK,
    ZERO,
    Flags,
    Ids,
    Matrix,
    Number,
    Vector,
    area_below,
    cross,
    list_crossings,
    pass_kink,
    saturation,
    start_output,
    start_row,
)
from monocal.compiled.jit import compiled, scalar
from monocal.compiled.limits import CAP


@scalar
def add_piece(u: float, e: float, q: float, length: float) -> tuple[float, float, float]:
    """Integrates 1 + ELU(u) over one piece; returns the area and u, e at its end. Splits where u changes sign."""
    area = 0.0
    if u * q < 0.0:
        zero_at = -u / q
        if zero_at < length:
            area = zero_at * (1.0 + 0.5 * u) if u > 0.0 else area_below(u, 0.0, q, zero_at, e, 1.0)
            length -= zero_at
            u = 0.0
            e = 1.0
    u1 = u + q * length
    if u > 0.0 or (u == 0.0 and q > 0.0):
        u1 = max(u1, 0.0)
        return area + length * (1.0 + 0.5 * (u + u1)), u1, 1.0
    u1 = min(u1, 0.0)
    e1 = saturation(u1)
    return area + area_below(u, u1, q, length, e, e1), u1, e1


@scalar
def integrate_row(
    row: int,
    limit: Number,
    offsets: Matrix,
    slopes: Vector,
    weights: Matrix,
    biases: Vector,
    third: Vector,
    third_bias: Number,
    n_first: int,
    n_second: int,
    scratch: Vector,
    ids: Ids,
    crossing: Flags,
    crossing_words: Flags,
) -> float:
    """Returns the integral from 0 to `limit` for the offsets in `offsets[row]`, in float64."""
    direction = ONE if limit >= ZERO else -ONE
    distance = direction * limit
    n_kinks = start_row(row, direction, distance, offsets, slopes, weights, biases, n_first, n_second, scratch, ids)
    u_start, q_start = start_output(third, scratch[KINK_AT] * SLACK, n_second, scratch, crossing)
    u = float(third_bias) + float(u_start)
    q = float(q_start)
    e = saturation(u)
    total = 0.0
    begin = 0.0
    for i in range(n_kinks + 1):
        end = float(scratch[KINK_AT + i])
        length = end - begin
        walked = 0.0
        for c in range(list_crossings(length, n_second, scratch, ids, crossing, crossing_words)):
            at = float(scratch[CROSSING_AT + c])
            area, u, e = add_piece(u, e, q, at - walked)
            total += area
            walked = at
            q += cross(ids[CROSSING_ID + c], third, scratch)
        area, u, e = add_piece(u, e, q, length - walked)
        total += area
        begin = end
        if i < n_kinks:
            reach = np.float32(float(scratch[KINK_AT + i + 1]) - end) * SLACK
            k = ids[KINK_ID + i]
            q = float(pass_kink(k, np.float32(length), reach, weights, third, n_second, scratch, crossing))
    return float(direction) * total


@compiled()
def integrate_rows(
    first: int,
    last: int,
    limits: Vector,
    offsets: Matrix,
    slopes: Vector,
    weights: Matrix,
    biases: Vector,
    third: Vector,
    third_bias: Number,
    n_first: int,
    n_second: int,
    out: Vector,
) -> None:
    """Writes the integrals of rows `first` to `last` into `out`."""
    scratch = np.zeros(N_SCRATCH, np.float32)
    ids = np.zeros(N_IDS, np.int64)
    crossing = np.zeros(CAP, np.uint8)
    crossing_words = crossing.view(np.uint64)
    for row in range(first, last):
        out[row] = integrate_row(
            row,
            limits[row],
            offsets,
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
