"""A trained map goes on with newer rows: its share, its level and the shifts beside it move, the network stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.neural.arrays.context_table import Weights
from monocal.calibrators.neural.arrays.fitted_map import believed_share
from monocal.calibrators.statistical.field_shrinkage import FIRST_PENALTY
from monocal.calibrators.statistical.refreshing import centred, known_at_fit, refresh_effects, resumed
from monocal.core.samples import Ids, Samples
from monocal.core.spaces import Floats

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
    if believed_share(weights) > 0.0:
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
    share = believed_share(weights)
    entering = slope * samples.logits + intercept
    columns, centre = centred(samples.logits, entering, samples.weights_or_ones)
    line = entering
    if share > 0.0:
        alone = {name: array for name, array in weights.items() if not name.startswith("wide.") and name != "mix"}
        columns[:, 1] = map_logits(alone, samples) - entering
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


def _fields(weights: Weights, samples: Samples) -> tuple[Ids, NDArray[np.int64]]:
    if "wide.shifts" not in weights or samples.features is None:
        return np.zeros((samples.n_rows, 0), dtype=np.int32), np.zeros(1, dtype=np.int64)
    return samples.features, weights["wide.offsets"]


def _penalties(weights: Weights) -> Floats:
    n_fields = len(weights["wide.offsets"]) - 1 if "wide.shifts" in weights else 0
    return weights.get("wide.penalties", np.full(n_fields, FIRST_PENALTY))[:n_fields]
