"""Weights and nodes of fixed quadrature rules on [-1, 1]."""

from __future__ import annotations

from functools import cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, UnknownName

Rule = Literal["clenshaw_curtis", "gauss_legendre", "umnn"]
NodesAndWeights = tuple[NDArray[np.float64], NDArray[np.float64]]


@cache
def clenshaw_curtis(n_steps: int, *, last_halved: bool = True) -> NodesAndWeights:
    r"""Returns the `n_steps + 1` nodes :math:`\cos(k\pi/n)` and weights of Clenshaw-Curtis.

    .. math:: w_k = \frac{g_k}{n} \sum_{j=0}^{\lfloor n/2\rfloor} \frac{b_j}{1-4j^2} \cos\frac{2jk\pi}{n}

    with :math:`g_0 = g_n = 1`, other :math:`g_k = 2`; :math:`b_0 = 1`, other :math:`b_j = 2`, and
    :math:`b_{n/2} = 1` for even n. Polynomials up to degree n are integrated exactly.

    References:
        Clenshaw, Curtis. A method for numerical integration on an automatic computer. 1960.
        Wehenkel, Louppe. Unconstrained monotonic neural networks. 2019.

    Arguments:
        n_steps: One less than the number of nodes.
        last_halved: Without it :math:`b_{n/2} = 2`, as in the code of UMNN and hence of UMC; for odd n that is the
            same rule, and for n = 50 weights differ by at most 1.6e-5.

    Example:
        >>> nodes, weights = clenshaw_curtis(4)
        >>> (weights * 15).round(6).tolist()
        [1.0, 8.0, 12.0, 8.0, 1.0]
        >>> clenshaw_curtis(4, last_halved=False)[1].round(7).tolist()
        [0.05, 0.5666667, 0.7666667, 0.5666667, 0.05]
    """
    if n_steps < 1:
        raise InvalidInput.of("n_steps", n_steps, "at least 1", "use 50, the paper's choice")
    k = np.arange(n_steps + 1)
    j = np.arange(n_steps // 2 + 1)
    b = np.where(j == 0, 1.0, 2.0)
    if n_steps % 2 == 0 and last_halved:
        b[-1] = 1.0
    g = np.where((k == 0) | (k == n_steps), 1.0, 2.0)
    cosines = np.cos(2.0 * np.pi * np.outer(k, j) / n_steps)
    weights = g / n_steps * (cosines @ (b / (1.0 - 4.0 * j**2)))
    nodes = np.cos(k * np.pi / n_steps)
    return _frozen(nodes), _frozen(weights)


@cache
def gauss_legendre(n_steps: int) -> NodesAndWeights:
    """Returns the `n_steps` nodes and weights of Gauss-Legendre.

    Example:
        >>> nodes, weights = gauss_legendre(2)
        >>> (nodes**2 * 3).round(6).tolist(), weights.round(6).tolist()
        ([1.0, 1.0], [1.0, 1.0])
    """
    if n_steps < 1:
        raise InvalidInput.of("n_steps", n_steps, "at least 1", "use 32")
    nodes, weights = np.polynomial.legendre.leggauss(n_steps)
    return _frozen(nodes), _frozen(weights)


def quadrature(rule: Rule, n_steps: int) -> NodesAndWeights:
    """Returns nodes and weights of a rule by name; `umnn` is Clenshaw-Curtis as UMNN's code has it."""
    if rule == "clenshaw_curtis":
        return clenshaw_curtis(n_steps)
    if rule == "umnn":
        return clenshaw_curtis(n_steps, last_halved=False)
    if rule == "gauss_legendre":
        return gauss_legendre(n_steps)
    raise UnknownName.among("rule", rule, get_args(Rule))


def _frozen(values: NDArray[np.float64]) -> NDArray[np.float64]:
    values.flags.writeable = False
    return values
