"""What a fit keeps for its first refresh, and a refresh for the next one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.statistical.refreshing.posterior import Posterior, State, moved_places, values_information
from monocal.calibrators.statistical.row_variance import value_variances
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
    shards = samples.in_shards
    sums: list[list[Floats | float]] = []
    for _, rows in shards.parts():
        z = samples.logits[rows]
        weights = None if samples.weights is None else samples.weights[rows]
        curvature = _curvature(logits[rows], weights)
        values = values_information(curvature, features[rows], offsets)
        mass = float(len(z)) if weights is None else float(weights.sum())
        sums.append([float(curvature.sum()), float(curvature @ z), float(curvature @ z**2), mass, values])
    flat, turned, square, weight, information = shards.add(sums)
    level = float(flat)
    # turned around the rows that carry the information, a slope says nothing about the level
    slope = max(float(square) - float(turned) ** 2 / max(level, 1e-12), 0.0)
    single = np.array([level, slope])
    return {"information": information, "single": single, "penalties": penalties, "weight": np.atleast_1d(weight)}


def _curvature(logits: Floats, weights: Floats | None) -> Floats:
    """Returns w p (1 − p) without a third column: many rows are in memory here."""
    p = sigmoid(logits)
    other = 1.0 - p
    if weights is not None:
        p *= weights
    p *= other
    return p


def kept_or_refused(state: State | None, method: str) -> State:
    """Returns what a fit kept; one that kept nothing is refused."""
    if state is None:
        raise InvalidInput.of(
            "model",
            f"a fit of {method!r} that kept no precisions (it was written by version 0.1)",
            "a model that kept the precision of its effects",
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
        for field in np.flatnonzero((samples.numeric_knots or ())[: len(offsets) - 1]).tolist():
            here = slice(offsets[field], offsets[field + 1])
            known.precision[here] = 1.0 / value_variances(state, offsets, None, samples.numeric_knots)[here]
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
