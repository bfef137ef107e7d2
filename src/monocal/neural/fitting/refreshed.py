"""A trained map goes on with newer rows: its share, its level and the shifts beside it move, the network stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.statistical.carry_over import line_beside
from monocal.calibrators.statistical.field_shrinkage import FIRST_PENALTY
from monocal.calibrators.statistical.refreshing import centred, known_at_fit, refresh_effects, resumed
from monocal.calibrators.statistical.row_variance import (
    row_variances,
    spread_at_fit,
    spreads_at_fit,
    value_variances,
)
from monocal.calibrators.statistical.wide_solver import WideParameters
from monocal.core.row_intervals import KnownLogits
from monocal.core.samples import Ids, Samples
from monocal.core.spaces import Floats
from monocal.neural.fitted import Weights
from monocal.neural.fitted import network_share as curve_share
from monocal.ops.numpy_ops import add_shifts

SHARE_INFORMATION = 25.0
"""A share learned on later rows is known to about a fifth."""

SMALLEST_SHARE = 0.01
"""A network that is in use stays in use: the share may rise again."""


def known_to_network(weights: Weights, logits: Floats, samples: Samples) -> Weights:
    """Returns how much the rows of a fit say about level, share or slope, and shifts.

    Arguments:
        weights: All arrays of the fitted calibrator.
        logits: Calibrated, one per row.
        samples: The rows.
    """
    known = known_at_fit(logits, samples, *_fields(weights, samples), _penalties(weights))
    if curve_share(weights) > 0.0:
        known["single"][1] = SHARE_INFORMATION
    return known


def refresh_network(
    map_logits: Callable[[Weights, Samples], Floats],
    weights: Weights,
    state: Weights | None,
    method: str,
    samples: Samples,
    level: float,
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
        samples: Today's rows, with the fields that the method looks at.
        level: The last intercept in use.
    """
    features, offsets = _fields(weights, samples)
    beside = replace(samples, features=features)
    known, shifts, offsets = resumed(state, method, beside, weights.get("wide.shifts", np.zeros(0)), offsets)
    slope, intercept = (float(number) for number in weights["affine"])
    share = curve_share(weights)
    entering = slope * samples.logits + intercept
    columns, centre = centred(samples.logits, entering, samples.weights_or_ones)
    line = entering
    if share > 0.0:
        columns[:, 1] = _network_moves(map_logits, weights, samples)
        line = entering + share * columns[:, 1]
    constant = float(weights["wide.intercept"][0]) if "wide.intercept" in weights else 0.0
    found = refresh_effects(line + constant + level, beside, columns, shifts, offsets, known)
    moved, second = (float(number) for number in found.single)
    following = dict(weights)
    if share > 0.0:
        following["mix"] = np.array([np.clip(share + second, SMALLEST_SHARE, 1.0)])
    else:
        second = max(second, -slope)
        following["affine"] = np.array([slope + second, intercept - second * centre])
    if "wide.shifts" in weights:
        following |= {"wide.shifts": found.shifts, "wide.offsets": offsets}
    facts = found.facts(shifts, offsets, "network" if share > 0.0 else "slope")
    return following, moved, found.posterior.as_arrays(), facts


def spread_of_network(
    weights: Weights, logits: Floats, samples: Samples, state: Weights, shares: Floats | None
) -> Weights:
    """Returns what the fit misses, for intervals; arguments as for `known_to_network` and `known_by_network`.

    A network explains more of the rows that it was trained on than of others. What it takes away from the spread beside
    the best line through the same shifts is believed by half.
    """
    features, offsets = _fields(weights, samples)
    rest = state, offsets, shares if features.shape[1] else None
    if curve_share(weights) == 0.0:
        return spread_at_fit(logits, samples, *rest)
    shifts = WideParameters(1.0, 0.0, weights.get("wide.shifts", np.zeros(0)), offsets, np.zeros(0))
    line = line_beside(shifts, replace(samples, features=features))
    beside = add_shifts(line.slope * samples.logits + line.intercept, features, line.shifts, offsets)
    found, straight = spreads_at_fit([logits, beside], samples, *rest)
    return {name: 0.5 * (column + straight[name]) for name, column in found.items()}


def known_by_network(
    map_logits: Callable[[Weights, Samples], Floats],
    weights: Weights,
    state: Weights,
    spread: Weights,
    shares: Floats | None,
    n_knots: Sequence[int] | None,
    samples: Samples,
) -> KnownLogits:
    r"""Returns how surely every row's calibrated logit is known.

    The convex part has its posterior. For the trained part stands a cheap rule: where the network moves a row by D and
    is believed to a share α, that is uncertain by :math:`(1 - \alpha^2 + s_\alpha^2) D^2`, with the standard error
    s of the share. A network that later rows confirmed in full moves rows with an error of a fifth of the way.

    Arguments:
        map_logits: Calibrated logits of rows, from a map's arrays.
        weights: All arrays of the calibrator.
        state: What the fit or the last refresh kept.
        spread: What the fit misses.
        shares: Which share of each field's effect is carried; None means all.
        n_knots: Knots per field, 0 for categories; None means categories alone.
        samples: The rows, with the fields that the method looks at.
    """
    features, offsets = _fields(weights, samples)
    share, moved = curve_share(weights), None
    if share > 0.0:
        moved = _network_moves(map_logits, weights, samples), share
    variances = value_variances(state, offsets, shares if offsets.size > 1 else None, n_knots)
    return row_variances(samples, features, variances, offsets, state, spread, moved)


def _network_moves(map_logits: Callable[[Weights, Samples], Floats], weights: Weights, samples: Samples) -> Floats:
    """Returns by how much the map alone moves every row from the straight line that it starts from."""
    slope, intercept = (float(number) for number in weights["affine"])
    alone = {name: array for name, array in weights.items() if not name.startswith("wide.") and name != "mix"}
    return map_logits(alone, samples) - (slope * samples.logits + intercept)


def _fields(weights: Weights, samples: Samples) -> tuple[Ids, NDArray[np.int64]]:
    if "wide.shifts" not in weights or samples.features is None:
        return np.zeros((samples.n_rows, 0), dtype=np.int32), np.zeros(1, dtype=np.int64)
    return samples.features, weights["wide.offsets"]


def _penalties(weights: Weights) -> Floats:
    n_fields = len(weights["wide.offsets"]) - 1 if "wide.shifts" in weights else 0
    return weights.get("wide.penalties", np.full(n_fields, FIRST_PENALTY))[:n_fields]
