"""The exact integral of one row and of many, and its gradients.

The gradients walk again, with running moments instead of stored activations.
"""

from __future__ import annotations

import numpy as np

from monocal.compiled.jit import (
    ZERO,
    Ids,
    Matrix,
    Number,
    Vector,
    compiled,
    scalar,
    vector,
)
from monocal.lab.exact_concat.walk import (
    ACTIVE_FROM,
    ACTIVE_ID,
    CAP,
    CROSSING_AT,
    CROSSING_ID,
    FIRST,
    FLAG,
    HALF,
    KINK_AT,
    KINK_ID,
    KQ,
    N_IDS,
    N_SCRATCH,
    ONE,
    SIDE,
    SLACK,
    A,
    Flags,
    K,
    P,
    Q,
    V,
    area_below,
    cross,
    list_crossings,
    moment_below,
    pass_kink,
    saturation,
    start_output,
    start_row,
)


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


FLUSH_ROWS = 256
"""Weight gradients are summed in float32 over this many rows, then added to float64 totals."""


@scalar
def add_moments(u: float, e: float, q: float, begin: float, length: float) -> tuple[float, float, float, float]:
    """Returns the integrals of E and of E·d over a piece that starts at d = `begin`, and u, e at its end.

    E = e^min(u, 0) is the derivative of the integrand with respect to u.
    """
    area, moment = 0.0, 0.0
    if u * q < 0.0:
        zero_at = -u / q
        if zero_at < length:
            if u > 0.0:
                area = zero_at
                moment = begin * zero_at + 0.5 * zero_at * zero_at
            else:
                area = area_below(u, 0.0, q, zero_at, e, 1.0)
                moment = begin * area + moment_below(u, 0.0, q, zero_at, e, 1.0)
            length -= zero_at
            begin += zero_at
            u = 0.0
            e = 1.0
    u1 = u + q * length
    if u > 0.0 or (u == 0.0 and q > 0.0):
        return area + length, moment + begin * length + 0.5 * length * length, max(u1, 0.0), 1.0
    u1 = min(u1, 0.0)
    e1 = saturation(u1)
    more = area_below(u, u1, q, length, e, e1)
    return area + more, moment + begin * more + moment_below(u, u1, q, length, e, e1), u1, e1


@vector
def close_moments(c0: Number, c1: Number, n_second: int, scratch: Vector) -> None:
    """Writes every second-layer unit's moments so far, P = ∫ E and Q = ∫ E·d over where it was on."""
    n_second = min(n_second, CAP)
    for j in range(n_second):
        on = HALF - HALF * scratch[SIDE + j]
        scratch[P + j] = scratch[K + j] + on * c0
        scratch[Q + j] = scratch[KQ + j] + on * c1


@vector
def pull_unit(
    k: int,
    sign: Number,
    row: int,
    direction: Number,
    products: Matrix,
    n_second: int,
    scratch: Vector,
    gradient_weights: Matrix,
    d_offsets: Matrix,
    d_slopes: Vector,
) -> None:
    """Adds first-layer unit k's share of the moments P and Q to the gradients."""
    n_second = min(n_second, CAP)
    a = sign * scratch[A + k]
    v = sign * scratch[V + k]
    pull_p, pull_q = ZERO, ZERO
    for j in range(n_second):
        p = scratch[P + j]
        q = scratch[Q + j]
        w = products[k, j]
        gradient_weights[k, j] += a * p + v * q
        pull_p += w * p
        pull_q += w * q
    d_offsets[row, k] += sign * pull_p
    d_slopes[k] += sign * direction * pull_q


