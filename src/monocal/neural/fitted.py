"""A fitted network as one map of the ranker's logit and field ids: start, context, curve, share and shifts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from monocal.calibrators.contract import RowScorer
from monocal.core.fields import Ids
from monocal.core.scores import Floats
from monocal.neural.maps import Curve
from monocal.ops.operations import Ops, Values

if TYPE_CHECKING:
    from monocal.compiled.rows import FoldedPredictor


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


def network_weight(weights: Mapping[str, NDArray[Any]]) -> float:
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


@final
class CompiledUmc:
    """Calibrated logits of a fitted UMC, from the ranker's logits and field ids. A row's result depends on that row
    alone, to the last bit.

    Arguments:
        weights: What the calibrator learned, with a curve whose share is above 0.
        predictor: Makes the compiled loops; those of knots if not given.
    """

    def __init__(self, weights: Weights, predictor: Callable[..., Any] | None = None) -> None:
        from monocal.compiled.knots import umc_predictor

        sizes = sizes_of(weights)
        state = curve_weights(weights)
        self.n_fields = len(sizes)
        self.share = network_weight(weights)
        self.line = np.array([*weights["affine"], self.share, 0.0], np.float64)
        # the compiled loops add shifts to the curve; divided before, they are themselves again after the mix
        shifts = None if "wide.shifts" not in weights else weights["wide.shifts"] / self.share
        constant = float(weights["wide.intercept"][0]) / self.share if "wide.intercept" in weights else 0.0
        self.predictor: FoldedPredictor = (predictor or umc_predictor)(
            state,
            field_sizes=sizes.tolist(),
            vectors=vectors_of(weights, sizes),
            wide_shifts=None if shifts is None else per_id(shifts, weights["wide.offsets"], sizes),
            intercept=constant,
        )

    def __call__(self, logits: Floats, features: Ids | None) -> Floats:
        ids = np.zeros((logits.shape[0], 0), np.int32) if features is None or self.n_fields == 0 else features
        return self.predictor.score(logits, ids, self.line)

    def row_scorer(self, shift: float) -> RowScorer:
        """Returns probabilities of small requests, with `shift` added to every logit."""
        line = self.line + np.array([0.0, 0.0, 0.0, shift])
        n_fields, write = self.n_fields, self.predictor.write

        def score(logits: Floats, ids: Ids) -> Floats:
            out = np.empty(logits.shape[0])
            write(logits, ids if n_fields else ids[:, :0], line, out)
            if len(out) == 1:
                out[0] = expit(out[0])  # the same loop, without what arrays cost
                return out
            result: Floats = expit(out, out)
            return result

        return score


def sizes_of(weights: Weights) -> NDArray[np.int64]:
    """Returns how many ids each field has: a ranker's table and the fitting rows may know different numbers of them."""
    offsets = [weights[name] for name in ("encoder.offsets", "wide.offsets") if name in weights]
    return np.max([np.diff(places) for places in offsets], axis=0) if offsets else np.zeros(0, np.int64)


def per_id(values: NDArray[Any], offsets: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[Any]:
    """Lengthens every field's rows to its size; the rows added are those of id 0, as for any id out of range."""
    if np.array_equal(np.diff(offsets), sizes):
        return values
    places = [
        offsets[field] + np.where(np.arange(size) < offsets[field + 1] - offsets[field], np.arange(size), 0)
        for field, size in enumerate(sizes)
    ]
    result: NDArray[Any] = values[np.concatenate(places)]
    return result


def vectors_of(weights: Weights, sizes: NDArray[np.int64]) -> NDArray[Any] | None:
    """Returns one vector per id, where the encoder keeps one per slot; None without an encoder."""
    if "encoder.table" not in weights:
        return None
    return per_id(weights["encoder.table"][weights["encoder.slots"]], weights["encoder.offsets"], sizes)
