r"""The exact integral of a positive network of the score, and its gradients, on numpy arrays.

.. math:: U(T) = \int_0^T 1 + \mathrm{ELU}(u(t))\,dt, \qquad
          u(t) = w_3 \cdot \mathrm{relu}(W_2\,\mathrm{relu}(w t + a) + b_2) + b_3

Between two switches of a ReLU u is linear in t, so the integral is a sum of elementary terms. No nodes, no error
beyond float32 weights, and U never decreases in T (see `integral_walk`).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monocal.compiled.fold import aligned
from monocal.compiled.jit import LANES
from monocal.lab.exact_concat.kernel import integrate_rows, pull_rows
from monocal.lab.exact_concat.walk import CAP

Floats32 = NDArray[np.float32]
Floats64 = NDArray[np.float64]


class IntegrandWeights(NamedTuple):
    """The integrand's weights as the compiled loops want them: second layer transposed and padded to whole vectors.

    Attributes:
        slopes: `(H1,)`.
        weights: `(H1, padded H2)`, the transposed second layer.
        biases: `(padded H2,)`.
        third: `(padded H2,)`.
        third_bias: One number.
        n_second: H2 before padding.
    """

    slopes: Floats32
    weights: Floats32
    biases: Floats32
    third: Floats32
    third_bias: np.float32
    n_second: int


class IntegralGradients(NamedTuple):
    """Gradients in the order of `exact_integral`'s arguments; those of the weights in float64."""

    d_limits: Floats32
    d_offsets: Floats32
    d_slopes: Floats64
    d_second_weights: Floats64
    d_second_biases: Floats64
    d_third_weights: Floats64
    d_third_bias: float


