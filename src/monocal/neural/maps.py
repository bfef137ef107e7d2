r"""The maps of all networks, each written once: a function of operations, logits and a context, and what it learns.

A function runs on torch to be trained, on numpy to predict and on ONNX to be exported (see `monocal.ops.operations`).
For a fixed context row everything but the logit is a constant, and what is done with the logit never turns two numbers
around: hence no map but `desc` with the score in its weights, and `broken_line` without `rises`, ever decreases in the
score, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.compiled.jit import LOG_SCALE_LIMIT
from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput
from monocal.core.scores import Floats
from monocal.ops.operations import Ops, Values

MASS_FLOOR = 1e-4
"""Smallest probability that `sbcr` returns."""

LINE_EPSILON = 1e-4
"""Added to the distances of a broken line's knots, as the released code of UMC's authors does."""

DESC_LOGIT_LIMIT, DESC_FLOOR, N_BASES, N_BUCKETS = 16.0, 1e-6, 48, 100
"""`desc` clips logits to ±16 and probabilities to [1e-6, 1 − 1e-6]; it mixes 48 curves by 100 buckets of the score."""


Curve = Callable[[Ops, Values, Values | None], Values]
"""A map written over operations: calibrated logits from logits `(n,)` and context rows."""


# What a map learns


@final
@dataclass(frozen=True)
class Network:
    """Affine layers with ReLU in between and nothing after the last one.

    Attributes:
        n_in: Width of the input.
        hidden: Widths of the hidden layers.
        n_out: Width of the output.
        starts_at_zero: Whether the output is 0 before training.
        bias_scale: Standard deviation of the biases at the start.
    """

    n_in: int
    hidden: Sequence[int]
    n_out: int
    starts_at_zero: bool = False
    bias_scale: float = 0.0


@final
@dataclass(frozen=True, eq=False)
class Numbers:
    r"""Numbers that are trained from a start.

    Attributes:
        start: The start.
        in_order: Adds :math:`\sum_k \max(0, b_k - b_{k+1})` to the training loss.
    """

    start: NDArray[Any]
    in_order: bool = False


@final
@dataclass(frozen=True)
class Drawn:
    """Numbers that are trained from random ones.

    Attributes:
        shape: Of the array.
        scale: Their standard deviation.
    """

    shape: tuple[int, ...]
    scale: float


@final
@dataclass(frozen=True, eq=False)
class Fixed:
    """Numbers that stay, in float64."""

    values: NDArray[Any]


@final
@dataclass(frozen=True)
class MapInputs:
    """What a method may know when it says what its map learns.

    Attributes:
        rows: The training rows, with logits as they enter the map.
        context_width: Numbers per context row; 0 if there are none.
        n_dimensions: Length of one field's vector.
        warm_start: Whether the map should start as the identity.
    """

    rows: Dataset
    context_width: int
    n_dimensions: int
    warm_start: bool

    @property
    def n_fields(self) -> int:
        return len(self.rows.fields)


Parts = Mapping[str, Network | Numbers | Drawn | Fixed]
"""What a map learns by name, in the order in which random starts are drawn."""


def outputs_for(name: str, width: int, hidden: Sequence[int], n_out: int, **start: Any) -> Parts:
    """Returns a network of the context; without one (width 0) the constants that take its place.

    Example:
        >>> outputs_for("trunk", 8, (16,), 3)
        {'trunk': Network(n_in=8, hidden=(16,), n_out=3, starts_at_zero=False, bias_scale=0.0)}
        >>> outputs_for("trunk", 0, (16,), 3)["constants"].start.tolist()
        [0.0, 0.0, 0.0]
    """
    if width == 0:
        return {"constants": Numbers(np.zeros(n_out))}
    return {name: Network(width, tuple(hidden), n_out, **start)}


def outputs(ops: Ops, name: str, t: Values, context: Values | None) -> Values:
    """Returns what the network of `outputs_for` makes of every row, `(n, n_out)`."""
    return ops.rows(ops.learned("constants"), t) if context is None else ops.dense(name, context)


# UMC


def umc_parts(
    width: int,
    knots: Floats,
    hidden: Sequence[int],
    *,
    rescaling: bool = True,
    identity_start: bool = True,
    bias_scale: float = 0.0,
) -> Parts:
    """What `umc` learns: heights at the knots and, with `rescaling`, w and b, by one network of the context.

    Arguments:
        width: Numbers per context row; 0 makes a map of the score alone.
        knots: Increasing positions on the logit axis, for example quantiles of the fitting logits.
        hidden: Widths of the network.
        rescaling: Without it w = b = 0 for every row.
        identity_start: Whether the untrained map returns its input.
        bias_scale: Standard deviation of the biases at the start.
    """
    places = np.asarray(knots, dtype=np.float64)
    if places.ndim != 1 or places.shape[0] < 2 or not np.all(np.diff(places) > 0.0):
        raise InvalidInput.of(
            "knots", places.tolist(), "at least two increasing positions", "use distinct quantiles of the logits"
        )
    n_out = places.shape[0] + 2 * rescaling
    network = outputs_for("trunk", width, hidden, n_out, starts_at_zero=identity_start, bias_scale=bias_scale)
    return {"beta": Numbers(np.zeros(())), "knots": Fixed(places), **network}


def umc(ops: Ops, t: Values, context: Values | None, *, rescaling: bool = True) -> Values:
    r"""Unconstrained monotone calibration with its derivative at knots.

    .. math:: f(t, x) = e^{w(x)} \left( \int h(v, x)\,dv + \beta \right) + b(x), \qquad h > 0

    References:
        Bai et al. Unconstrained monotonic calibration of predictions in deep ranking systems. SIGIR 2025.
    """
    knots, beta = ops.learned("knots"), ops.double(ops.learned("beta"))
    n_knots = knots.shape[0]
    raw = outputs(ops, "trunk", t, context)
    area = knot_integral(ops, t, knots, ops.double(positive(ops, ops.columns(raw, 0, n_knots))))
    if not rescaling:
        return area + beta
    log_scale = ops.clip(ops.column(raw, n_knots), -LOG_SCALE_LIMIT, LOG_SCALE_LIMIT)
    scale = ops.exp(ops.double(log_scale))
    return scale * area + (scale * beta + ops.double(ops.column(raw, n_knots + 1)))


def positive(ops: Ops, values: Values) -> Values:
    r"""Maps any number to a positive one, :math:`1 + \mathrm{ELU}(u) = e^{\min(u,0)} + \max(u,0)`.

    Each side is written by itself, which keeps full relative precision for very negative u, where 1 + ELU would round
    to 0, and makes the derivative at 0, where the identity start is, the one that both sides have.
    """
    above = values > 0.0
    return ops.where(above, values + 1.0, ops.exp(ops.where(above, 0.0, values)))


def knot_integral(ops: Ops, t: Values, knots: Any, heights: Values) -> Values:
    r"""Integrates the broken line through positive heights `(n, K)` at knots, from the middle knot to every logit.

    Between knots j and j+1, :math:`\Delta` apart, with :math:`\delta = t - \kappa_j`:

    .. math:: U(t) = \kappa_m + c_j + \delta h_j + \delta^2 \frac{h_{j+1} - h_j}{2\Delta}

    Outside the knots the height is constant. Heights of 1 give U(t) = t. U has a continuous derivative.

    **Never decreases, also in floating point.** A rising segment is evaluated from its left end and a falling one
    from its right end. Either way the distance from that end is multiplied and added with non-negative numbers only,
    each a monotone operation after rounding, and the result is held between the segment's end values, which are
    partial sums of non-negative numbers. Where two pieces meet, at knots and between equal heights, both have the
    same derivative, and that is the gradient.
    """
    n_knots = knots.shape[0]
    middle = (n_knots - 1) // 2
    ends = ops.columns(heights, 1, n_knots) + ops.columns(heights, 0, n_knots - 1)
    steps = (knots[1:] - knots[:-1]) * ends * 0.5
    origin = ops.rows(knots[middle : middle + 1], t)
    values = [origin, origin + ops.running_sum(ops.columns(steps, middle, n_knots - 1))]
    if middle > 0:
        values.insert(0, origin - ops.running_sum(ops.columns(steps, 0, middle), from_end=True))
    area = ops.concat(values)

    at = ops.segment(t, knots)
    left, right = ops.look_up(knots[:-1], at), ops.look_up(knots[1:], at)
    h0, h1 = ops.pick(heights, at), ops.pick(heights, at + 1)
    u0, u1 = ops.pick(area, at), ops.pick(area, at + 1)
    rise, fall = t - left, right - t
    halved = (h1 - h0) / (2.0 * (right - left))
    from_left = ops.minimum(u0 + rise * (h0 + rise * halved), u1)
    from_right = ops.maximum(u1 - fall * (h1 - fall * halved), u0)
    inside = ops.where(h1 >= h0, from_left, from_right)
    return ops.where(rise < 0.0, u0 + rise * h0, ops.where(fall <= 0.0, u1 - fall * h1, inside))


# SBCR


def sbcr_parts(width: int, n_bins: int, hidden: Sequence[int], *, identity_start: bool = False) -> Parts:
    """What `sbcr` learns: the masses of the intervals, by a network of the context; equal ones are the identity."""
    return outputs_for("masses", width, hidden, n_bins, starts_at_zero=identity_start)


def sbcr(ops: Ops, t: Values, context: Values | None, *, n_bins: int) -> Values:
    r"""Spreads a probability mass of 1 over K equal score intervals and returns the mass below the score.

    .. math:: \alpha = \mathrm{softmax}(\mathrm{net}(x)), \quad
              p' = c_k + (K p - k)\,\alpha_{k+1}, \quad k = \lfloor K p \rfloor, \quad c_k = \sum_{j \le k} \alpha_j

    clipped to [1e-4, 1 − 1e-4] and returned as a logit.

    References:
        Zhang et al. A self-boosted framework for calibrated ranking. KDD 2024.
    """
    # in float32 the many small masses of a sharp softmax would sum to less than 1
    upto = ops.softmax_sums(ops.double(outputs(ops, "masses", t, context)))
    below = ops.concat([ops.rows(np.zeros(1), t), upto])
    places = ops.sigmoid(t) * float(n_bins)
    whole, at = ops.bin_of(places, n_bins)
    low, high = ops.pick(below, at), ops.pick(below, at + 1)
    return ops.logit(ops.minimum(low + (places - whole) * (high - low), high), MASS_FLOOR)


# FAC


def equal_probability_knots(n_knots: int) -> Floats:
    r"""Returns the logits of :math:`k/(K+1), k = 1 \dots K`.

    Example:
        >>> equal_probability_knots(4).round(6).tolist()
        [-1.386294, -0.405465, 0.405465, 1.386294]
    """
    if n_knots < 2:
        raise InvalidInput.of("n_knots", n_knots, "at least 2", "use 100, the paper's choice")
    p = np.arange(1, n_knots + 1) / (n_knots + 1)
    result: Floats = np.log(p / (1.0 - p))
    return result


def line_parts(n_knots: int) -> Parts:
    """What `broken_line` learns: a value at every knot; the values start at the knots, which is the identity."""
    knots = equal_probability_knots(n_knots)
    return {"knots": Fixed(knots), "values": Numbers(knots, in_order=True)}


def broken_line(ops: Ops, t: Values, _context: Values | None = None, *, rises: bool) -> Values:
    r"""Interpolates trained values b at fixed knots a, constant outside the first and last one.

    .. math:: \eta(t) = b_k + (t - a_k) \frac{b_{k+1} - b_k}{a_{k+1} - a_k + \epsilon}

    With `rises` the running maximum of b is used instead of b, so the line never decreases; while the values are in
    order both agree. Without it order is only encouraged by the training loss.
    """
    knots, values = ops.learned("knots"), ops.double(ops.learned("values"))
    if rises:
        values = ops.running_max(values)
    slopes = (values[1:] - values[:-1]) / (knots[1:] - knots[:-1] + LINE_EPSILON)
    t = ops.clip(t, knots[0], knots[-1])
    at = ops.segment(t, knots)
    inside = ops.look_up(values, at) + (t - ops.look_up(knots, at)) * ops.look_up(slopes, at)
    # the last knot belongs to no segment, so it takes its own value
    inside = ops.where(t >= knots[-1], values[-1], inside)
    return ops.minimum(inside, ops.look_up(values[1:], at)) if rises else inside


def fac_parts(width: int, n_knots: int, hidden: Sequence[int], *, identity_start: bool = False) -> Parts:
    """What `fac` learns: one line for all rows, and a network of the context that shifts it."""
    shift = {"shift": Network(width, tuple(hidden), 1, identity_start)} if width else {}
    return {**line_parts(n_knots), **shift}


def fac(ops: Ops, t: Values, context: Values | None, *, rises: bool) -> Values:
    r"""Field-aware calibration: one broken line for all rows, shifted by the features, :math:`\eta(t) + g(x)`.

    References:
        Pan et al. Field-aware calibration: a simple and empirically strong method for reliable probabilistic
        predictions. WWW 2020.
    """
    line = broken_line(ops, t, rises=rises)
    return line if context is None else line + ops.double(ops.column(ops.dense("shift", context), 0))


# DESC


def desc_parts(n_fields: int, n_dimensions: int, hidden: Sequence[int], *, sees_score: bool) -> Parts:
    """What `desc` learns: per field a network that mixes the curves, networks that weigh fields, buckets' vectors."""
    if n_fields < 2:
        raise InvalidInput.of("n_fields", n_fields, "at least 2 fields", "use umc or fac for a single field")
    n_score = n_dimensions if sees_score else 0
    buckets: Parts = {"buckets": Drawn((N_BUCKETS, n_dimensions), 1e-4)} if sees_score else {}
    shapes = {
        f"shape_{field}": Network(n_score + 2 * n_dimensions, tuple(hidden), N_BASES) for field in range(n_fields)
    }
    return {
        **buckets,
        **shapes,
        "joint": Network(n_fields * n_dimensions + n_score, (), 64),
        "field_attention": Network(64, (), n_fields),
        "value": Network(64, (8,), 1),
    }