@compiled()
def pull_rows(
    first: int,
    last: int,
    upstream: Vector,
    limits: Vector,
    offsets: Matrix,
    slopes: Vector,
    weights: Matrix,
    products: Matrix,
    biases: Vector,
    third: Vector,
    third_bias: Number,
    n_first: int,
    n_second: int,
    d_limits: Vector,
    d_offsets: Matrix,
    d_slopes: Vector,
    d_weights: Matrix,
    d_biases: Vector,
) -> float:
    """Writes the gradients of rows `first` to `last`; sums over rows go into the last three. Returns d third_bias.

    `d_weights` and `d_biases` come out as moments, still to be multiplied by the third-layer weights.
    """
    scratch = np.zeros(N_SCRATCH, np.float32)
    ids = np.zeros(N_IDS, np.int64)
    crossing = np.zeros(CAP, np.uint8)
    crossing_words = crossing.view(np.uint64)
    partial = np.zeros((n_first, n_second), np.float32)
    partial_slopes = np.zeros(n_first, np.float32)
    d_third_bias = 0.0
    for row in range(first, last):
        limit = limits[row]
        direction = ONE if limit >= ZERO else -ONE
        distance = direction * limit
        n_kinks = start_row(row, direction, distance, offsets, slopes, weights, biases, n_first, n_second, scratch, ids)
        u_start, q_start = start_output(third, scratch[KINK_AT] * SLACK, n_second, scratch, crossing)
        u = float(third_bias) + float(u_start)
        q = float(q_start)
        e = saturation(u)
        factor = float(upstream[row]) * float(direction)
        c0, c1 = 0.0, 0.0
        begin = 0.0
        for j in range(min(n_second, CAP)):
            scratch[K + j] = ZERO
            scratch[KQ + j] = ZERO
        for k in range(min(n_first, CAP)):
            d_offsets[row, k] = ZERO
        for i in range(n_kinks + 1):
            end = float(scratch[KINK_AT + i])
            length = end - begin
            walked = 0.0
            for c in range(list_crossings(length, n_second, scratch, ids, crossing, crossing_words)):
                at = float(scratch[CROSSING_AT + c])
                area, moment, u, e = add_moments(u, e, q, begin + walked, at - walked)
                c0 += factor * area
                c1 += factor * moment
                walked = at
                j = ids[CROSSING_ID + c]
                side = scratch[SIDE + j]
                scratch[K + j] -= side * np.float32(c0)
                scratch[KQ + j] -= side * np.float32(c1)
                q += cross(j, third, scratch)
            area, moment, u, e = add_moments(u, e, q, begin + walked, length - walked)
            c0 += factor * area
            c1 += factor * moment
            begin = end
            if i < n_kinks:
                k = ids[KINK_ID + i]
                reach = np.float32(float(scratch[KINK_AT + i + 1]) - end) * SLACK
                q = float(pass_kink(k, np.float32(length), reach, weights, third, n_second, scratch, crossing))
                sign = ONE if ids[FLAG + k] & 1 else -ONE
                ids[FLAG + k] ^= 1
                close_moments(np.float32(c0), np.float32(c1), n_second, scratch)
                pull_unit(k, sign, row, direction, products, n_second, scratch, partial, d_offsets, partial_slopes)
        close_moments(np.float32(c0), np.float32(c1), n_second, scratch)
        n_active = FIRST
        for k in range(min(n_first, CAP)):
            ids[ACTIVE_FROM + n_active] = k
            n_active += np.uint64(ids[FLAG + k] & 1)
        for i in range(int(n_active)):
            k = ids[ACTIVE_ID + i]
            pull_unit(k, ONE, row, direction, products, n_second, scratch, partial, d_offsets, partial_slopes)
        for j in range(min(n_second, CAP)):
            d_biases[j] += scratch[P + j]
        d_third_bias += c0
        d_limits[row] = np.float32(float(upstream[row]) * (e + max(u, 0.0)))
        if (row - first + 1) % FLUSH_ROWS == 0 or row == last - 1:
            for k in range(n_first):
                d_slopes[k] += partial_slopes[k]
                partial_slopes[k] = ZERO
                for j in range(n_second):
                    d_weights[k, j] += partial[k, j]
                    partial[k, j] = ZERO
    return d_third_bias
