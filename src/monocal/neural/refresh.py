"""What a trained map knows of itself: its posterior, the variance of its logits, and how it goes on with newer rows.

The convex part has its posterior; the network stays as it is, and its share moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from monocal.carry_over.fit import line_beside
from monocal.core.dataset import Dataset
from monocal.core.fields import FieldSchema
from monocal.core.scores import Floats, LogitVariance
from monocal.neural.fitted import Weights, network_weight
from monocal.wide.intervals import logit_variances, posterior_at_fit, unexplained_at_fit
from monocal.wide.penalties import FIRST_PENALTY
from monocal.wide.refresh import centred, refresh_effects, require_posterior, restore
from monocal.wide.solver import WideParameters

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
    map_logits: MapLogits, weights: Weights, state: Weights | None, method: str, data: Dataset, level: float
) -> tuple[Weights, float, Weights, dict[str, Any]]:
    r"""Moves level, shifts and the network's share α (or the slope, where the network was left out).

    :math:`z' = t + \alpha (f(t, x) - t) + \sum_k \delta_{k, x_k} + c`: all of it is linear in α, δ and c, so today's
    rows say about α what they say about a slope.

    Returns the new arrays, how much the level moves, what is known now, and what moved.

    Arguments:
        map_logits: Calibrated logits of rows, from a map's arrays.
        weights: All arrays of the calibrator.
        state: What the fit or the last refresh kept.
        method: Its name.
        data: Today's rows, with the fields that the method looks at.
        level: The last intercept in use.
    """
    beside = _with_shifts(weights, data)
    known = restore(require_posterior(state, method), beside, _shifts(weights), beside.fields)
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
