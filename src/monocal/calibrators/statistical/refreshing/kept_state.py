"""What a fit keeps for its first refresh, and a refresh for the next one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.statistical.refreshing.posterior import Posterior, State, moved_places, values_information
from monocal.core.errors import InvalidInput
from monocal.core.samples import Ids, Samples
from monocal.core.spaces import Floats, sigmoid


def known_at_fit(
    logits: Floats,
    samples: Samples,
    features: Ids,
    offsets: NDArray[np.int64],
    penalties: Floats,
) -> State:
    """Returns how much the rows of a fit say about level, slope and every shift.

    Arguments:
        logits: Calibrated, one per row.
        samples: The rows.
        features: Field ids of the fields with shifts.
        offsets: Where each field starts among the values.
        penalties: One per field.
    """
    weights, shards = samples.weights_or_ones, samples.in_shards
    sums: list[list[Floats | float]] = []
    for _, rows in shards.parts():
        z = samples.logits[rows]
        p = sigmoid(logits[rows])
        bend = weights[rows] * p * (1.0 - p)
        values = values_information(bend, features[rows], offsets)
        sums.append([float(bend.sum()), float(bend @ z), float(bend @ z**2), float(weights[rows].sum()), values])
    flat, turned, square, weight, information = shards.add(sums)
    level = float(flat)
    # turned around the rows that carry the information, a slope says nothing about the level
    slope = max(float(square) - float(turned) ** 2 / max(level, 1e-12), 0.0)
    single = np.array([level, slope])
    return {"information": information, "single": single, "penalties": penalties, "weight": np.atleast_1d(weight)}


def kept_or_refused(state: State | None, method: str) -> State:
    """Returns what a fit kept; one that kept nothing is refused."""
    if state is None:
        raise InvalidInput.of(
            "model",
            f"a fit of {method!r} that kept no precisions (it was written by version 0.1)",
            "a model that knows how surely it knows its effects",
            "fit once anew with this version, and refresh that model from then on",
        )
    return state


def resumed(
    state: State | None,
    method: str,
    samples: Samples,
    shifts: Floats,
    offsets: NDArray[np.int64],
) -> tuple[Posterior, Floats, NDArray[np.int64]]:
    """Returns what was known, with room for values that are new today, and shifts and offsets with that room.

    Arguments:
        state: What the fit or the last refresh kept.
        method: Its name.
        samples: Today's rows, with the fields that have shifts.
        shifts: One per value.
        offsets: Where each field starts.
    """
    state = kept_or_refused(state, method)
    if "evidence" in state:
        known = Posterior(**state)
    else:
        n_steps = max(float(state["weight"][0]) / float(samples.weights_or_ones.sum()), 1.0)
        known = Posterior.at_first(shifts, offsets, state["information"], state["single"], state["penalties"], n_steps)
    sizes = np.diff(offsets)
    if sizes.size and samples.features is not None:
        sizes = np.maximum(sizes, samples.features.max(axis=0) + 1)
    grown: NDArray[np.int64] = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    if grown[-1] == offsets[-1]:
        return known, shifts, offsets
    longer = np.zeros(int(grown[-1]))
    longer[moved_places(offsets, grown)] = shifts
    return known.with_values(offsets, grown), longer, grown


def centred(logits: Floats, calibrated: Floats, weights: Floats) -> tuple[Floats, float]:
    """Returns the columns of level and slope, and the logit around which the slope turns.

    Turned around the rows that carry the information, a slope says nothing about the level.
    """
    p = sigmoid(calibrated)
    centre = float(np.average(logits, weights=weights * p * (1.0 - p) + 1e-12))
    return np.column_stack([np.ones_like(logits), logits - centre]), centre
