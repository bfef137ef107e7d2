"""The steps that the forward and the backward walk along the score axis share.

Symbols, per row: first-layer unit k computes relu(a_k + v_k d) at distance d from 0 towards the limit; second-layer
unit j holds its pre-activation z_j and its rate of change beta_j; u is the last pre-activation and q its rate. A
first-layer unit switches where a_k + v_k d = 0 (a *kink*), a second-layer unit where z_j = 0 (a *crossing*); between
two of either kind u is linear, so its positive transform integrates in closed form.

Why the integral cannot decrease in floating point: kinks, crossings and slopes are computed from the weights and
the offsets alone, never from the limit. A larger limit therefore adds pieces or prolongs the last one, and every
piece is non-negative. Limits are float32 numbers and pieces are computed in float64, so the growth between two
neighbouring limits (6e-8 relative) exceeds the rounding of a piece (1e-14 relative) by far.

Scratch is one float32 array cut at multiples of `STRIDE`: the compiler can prove that the parts do not overlap and
vectorises every loop over them. Second-layer widths are padded to whole vectors with zero weights; such units never
cross. Helpers are forced inline, because handing an array to a function costs two atomic reference counts.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from monocal.compiled.jit import LANES, ZERO, Ids, Matrix, Number, Vector, scalar, vector

CAP = 512
"""Largest width of the integrand's hidden layers."""

STRIDE = CAP + 48
Z, BETA, SIDE, CROSSING_AT, KINK_AT, A, V, TAU = (i * STRIDE for i in range(8))
K, KQ, P, Q = (i * STRIDE for i in range(8, 12))
N_SCRATCH = 12 * STRIDE
"""Parts of the float32 scratch. SIDE is +1 for a second-layer unit that is off and -1 for one that is on. The stride is
not a power of two, which would put all parts onto the same few lines of the cache."""

CROSSING_ID, KINK_ID, ACTIVE_ID, FLAG, N_IDS = (i * CAP for i in range(5))
"""Parts of the int64 scratch. FLAG is 1 for a first-layer unit that is on at 0⁺, plus 2 if it has a kink."""

FIRST, ACTIVE_FROM, KINK_FROM = np.uint64(0), np.uint64(ACTIVE_ID), np.uint64(KINK_ID)
"""Counters that index an array are unsigned where it matters: a signed index is tested for being negative."""

Flags = Any
"""Arrays of bytes."""

HALF: Number = np.float32(0.5)
ONE: Number = np.float32(1.0)
SLACK: Number = np.float32(1.000001)
NOTHING: Number = np.uint64(0)
SMALL_STEP = 0.02
LOWEST_EXPONENT = -700.0


@scalar
def sort_by_time(n: int, times: Vector, first_time: int, ids: Ids, first_id: int) -> None:
    """Sorts a short list of times and their ids in place; equal times keep their order."""
    for i in range(1, n):
        time = times[first_time + i]
        which = ids[first_id + i]
        j = i - 1
        while j >= 0 and times[first_time + j] > time:
            times[first_time + j + 1] = times[first_time + j]
            ids[first_id + j + 1] = ids[first_id + j]
            j -= 1
        times[first_time + j + 1] = time
        ids[first_id + j + 1] = which


@vector
def start_row(
    row: int,
    direction: Number,
    limit: Number,
    offsets: Matrix,
    slopes: Vector,
    weights: Matrix,
    biases: Vector,
    n_first: int,
    n_second: int,
    scratch: Vector,
    ids: Ids,
) -> int:
    """Fills a, v, z and beta at d = 0⁺ and lists the kinks in order, then the limit; returns how many kinks."""
    n_first = min(n_first, CAP)
    n_second = min(n_second, CAP)
    for k in range(n_first):
        a = offsets[row, k]
        v = direction * slopes[k]
        at = -a / v
        scratch[A + k] = a
        scratch[V + k] = v
        scratch[TAU + k] = at
        is_on = (a > ZERO) | ((a == ZERO) & (v > ZERO))
        ids[FLAG + k] = int(is_on) + 2 * int((at > ZERO) & (at < limit))
    n_active, n_kinks = FIRST, FIRST
    for k in range(n_first):
        flag = ids[FLAG + k]
        ids[ACTIVE_FROM + n_active] = k
        ids[KINK_FROM + n_kinks] = k
        n_active += np.uint64(flag & 1)
        n_kinks += np.uint64(flag >> 1)
    n_on, n_found = int(n_active), int(n_kinks)
    for i in range(n_found):
        scratch[KINK_AT + i] = scratch[TAU + ids[KINK_ID + i]]
    sort_by_time(n_found, scratch, KINK_AT, ids, KINK_ID)
    scratch[KINK_AT + n_found] = limit
    for j in range(n_second):
        scratch[Z + j] = biases[j]
        scratch[BETA + j] = ZERO
    i = 0
    while i + 4 <= n_on:
        k0, k1, k2, k3 = ids[ACTIVE_ID + i], ids[ACTIVE_ID + i + 1], ids[ACTIVE_ID + i + 2], ids[ACTIVE_ID + i + 3]
        a0, a1, a2, a3 = scratch[A + k0], scratch[A + k1], scratch[A + k2], scratch[A + k3]
        v0, v1, v2, v3 = scratch[V + k0], scratch[V + k1], scratch[V + k2], scratch[V + k3]
        for j in range(n_second):
            w0, w1, w2, w3 = weights[k0, j], weights[k1, j], weights[k2, j], weights[k3, j]
            scratch[Z + j] += a0 * w0 + a1 * w1 + a2 * w2 + a3 * w3
            scratch[BETA + j] += v0 * w0 + v1 * w1 + v2 * w2 + v3 * w3
        i += 4
    while i < n_on:
        k0 = ids[ACTIVE_ID + i]
        a0, v0 = scratch[A + k0], scratch[V + k0]
        for j in range(n_second):
            w0 = weights[k0, j]
            scratch[Z + j] += a0 * w0
            scratch[BETA + j] += v0 * w0
        i += 1
    return n_found


