"""How surely the calibrated logit of a row is known: its parts' variances, added up."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.statistical.unexplained import unexplained_spread
from monocal.calibrators.statistical.wide_solver import add_shifts
from monocal.core.errors import InvalidInput
from monocal.core.row_intervals import KnownLogits
from monocal.core.samples import Ids, Samples
from monocal.core.spaces import Floats, sigmoid

State = dict[str, NDArray[Any]]


def spread_at_fit(
    logits: Floats, samples: Samples, posterior: State, offsets: NDArray[np.int64], shares: Floats | None
) -> State:
    """Returns what a fit keeps for intervals beside its precisions: what it misses, and where its slope turns.

    Arguments:
        logits: Calibrated, one per row.
        samples: The rows of the fit.
        posterior: What `known_at_fit` returned.
        offsets: Where each field starts.
        shares: Which share of each field's effect is carried; None means all.
    """
    leverages = None
    if samples.features is not None and len(offsets) > 1:
        pull = np.repeat(posterior["penalties"], np.diff(offsets))
        taken = (1.0 if shares is None else np.repeat(shares, np.diff(offsets))) / (pull + posterior["information"])
        leverages = taken[samples.features + offsets[:-1]]
    p = sigmoid(logits)
    centre = np.average(samples.logits, weights=samples.weights_or_ones * p * (1.0 - p) + 1e-12)
    return {**unexplained_spread(logits, samples, leverages), "centre": np.array([centre])}


def spread_or_refused(state: State | None, method: str) -> State:
    """Returns what a fit kept for intervals; one that kept nothing is refused."""
    if state is None:
        raise InvalidInput.of(
            "interval",
            f"a fit of {method!r} that did not measure how far it misses (by an earlier version, in shards, or with "
            "numeric fields)",
            "a model that knows how surely it knows its answers",
            "fit it once anew with this version, on one machine, with categories",
        )
    return state


def value_variances(posterior: State, offsets: NDArray[np.int64], shares: Floats | None) -> Floats:
    r"""Returns the variance of what every field value adds to the logit; that of an unseen value stands at id 0.

    A shift of prior variance 1/λ that was fitted with information I, and of which a share α is carried, is

    .. math:: \frac{\alpha^2}{\lambda + I} + \frac{\alpha (1 - \alpha)}{\lambda}

    from its lasting part: the first term is the error of the fit, the second what the fitted effect does not say about
    the lasting one. An unseen value has α/λ. Precisions are those along each shift alone (the diagonal of the Hessian):
    values of one field never share a row, and fields that are nearly independent share few of each pair's.

    Arguments:
        posterior: What the fit or the last refresh kept.
        offsets: Where each field starts.
        shares: Which share of each field's effect is carried; None means all.
    """
    penalties = posterior["penalties"]
    carried = np.ones(len(penalties)) if shares is None else shares
    sizes = np.diff(offsets)
    if "evidence" in posterior:
        variances: Floats = 1.0 / posterior["precision"]
    else:
        pull, share = np.repeat(penalties, sizes), np.repeat(carried, sizes)
        variances = share**2 / (pull + posterior["information"]) + share * (1.0 - share) / pull
    variances[offsets[:-1]] = carried / penalties
    return variances


def row_variances(
    samples: Samples,
    features: Ids,
    variances: Floats,
    offsets: NDArray[np.int64],
    posterior: State,
    spread: State,
    moved: tuple[Floats, float] | None = None,
) -> KnownLogits:
    """Returns how surely every row's logit is known.

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
    missed = sum(float(spread[name][0]) for name in ("of_time", "of_score", "of_fields"))
    base = np.full(samples.n_rows, level + missed)
    if moved is not None:
        step, share = moved
        base += (1.0 - share**2 + 1.0 / max(float(single[1]), 1.0)) * step**2
    elif single[1] > 0.0:
        base += (samples.logits - float(spread["centre"][0])) ** 2 / float(single[1])
    return KnownLogits(add_shifts(base, features, variances, offsets), missed)
