"""A fitted network as one map of the ranker's logit and field ids: start, context, curve, share and shifts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.neural.maps import Curve
from monocal.ops.operations import Ops, Values

Weights = dict[str, NDArray[Any]]
"""Everything learned by name: `affine`, `mix`, `curve.*`, `encoder.*`, `wide.*`."""


FittedMap = Callable[[Floats, Ids | None], Floats]
"""Calibrated logits `(n,)` from the ranker's logits and field ids, on arrays."""


class MakeContext(Protocol):
    """Makes the context rows that a curve conditions on."""

    def __call__(self, ops: Ops, ids: Values | None, /) -> Values | None:
        """Returns context rows `(n, d)` for field ids `(n, F)`; None if the curve is of the score alone."""
        ...


def curve_weights(weights: Mapping[str, NDArray[Any]]) -> Weights:
    """Returns the arrays of the curve alone, under the names of its parts."""
    start = "curve."
    return {name[len(start) :]: value for name, value in weights.items() if name.startswith(start)}


def network_share(weights: Mapping[str, NDArray[Any]]) -> float:
    """Returns the weight of the curve beside the line it started from: 1 unless the fit found another one."""
    return float(weights["mix"][0]) if "mix" in weights else 1.0


def looked_up(ops: Ops, ids: Values | None) -> Values | None:
    """Returns the joined vectors of every row's values; None if there are none, or no ids.

    Rare values share the slot of unseen ones, so the table holds one vector per slot and ids go through `slots`.
    """
    if ids is None or not ops.has("encoder.table"):
        return None
    offsets = ops.learned("encoder.offsets")
    places = ops.known_ids(ids, np.diff(offsets)) + offsets[:-1]
    return ops.joined(ops.look_up(ops.learned("encoder.table"), ops.look_up(ops.learned("encoder.slots"), places)))


def fitted_map(ops: Ops, curve: Curve, make_context: MakeContext, z: Values, ids: Values | None) -> Values:
    r"""Returns calibrated logits: the curve of the line, mixed with that line, plus the shifts of the row's values.

    .. math:: t = a z + c, \qquad z' = (1 - \alpha)\,t + \alpha f(t,\ x) + \sum_k \delta_{k, x_k}

    Line and curve increase, and so does their sum after rounding. Shifts are added to each other first and to the
    curve last: for a fixed feature row that is one constant, and adding a constant keeps the curve's order.

    Arguments:
        ops: Operations with everything learned.
        curve: The map.
        make_context: Makes its context.
        z: The ranker's logits.
        ids: Field ids; None without fields.
    """
    slope, intercept = (float(number) for number in ops.learned("affine"))
    line = z * slope + intercept
    share = float(ops.learned("mix")[0]) if ops.has("mix") else 1.0
    values = line
    if share > 0.0:
        values = curve(ops.part("curve"), line, make_context(ops, ids))
    if 0.0 < share < 1.0:
        values = line * (1.0 - share) + values * share
    if ids is None or not ops.has("wide.shifts"):
        return values
    constant = line * 0.0 + float(ops.learned("wide.intercept")[0])
    return values + ops.add_shifts(constant, ids, ops.learned("wide.shifts"), ops.learned("wide.offsets"))