@vector
def start_output(
    third: Vector, length: Number, n_second: int, scratch: Vector, crossing: Flags
) -> tuple[Number, Number]:
    """Notes which second-layer units are on and which may cross within the first segment; returns u and q at d = 0.

    u comes without its bias. `length` is the segment's, plus a slack that covers rounding.
    """
    n_second = min(n_second, CAP)
    u, q = ZERO, ZERO
    for j in range(n_second):
        z = scratch[Z + j]
        beta = scratch[BETA + j]
        on = ONE if z > ZERO else ZERO
        side = ONE - on - on
        scratch[SIDE + j] = side
        u += third[j] * on * z
        q += third[j] * on * beta
        crossing[j] = np.uint8((side * beta > ZERO) & (-side * z < side * beta * length))
    return u, q


@scalar
def list_crossings(
    length: float, n_second: int, scratch: Vector, ids: Ids, crossing: Flags, crossing_words: Flags
) -> int:
    """Lists, in order, the units that cross before `length` with the distance at which they do; returns how many.

    Looks at the flags eight at a time, because few are set. The distance comes from z and beta at the segment's
    start, so it does not depend on where the walk ends. A unit that rounding left on the wrong side crosses at once.
    """
    n = 0
    for word in range(min(n_second, CAP) // LANES):
        if crossing_words[word] != NOTHING:
            for j in range(LANES * word, LANES * word + LANES):
                if crossing[j]:
                    at = max(-scratch[Z + j] / scratch[BETA + j], ZERO)
                    if at < length:
                        scratch[CROSSING_AT + n] = at
                        ids[CROSSING_ID + n] = j
                        n += 1
    if n > 1:
        sort_by_time(n, scratch, CROSSING_AT, ids, CROSSING_ID)
    return n


@vector
def pass_kink(
    k: int,
    length: Number,
    next_length: Number,
    weights: Matrix,
    third: Vector,
    n_second: int,
    scratch: Vector,
    crossing: Flags,
) -> Number:
    """Moves z to the segment's end, switches first-layer unit k there and returns the new q.

    A unit that switches on rises (v > 0) and one that switches off falls, so beta gains |v| W2 either way. Flags the
    units that may cross within the next segment.
    """
    n_second = min(n_second, CAP)
    gain = abs(scratch[V + k])
    q = ZERO
    for j in range(n_second):
        side = scratch[SIDE + j]
        beta = scratch[BETA + j]
        z = scratch[Z + j] + beta * length
        beta += gain * weights[k, j]
        scratch[Z + j] = z
        scratch[BETA + j] = beta
        q += third[j] * beta * (HALF - HALF * side)
        crossing[j] = np.uint8((side * beta > ZERO) & (-side * z < side * beta * next_length))
    return q


@scalar
def cross(j: int, third: Vector, scratch: Vector) -> float:
    """Switches second-layer unit j and returns by how much q changes."""
    side = scratch[SIDE + j]
    scratch[SIDE + j] = -side
    return float(side) * float(third[j]) * float(scratch[BETA + j])


@scalar
def saturation(u: float) -> float:
    """Returns e^min(u, 0), the derivative of 1 + ELU; 0 below the exponents that float64 resolves well."""
    return math.exp(min(u, 0.0)) if u > LOWEST_EXPONENT else 0.0


@scalar
def area_below(u0: float, u1: float, q: float, length: float, e0: float, e1: float) -> float:
    """Integrates e^u over a piece on which u goes from u0 to u1, both at most 0.

    The difference quotient is divided by q and not by u1 - u0, so that the last piece of a saturating row grows
    with its length even when its end value has become tiny.
    """
    h = u1 - u0
    if abs(h) < SMALL_STEP:
        return length * e0 * (1.0 + h * (1 / 2 + h * (1 / 6 + h * (1 / 24 + h * (1 / 120 + h / 720)))))
    return (e1 - e0) / q


@scalar
def moment_below(u0: float, u1: float, q: float, length: float, e0: float, e1: float) -> float:
    """Integrates x e^u over the same piece, x measured from its start."""
    h = u1 - u0
    if abs(h) < SMALL_STEP:
        return length * length * e0 * (1 / 2 + h * (1 / 3 + h * (1 / 8 + h * (1 / 30 + h * (1 / 144 + h / 840)))))
    return (e1 * (h - 1.0) + e0) / (q * q)
