"""How surely the calibrated logit of a row is known: the posterior variances of its parts, added up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.core.dataset import Dataset, Part
from monocal.core.errors import InvalidInput
from monocal.core.fields import FieldSchema, Ids
from monocal.core.scores import Floats, LogitVariance, sigmoid
from monocal.wide.unexplained import MOST_ROWS, variance_components

State = dict[str, NDArray[Any]]
Formula = Callable[[float, float, Floats], Floats]
"""Of a field's penalty and share, and of the information of its coefficients."""

LEAST_RESPONSE = 0.4
"""Beyond a spread of 1.5 the approximation behind the response to a deviation is not to be trusted."""

_BLOCK_ROWS = 1 << 20


def posterior_at_fit(logits: Floats, data: Dataset, penalties: Floats) -> State:
    """Returns how much the rows of a fit say about level, slope and every shift.

    Arguments:
        logits: Calibrated, one per row.
        data: The rows, with the schema of the fields that have shifts.
        penalties: One per field.
    """

    def of_part(part: Part) -> list[Floats | float]:
        z, weights = part.of(data.z), None if data.w is None else part.of(data.w)
        curvature = _curvature(part.of(logits), weights)
        ids = None if data.ids is None else data.ids[part.rows]
        mass = float(len(z)) if weights is None else float(weights.sum())
        values = values_information(curvature, ids, data.fields)
        return [float(curvature.sum()), float(curvature @ z), float(curvature @ z**2), mass, values]

    flat, turned, square, weight, information = data.sum_parts(of_part)
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


def values_information(curvature: Floats, ids: Ids | None, schema: FieldSchema) -> Floats:
    r"""Returns the curvature :math:`\sum w\,p\,(1 - p)` of the loss along the shift of each field value.

    Arguments:
        curvature: w p (1 − p), one per row.
        ids: Field ids `(n, F)`.
        schema: Their fields.
    """
    values = np.zeros(schema.n_ids)
    for first in range(0, len(curvature) if ids is not None else 0, _BLOCK_ROWS):
        assert ids is not None
        rows = slice(first, first + _BLOCK_ROWS)
        block = np.asarray(ids[rows])
        for field, column in enumerate(schema.places):
            here = schema.ids_of(field)
            # sums so far come first, so that the bits are those of one pass
            own = np.concatenate([np.arange(here.stop - here.start), block[:, column]])
            values[here] = np.bincount(own, np.concatenate([values[here], curvature[rows]]))
    values[schema.offsets[:-1]] = 0.0
    return values


def unexplained_at_fit(
    forecasts: Sequence[Floats], data: Dataset, posterior: State, shares: Floats | None
) -> list[State]:
    """Returns what a fit keeps for intervals beside its precisions: what it misses, and where its slope turns.

    Measured on the newest rows, which members show each other, so that all of them find the same. Several forecasts of
    the same rows take the time of little more than one.

    Arguments:
        forecasts: Calibrated logits, one per row each.
        data: The rows of the fit, with the schema of the fields that have shifts.
        posterior: What `posterior_at_fit` returned.
        shares: Which share of each field's effect is carried; None means all.
    """
    # leverages of all rows would be the largest array of a fit
    newest, few = data.gather_newest(MOST_ROWS, *forecasts)
    leverages = None
    if newest.ids is not None and len(posterior["penalties"]):
        taken = _by_id(posterior, data.fields, shares, lambda pull, share, own: share / (pull + own))
        leverages = taken[newest.ids[:, data.fields.places] + data.fields.offsets[:-1]]
    return variance_components(few, newest, leverages)


def require_variance_components(state: State | None, method: str) -> State:
    """Returns what a fit kept for intervals; one that kept nothing is refused."""
    if state is None:
        raise InvalidInput.of(
            "interval",
            f"a fit of {method!r} that measured no error for intervals (by an earlier version)",
            "a model with what row intervals need",
            "fit it once anew with this version",
        )
    return state


def value_variances(posterior: State, schema: FieldSchema, shares: Floats | None) -> Floats:
    r"""Returns the variance of what every field value adds to the logit; that of an unseen value stands at id 0.

    A shift of prior variance 1/λ that was fitted with information I, and of which a share α is carried, is

    .. math:: \frac{\alpha^2}{\lambda + I} + \frac{\alpha (1 - \alpha)}{\lambda}

    from its lasting part: the first term is the error of the fit, the second what the fitted effect does not say about
    the lasting one. An unseen value has α/λ. Precisions are those along each shift alone (the diagonal of the Hessian):
    values of one field never share a row, and fields that are nearly independent share few of each pair's. A number has
    the variances of its coefficients, each times the square of what it adds there (`smooth_basis`).

    Arguments:
        posterior: What the fit or the last refresh kept.
        schema: The fields that have shifts.
        shares: Which share of each field's effect is carried; None means all.
    """
    penalties = posterior["penalties"]
    if "evidence" in posterior:
        variances: Floats = 1.0 / posterior["precision"]
    else:
        variances = _by_id(
            posterior, schema, shares, lambda pull, share, own: share**2 / (pull + own) + share * (1.0 - share) / pull
        )
    variances[schema.offsets[:-1]] = (np.ones(len(penalties)) if shares is None else shares) / penalties
    return variances


def _by_id(posterior: State, schema: FieldSchema, shares: Floats | None, formula: Formula) -> Floats:
    """Returns a formula of penalty, share and information for every id of every field."""
    parts = []
    for field in range(len(schema)):
        pull, share = float(posterior["penalties"][field]), 1.0 if shares is None else float(shares[field])
        information = posterior["information"][schema.ids_of(field)]
        parts.append(schema.variances(field, information, partial(formula, pull, share)))
    return np.concatenate([*parts, np.zeros(0)])


def logit_variances(
    data: Dataset,
    schema: FieldSchema,
    posterior: State,
    unexplained: State,
    shares: Floats | None,
    network: tuple[Floats, float] | None = None,
) -> LogitVariance:
    r"""Returns how surely every row's logit is known.

    A probability that is a mean over deviations of variance τ² answers to one of them by
    :math:`p (1 - p) / \sqrt{1 + \pi \tau^2 / 8}`, so the spread S that residuals over p (1 − p) show is
    :math:`\tau^2 / (1 + \pi \tau^2 / 8)`, and what is missed is :math:`\tau^2 = S / (1 - \pi S / 8)`.

    Arguments:
        data: The rows.
        schema: The fields that have shifts.
        posterior: What the fit or the last refresh kept.
        unexplained: What `unexplained_at_fit` returned.
        shares: Which share of each field's effect is carried; None means all.
        network: For a trained map how far it moves every row, and its weight; None if the score is only rescaled.
    """
    single = posterior["single_precision" if "evidence" in posterior else "single"]
    level = 1.0 / max(float(single[0]), 1e-6)
    seen = sum(float(unexplained[name][0]) for name in ("of_time", "of_score", "of_fields"))
    away = (data.z - float(unexplained["centre"][0])) ** 2
    base = np.full(data.n_rows, level)
    if network is not None:
        step, weight = network
        base += (1.0 - weight**2 + 1.0 / max(float(single[1]), 1.0)) * step**2
    elif single[1] > 0.0:
        base += away / float(single[1])
    missed = seen / max(1.0 - np.pi * seen / 8.0, LEAST_RESPONSE)
    slope = float(unexplained["of_slopes"][0]) * away
    parameters = schema.add_shifts(base, data.ids, value_variances(posterior, schema, shares))
    return LogitVariance(parameters, missed, slope)