def desc(ops: Ops, t: Values, context: Values) -> Values:
    r"""Deep ensemble shape calibration, in the form that UMC's authors compare with.

    Every field mixes the 48 curves of `desc_bases` with softmax weights from a network of its vector, its attention
    over the other fields and the vector of the score's bucket. A global network weighs the fields and multiplies by a
    value in (0, 1), so the probability can only shrink.

    **Not monotone** with vectors of buckets: the weights see the score's bucket, so the map jumps at bucket edges.
    Without them the weights are fixed for a fixed context, and a positive mixture of increasing curves increases.

    References:
        Yang et al. Deep ensemble shape calibration: multi-field post-hoc calibration in online advertising. KDD 2024.
    """
    t = ops.clip(t, -DESC_LOGIT_LIMIT, DESC_LOGIT_LIMIT)
    bucket = []
    if ops.has("buckets"):
        _, place = ops.bin_of(ops.sigmoid(t) * float(N_BUCKETS), N_BUCKETS)
        bucket = [ops.look_up(ops.learned("buckets"), place)]
    mixture = ops.double(_desc_mixture(ops, ops.vectors(context), bucket))
    return ops.logit(ops.sum(mixture * desc_bases(ops, t)), DESC_FLOOR)


def desc_bases(ops: Ops, t: Values) -> Values:
    r"""Evaluates the 48 curves through (0, 0) and (1, 1) at every logit, `(n, 48)`.

    Powers :math:`p^a`, scalings :math:`\sigma(a t)` and logarithms :math:`\ln(1 + a p) / \ln(1 + a)`, each for
    16 coefficients a = 0.5, 0.6, …, 2.

    Example:
        >>> from monocal.ops.numpy_ops import NUMPY
        >>> desc_bases(NUMPY, np.log([0.3 / 0.7]))[0, [0, 31, 32, 47]].round(6).tolist()
        [0.547723, 0.155172, 0.344695, 0.427816]
    """
    a = ops.double(np.arange(5, 21) / 10.0)
    p = ops.upright(ops.sigmoid(t))
    return ops.concat([ops.power(p, a), ops.sigmoid(ops.upright(t) * a), ops.log1p(p * a) / ops.log1p(a)])


def _desc_mixture(ops: Ops, context: Values, bucket: list[Values]) -> Values:
    """Returns the weight of every curve in the final probability, `(n, 48)`."""
    n_dimensions = ops.n_inputs("shape_0") // (2 + len(bucket))
    n_fields = ops.n_inputs("joint") // n_dimensions - len(bucket)
    fields = ops.matrices(context, n_fields, n_dimensions)
    affinity = ops.product(fields, ops.turned(fields))
    # a field pays no attention to itself
    affinity = ops.where(np.eye(n_fields, dtype=np.bool_), -math.inf, affinity / math.sqrt(n_dimensions))
    others = ops.product(ops.softmax(affinity), fields)
    weights = []
    for field in range(n_fields):
        inputs = [*bucket, ops.matrix_of(fields, field), ops.matrix_of(others, field)]
        weights.append(ops.softmax(ops.dense(f"shape_{field}", ops.concat(inputs))))
    joint = ops.maximum(ops.dense("joint", ops.concat([context, *bucket])), 0.0)
    attention = ops.softmax(ops.dense("field_attention", joint))
    return ops.weighted_sum(attention, weights) * ops.sigmoid(ops.dense("value", joint))
