"""A fitted network as one map of the ranker's logit and field ids: what it answers, how surely, and how it goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from monocal.calibrators.contract import RowScorer
from monocal.carry_over.shrinkage import line_beside
from monocal.core.dataset import Dataset
from monocal.core.fields import FieldSchema, Ids
from monocal.core.scores import Floats, LogitVariance
from monocal.neural.maps import Curve
from monocal.ops.operations import Ops, Values
from monocal.wide.intervals import logit_variances, posterior_at_fit, unexplained_at_fit
from monocal.wide.refresh import centred, refresh_effects, restore
from monocal.wide.solver import FIRST_PENALTY, WideParameters

if TYPE_CHECKING:
    from monocal.compiled.predict import FoldedPredictor


Weights = dict[str, NDArray[Any]]
"""Everything learned by name: `affine`, `mix`, `curve.*`, `encoder.*`, `wide.*`."""


FittedMap = Callable[[Floats, Ids | None], Floats]
"""Calibrated logits `(n,)` from the ranker's logits and field ids, on arrays."""


MakeContext = Callable[[Ops, Values | None], Values | None]
"""Makes context rows `(n, d)` from field ids `(n, F)`, over operations; None if the curve is of the score alone."""


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
        from monocal.compiled.predict import umc_predictor

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


# What a trained map knows of itself. The convex part has its posterior; the network stays, and its share moves.

SHARE_INFORMATION = 25.0
"""A share learned on later rows is known to about a fifth."""

SMALLEST_SHARE = 0.01
"""A network that is in use stays in use: the share may rise again."""

MapLogits = Callable[[Weights, Dataset], Floats]
"""Calibrated logits of rows, from a map's arrays."""


def network_posterior(weights: Weights, logits: Floats, data: Dataset) -> Weights:
    """Returns how much the rows of a fit say about level, share or slope, and shifts.

    Arguments:
        weights: All arrays of the fitted calibrator.
        logits: Calibrated, one per row.
        data: The rows.
    """
    known = posterior_at_fit(logits, _with_shifts(weights, data), _penalties(weights))
    if network_weight(weights) > 0.0:
        known["single"][1] = SHARE_INFORMATION
    return known


def network_unexplained(
    weights: Weights, logits: Floats, data: Dataset, posterior: Weights, shares: Floats | None
) -> Weights:
    """Returns what the fit misses, for intervals.

    A network explains more of the rows that it was trained on than of others. Of what it takes away from the spread
    beside the best line through the same shifts, half is counted.

    Arguments:
        weights: All arrays of the fitted calibrator.
        logits: Calibrated, one per row.
        data: The rows.
        posterior: What `network_posterior` returned.
        shares: Which share of each field's effect is carried; None means all.
    """
    shares = shares if len(posterior["penalties"]) else None
    if network_weight(weights) == 0.0:
        return unexplained_at_fit([logits], data, posterior, shares)[0]
    rows = _with_shifts(weights, data)
    line = line_beside(rows, WideParameters.at(_shifts(weights)))
    beside = rows.fields.add_shifts(line.slope * rows.z + line.intercept, rows.ids, line.shifts)
    found, straight = unexplained_at_fit([logits, beside], data, posterior, shares)
    return {name: 0.5 * (column + straight[name]) for name, column in found.items()}


def network_logit_variance(
    map_logits: MapLogits, weights: Weights, data: Dataset, posterior: Weights, unexplained: Weights, shares: Any
) -> LogitVariance:
    r"""Returns how surely every row's calibrated logit is known.

    The convex part has its posterior. For the trained part stands a cheap rule: where the network moves a row by D and
    has the share α, that is uncertain by :math:`(1 - \alpha^2 + s_\alpha^2) D^2`, with the standard error s of the
    share. A network that later rows confirmed in full moves rows with an error of a fifth of the way.

    Arguments:
        map_logits: Calibrated logits of rows, from a map's arrays.
        weights: All arrays of the calibrator.
        data: The rows, with the fields that the method looks at.
        posterior: What the fit or the last refresh kept.
        unexplained: What the fit misses.
        shares: Which share of each field's effect is carried; None means all.
    """
    rows, share, network = _with_shifts(weights, data), network_weight(weights), None
    if share > 0.0:
        network = _network_moves(map_logits, weights, data), share
    return logit_variances(rows, rows.fields, posterior, unexplained, shares if len(rows.fields) else None, network)


def refresh_network(
    map_logits: MapLogits, weights: Weights, state: Weights, data: Dataset, level: float
) -> tuple[Weights, float, Weights, dict[str, Any]]:
    r"""Moves level, shifts and the network's share α (or the slope, where the network was left out).

    :math:`z' = t + \alpha (f(t, x) - t) + \sum_k \delta_{k, x_k} + c`: all of it is linear in α, δ and c, so today's
    rows say about α what they say about a slope.

    Returns the new arrays, how much the level moves, what is known now, and what moved.

    Arguments:
        map_logits: Calibrated logits of rows, from a map's arrays.
        weights: All arrays of the calibrator.
        state: What the fit or the last refresh kept.
        data: Today's rows, with the fields that the method looks at.
        level: The last intercept in use.
    """
    beside = _with_shifts(weights, data)
    known = restore(state, beside, _shifts(weights), beside.fields)
    slope, intercept = (float(number) for number in weights["affine"])
    share = network_weight(weights)
    entering = slope * data.z + intercept
    columns, centre = centred(data.z, entering, data.weights)
    line = entering
    if share > 0.0:
        columns[:, 1] = _network_moves(map_logits, weights, data)
        line = entering + share * columns[:, 1]
    constant = float(weights["wide.intercept"][0]) if "wide.intercept" in weights else 0.0
    found = refresh_effects(line + constant + level, beside, columns, known)
    moved, second = (float(number) for number in found.single)
    following = dict(weights)
    if share > 0.0:
        following["mix"] = np.array([np.clip(share + second, SMALLEST_SHARE, 1.0)])
    else:
        second = max(second, -slope)
        following["affine"] = np.array([slope + second, intercept - second * centre])
    if "wide.shifts" in weights:
        following |= {"wide.shifts": found.shifts, "wide.offsets": known.schema.offsets}
    facts = found.facts(known, "network" if share > 0.0 else "slope")
    return following, moved, found.posterior.as_arrays(), facts


def _network_moves(map_logits: MapLogits, weights: Weights, data: Dataset) -> Floats:
    """Returns by how much the map alone moves every row from the straight line that it starts from."""
    slope, intercept = (float(number) for number in weights["affine"])
    alone = {name: array for name, array in weights.items() if not name.startswith("wide.") and name != "mix"}
    return map_logits(alone, data) - (slope * data.z + intercept)


def _shifts(weights: Weights) -> Floats:
    return weights.get("wide.shifts", np.zeros(0))


def _with_shifts(weights: Weights, data: Dataset) -> Dataset:
    """Returns the rows with those fields alone that have shifts: all that the method looks at, or none."""
    if "wide.shifts" not in weights or data.ids is None:
        return data.without_fields()
    knots: Sequence[int] | None = None if data.schema is None else data.schema.n_knots
    return replace(data, schema=FieldSchema.of_offsets(weights["wide.offsets"], knots))


def _penalties(weights: Weights) -> Floats:
    n_fields = len(weights["wide.offsets"]) - 1 if "wide.shifts" in weights else 0
    return weights.get("wide.penalties", np.full(n_fields, FIRST_PENALTY))[:n_fields]