def pack_integrand(
    slopes: NDArray[Any],
    second_weights: NDArray[Any],
    second_biases: NDArray[Any],
    third_weights: NDArray[Any],
    third_bias: float,
) -> IntegrandWeights:
    """Brings weights into the layout of the compiled loops.

    Example:
        >>> packed = pack_integrand(np.ones(3), np.ones((5, 3)), np.zeros(5), np.ones(5), 0.5)
        >>> packed.weights.shape, packed.third.tolist()
        ((3, 8), [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    """
    n_second, n_first = second_weights.shape
    if max(n_first, n_second) > CAP:
        raise ValueError(f"hidden layers may have up to {CAP} units, got {n_first} and {n_second}")
    n_padded = -(-n_second // LANES) * LANES

    def padded(values: NDArray[Any]) -> Floats32:
        result = np.zeros((*values.shape[:-1], n_padded), np.float32)
        result[..., :n_second] = values
        return aligned(result)

    return IntegrandWeights(
        np.ascontiguousarray(slopes, np.float32),
        padded(np.asarray(second_weights).T),
        padded(np.asarray(second_biases)),
        padded(np.asarray(third_weights)),
        np.float32(third_bias),
        n_second,
    )


def exact_integral(
    limits: NDArray[Any],
    offsets: NDArray[Any],
    slopes: NDArray[Any],
    second_weights: NDArray[Any],
    second_biases: NDArray[Any],
    third_weights: NDArray[Any],
    third_bias: float,
    *,
    n_threads: int = 1,
) -> Floats64:
    """Returns U `(n,)` in float64 for limits `(n,)` and first-layer offsets `(n, H1)`, both taken as float32.

    Arguments:
        limits: Upper limits T, of either sign.
        offsets: First-layer offsets a of every row: what the features contribute.
        slopes: First-layer slopes w `(H1,)`.
        second_weights: W2 `(H2, H1)`.
        second_biases: b2 `(H2,)`.
        third_weights: w3 `(H2,)`.
        third_bias: b3.
        n_threads: Threads over slices of rows. The result does not depend on it.

    Example:
        u(t) = relu(relu(t) + 1) - 2 rises from -1 at t = 0 to 1 at t = 2, where U = (1 - 1/e) + 3/2.

        >>> one = np.ones(1, np.float32)
        >>> area = exact_integral(2 * one, np.zeros((1, 1)), one, one[:, None], one, one, -2.0)
        >>> round(float(area[0] - (2.5 - np.exp(-1.0))), 12)
        0.0
    """
    packed = pack_integrand(slopes, second_weights, second_biases, third_weights, third_bias)
    return integrate(packed, limits, offsets, n_threads=n_threads)


def integrate(packed: IntegrandWeights, limits: NDArray[Any], offsets: NDArray[Any], *, n_threads: int = 1) -> Floats64:
    """The same with weights packed beforehand."""
    limits32, offsets32 = _checked(packed, limits, offsets)
    out = np.empty(limits32.shape[0])

    def slice_of_rows(first: int, last: int) -> None:
        integrate_rows(
            first, last, limits32, offsets32, *packed[:5], packed.slopes.shape[0], packed.third.shape[0], out
        )

    _over_slices(slice_of_rows, limits32.shape[0], n_threads)
    return out


def exact_integral_backward(
    upstream: NDArray[Any],
    limits: NDArray[Any],
    offsets: NDArray[Any],
    slopes: NDArray[Any],
    second_weights: NDArray[Any],
    second_biases: NDArray[Any],
    third_weights: NDArray[Any],
    third_bias: float,
    *,
    n_threads: int = 1,
) -> IntegralGradients:
    """Returns the gradients of `sum(upstream * exact_integral(...))`.

    Walks every row again instead of storing activations: memory does not grow with the number of pieces. Weight
    gradients are summed per slice and then in the order of slices, so the result is the same for the same
    `n_threads`, and differs between thread counts only by rounding.

    Example:
        >>> one = np.ones(1, np.float32)
        >>> gradients = exact_integral_backward(one, 2 * one, np.zeros((1, 1)), one, one[:, None], one, one, -2.0)
        >>> round(float(gradients.d_limits[0]), 6), round(float(gradients.d_third_bias - (2 - np.exp(-1.0))), 6)
        (2.0, 0.0)
    """
    packed = pack_integrand(slopes, second_weights, second_biases, third_weights, third_bias)
    limits32, offsets32 = _checked(packed, limits, offsets)
    upstream64 = np.ascontiguousarray(upstream, np.float64)
    n_rows, n_first, n_padded = limits32.shape[0], packed.slopes.shape[0], packed.third.shape[0]
    products = aligned(packed.weights * packed.third)
    d_limits, d_offsets = np.empty(n_rows, np.float32), np.empty((n_rows, n_first), np.float32)

    def slice_of_rows(first: int, last: int) -> tuple[Floats64, Floats64, Floats64, float]:
        d_slopes, d_weights, d_biases = np.zeros(n_first), np.zeros((n_first, n_padded)), np.zeros(n_padded)
        d_bias = pull_rows(
            first, last, upstream64, limits32, offsets32, packed.slopes, packed.weights, products, packed.biases,
            packed.third, packed.third_bias, n_first, n_padded, d_limits, d_offsets, d_slopes, d_weights, d_biases,
        )  # fmt: skip
        return d_slopes, d_weights, d_biases, d_bias

    parts = _over_slices(slice_of_rows, n_rows, n_threads)
    d_slopes = sum((part[0] for part in parts), np.zeros(n_first))
    moments = sum((part[1] for part in parts), np.zeros((n_first, n_padded)))
    on_moments = sum((part[2] for part in parts), np.zeros(n_padded))
    kept = slice(0, packed.n_second)
    third = packed.third.astype(np.float64)
    d_third = packed.biases * on_moments + (packed.weights * moments).sum(axis=0)
    return IntegralGradients(
        d_limits,
        d_offsets,
        d_slopes,
        np.ascontiguousarray((moments * third)[:, kept].T),
        (on_moments * third)[kept],
        d_third[kept],
        float(sum(part[3] for part in parts)),
    )


def _checked(packed: IntegrandWeights, limits: NDArray[Any], offsets: NDArray[Any]) -> tuple[Floats32, Floats32]:
    limits32 = np.ascontiguousarray(limits, np.float32)
    offsets32 = np.ascontiguousarray(offsets, np.float32)
    wanted = (limits32.shape[0], packed.slopes.shape[0])
    if limits32.ndim != 1 or offsets32.shape != wanted:
        raise ValueError(f"offsets have shape {offsets32.shape}, but limits and slopes ask for {wanted}")
    return limits32, offsets32


def _over_slices(work: Callable[[int, int], Any], n_rows: int, n_threads: int) -> list[Any]:
    n_slices = max(1, min(n_threads, n_rows))
    edges = [n_rows * i // n_slices for i in range(n_slices + 1)]
    if n_slices == 1:
        return [work(0, n_rows)]
    with ThreadPoolExecutor(n_slices) as pool:
        return list(pool.map(work, edges[:-1], edges[1:]))
