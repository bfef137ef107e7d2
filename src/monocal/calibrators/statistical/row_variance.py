"""How surely the calibrated logit of a row is known: its parts' variances, added up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.statistical.newest_rows import newest_rows
from monocal.calibrators.statistical.numeric_basis import smooth_basis
from monocal.calibrators.statistical.unexplained import MOST_ROWS, unexplained_spreads
from monocal.core.errors import InvalidInput
from monocal.core.row_intervals import KnownLogits
from monocal.core.samples import Ids, Samples
from monocal.core.spaces import Floats
from monocal.ops.numpy_ops import add_shifts

State = dict[str, NDArray[Any]]

LEAST_RESPONSE = 0.4
"""Beyond a spread of 1.5 the approximation behind the response to a deviation is not to be trusted."""


def spread_at_fit(
    logits: Floats, samples: Samples, posterior: State, offsets: NDArray[np.int64], shares: Floats | None
) -> State:
    """Returns what a fit keeps for intervals beside its precisions: what it misses, and where its slope turns.

    Measured on the newest rows, which members of a team show each other, so that all of them find the same.

    Arguments:
        logits: Calibrated, one per row.
        samples: The rows of the fit.
        posterior: What `known_at_fit` returned.
        offsets: Where each field starts.
        shares: Which share of each field's effect is carried; None means all.
    """
    return spreads_at_fit([logits], samples, posterior, offsets, shares)[0]


def spreads_at_fit(
    forecasts: Sequence[Floats], samples: Samples, posterior: State, offsets: NDArray[np.int64], shares: Floats | None
) -> list[State]:
    """Returns the same for several forecasts of the same rows, in the time of little more than one.

    Arguments:
        forecasts: Calibrated logits, one per row each.
        samples: As for `spread_at_fit`, like the rest.
        posterior: What `known_at_fit` returned.
        offsets: Where each field starts.
        shares: Which share of each field's effect is carried; None means all.
    """
    # leverages of all rows would be the largest array of a fit
    newest, forecasts = newest_rows(samples, forecasts, MOST_ROWS)
    leverages = None
    if newest.features is not None and len(offsets) > 1:
        taken = _by_id(posterior, offsets, shares, newest.numeric_knots, lambda pull, share, own: share / (pull + own))
        leverages = taken[newest.features + offsets[:-1]]
    return unexplained_spreads(forecasts, newest, leverages)


def spread_or_refused(state: State | None, method: str) -> State:
    """Returns what a fit kept for intervals; one that kept nothing is refused."""
    if state is None:
        raise InvalidInput.of(
            "interval",
            f"a fit of {method!r} that measured no error for intervals (by an earlier version)",
            "a model with what row intervals need",
            "fit it once anew with this version",
        )
    return state


def value_variances(
    posterior: State, offsets: NDArray[np.int64], shares: Floats | None, n_knots: Sequence[int] | None = None
) -> Floats:
    r"""Returns the variance of what every field value adds to the logit; that of an unseen value stands at id 0.

    A shift of prior variance 1/λ that was fitted with information I, and of which a share α is carried, is

    .. math:: \frac{\alpha^2}{\lambda + I} + \frac{\alpha (1 - \alpha)}{\lambda}

    from its lasting part: the first term is the error of the fit, the second what the fitted effect does not say about
    the lasting one. An unseen value has α/λ. Precisions are those along each shift alone (the diagonal of the Hessian):
    values of one field never share a row, and fields that are nearly independent share few of each pair's. A number has
    the variances of its coefficients, each times the square of what it adds there (`smooth_basis`).

    Arguments:
        posterior: What the fit or the last refresh kept.
        offsets: Where each field starts.
        shares: Which share of each field's effect is carried; None means all.
        n_knots: Knots per field, 0 for categories; None means categories alone.
    """
    penalties = posterior["penalties"]
    if "evidence" in posterior:
        variances: Floats = 1.0 / posterior["precision"]
    else:
        variances = _by_id(
            posterior,
            offsets,
            shares,
            n_knots,
            lambda pull, share, own: share**2 / (pull + own) + share * (1.0 - share) / pull,
        )
    variances[offsets[:-1]] = (np.ones(len(penalties)) if shares is None else shares) / penalties
    return variances


def _by_id(
    posterior: State,
    offsets: NDArray[np.int64],
    shares: Floats | None,
    n_knots: Sequence[int] | None,
    formula: Callable[[float, float, Floats], Floats],
) -> Floats:
    """Returns a formula of penalty, share and information for every id of every field."""
    parts = []
    for field, (start, end) in enumerate(pairwise(offsets)):
        of_field = float(posterior["penalties"][field]), 1.0 if shares is None else float(shares[field])
        information, knots = posterior["information"][start:end], 0 if n_knots is None else n_knots[field]
        squares = smooth_basis(knots) ** 2 if knots else None
        parts.append(
            formula(*of_field, information)
            if squares is None
            else squares @ formula(*of_field, squares.T @ information)
        )
    return np.concatenate([*parts, np.zeros(0)])


def row_variances(
    samples: Samples,
    features: Ids,
    variances: Floats,
    offsets: NDArray[np.int64],
    posterior: State,
    spread: State,
    moved: tuple[Floats, float] | None = None,
) -> KnownLogits:
    r"""Returns how surely every row's logit is known.

    A probability that is a mean over deviations of variance τ² answers to one of them by
    :math:`p (1 - p) / \sqrt{1 + \pi \tau^2 / 8}`, so the spread S that residuals over p (1 − p) show is
    :math:`\tau^2 / (1 + \pi \tau^2 / 8)`, and what is missed is :math:`\tau^2 = S / (1 - \pi S / 8)`.

    Arguments:
        samples: The rows.
        features: Ids of the fields with shifts.
        variances: What `value_variances` returned.
        offsets: Where each field starts.
        posterior: What the fit or the last refresh kept.
        spread: What `spread_at_fit` returned.
        moved: For a trained map how far it moves every row, and its share; None if the score is only rescaled.
    """
    single = posterior["single_precision" if "evidence" in posterior else "single"]
    level = 1.0 / max(float(single[0]), 1e-6)
    seen = sum(float(spread[name][0]) for name in ("of_time", "of_score", "of_fields"))
    away = (samples.logits - float(spread["centre"][0])) ** 2
    base = np.full(samples.n_rows, level)
    if moved is not None:
        step, share = moved
        base += (1.0 - share**2 + 1.0 / max(float(single[1]), 1.0)) * step**2
    elif single[1] > 0.0:
        base += away / float(single[1])
    missed = seen / max(1.0 - np.pi * seen / 8.0, LEAST_RESPONSE)
    bent = float(spread["of_slopes"][0]) * away
    return KnownLogits(add_shifts(base, features, variances, offsets), missed, bent)
