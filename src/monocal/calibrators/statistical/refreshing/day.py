"""One refresh: what the rows of a day say about every effect, and what is believed of it afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.logistic import solve_logistic
from monocal.calibrators.statistical.refreshing.filtering import moved_on, seen
from monocal.calibrators.statistical.refreshing.posterior import Posterior, values_information
from monocal.calibrators.statistical.refreshing.rates import (
    EVIDENCE_KEPT,
    SHOCKS,
    WALKS,
    Rates,
    believed_rates,
    believed_shares,
)
from monocal.calibrators.statistical.wide_solver import WideParameters, solve_wide
from monocal.core.samples import Samples
from monocal.core.spaces import Floats, sigmoid
from monocal.ops.numpy_ops import add_shifts

LEAST_INFORMATION = 5.0
"""A value teaches how fast its field moves if its rows of the day carry at least this much: about five positives."""

_TOLERANCE = 1e-7
_MAX_ITERATIONS = 60


@final
@dataclass(frozen=True, eq=False)
class Refreshed:
    """What a refresh made of the effects.

    Attributes:
        single: By how much each single effect moves.
        shifts: One per value.
        posterior: How surely all that is known now.
        rates: How fast the parts move, as believed now.
        information: What today's rows say about each value.
    """

    single: Floats
    shifts: Floats
    posterior: Posterior
    rates: Rates
    information: Floats

    def facts(self, shifts: Floats, offsets: NDArray[np.int64], second: str) -> dict[str, Any]:
        """Returns what moved, in plain numbers.

        Arguments:
            shifts: As they were, with room for new values.
            offsets: Where each field starts.
            second: What the second single effect is, slope or network.
        """
        n_single = self.single.size
        change = self.shifts - shifts
        fields = []
        for field, (start, end) in enumerate(pairwise(offsets)):
            here, rows = change[start:end], self.information[start:end]
            fields.append(
                {
                    "moved": float(np.sqrt(rows @ here**2 / max(float(rows.sum()), 1e-12))),
                    "largest": int(np.argmax(np.abs(here))),
                    "largest_move": float(here[np.argmax(np.abs(here))]),
                    "walk": float(np.sqrt(self.rates.walk[n_single + field])),
                    "shock": float(np.sqrt(self.rates.shock[n_single + field])),
                }
            )
        names = ("level", second)[:n_single]
        singles = {
            name: {
                "moved": float(self.single[k]),
                "walk": float(np.sqrt(self.rates.walk[k])),
                "shock": float(np.sqrt(self.rates.shock[k])),
            }
            for k, name in enumerate(names)
        }
        return {**singles, "fields": fields}


def refresh_effects(
    logits: Floats, samples: Samples, columns: Floats, shifts: Floats, offsets: NDArray[np.int64], posterior: Posterior
) -> Refreshed:
    r"""Goes on from what was known to what is known after today's rows.

    The model is :math:`o + \sum_k x_k \theta_k + \sum_f \delta_{f, x_f}` with a fixed part o. Every effect walks a
    little from one refresh to the next, and on the day itself stands beside its lasting value by a shock. Today's
    effects are the maximum of likelihood times what was expected, found for all values together; each then counts as
    one observation of its lasting value, however many rows it has.

    Variances of walk and shock are learned per part: candidates run side by side on the best-known values, and each is
    weighted by the probability that it gave to a day before it saw it.

    The curve of a numeric field stays as the fit left it, and everything else moves beside it: neighbouring numbers
    share coefficients, so that a filter value by value would tear it apart.

    References:
        West, Harrison. Bayesian forecasting and dynamic models. 1997.

    Arguments:
        logits: The fixed part with the single effects as they are, without shifts, one per row.
        samples: Today's rows.
        columns: What multiplies the single effects, `(n, k)`; the first column is 1, the level.
        shifts: One per value.
        offsets: Where each field starts among the values.
        posterior: What was known.
    """
    n_single, sizes = columns.shape[1], np.diff(offsets)
    features = samples.features if samples.features is not None else np.zeros((samples.n_rows, 0), dtype=np.int32)
    numbers = [f for f in range(features.shape[1]) if samples.numeric_knots is not None and samples.numeric_knots[f]]
    if numbers:
        features = features.copy()
        for field in numbers:
            logits = logits + shifts[offsets[field] + features[:, field]]
            features[:, field] = 0
    labels, weights = samples.known_labels, samples.weights_or_ones
    rates = believed_rates(posterior.evidence)
    walk, shock = (np.repeat(column[n_single:], sizes) for column in (rates.walk, rates.shock))
    mean, variance = moved_on(shifts, posterior.precision, walk, np.repeat(posterior.penalties, sizes))
    mean[offsets[:-1]] = 0.0
    total = add_shifts(logits, features, mean, offsets)
    nothing = np.zeros_like(mean)
    found = solve_wide(
        total,
        labels,
        weights,
        features,
        sizes,
        l2=1.0 / (variance + shock),
        tolerance=_TOLERANCE,
        max_iterations=_MAX_ITERATIONS,
        slope_is_free=False,
        start=WideParameters(1.0, 0.0, nothing, offsets, nothing),
    )
    total = add_shifts(total + found.intercept, features, found.shifts, offsets)
    single = solve_logistic(columns, labels, weights, offset=total)
    total = total + columns @ single
    single[0] += found.intercept
    p = sigmoid(total)
    curvature = weights * p * (1.0 - p)
    single_information, information = curvature @ columns**2, values_information(curvature, features, offsets)
    residual = weights * (labels - p)
    score = np.zeros_like(mean)
    for field in range(features.shape[1]):
        here = slice(offsets[field], offsets[field + 1])
        score[here] += np.bincount(features[:, field], residual, sizes[field])
    observed = mean + found.shifts + np.divide(score, information, out=np.zeros_like(score), where=information > 0.0)
    watched = posterior.watched
    means, precisions, evidence = _watch(
        posterior,
        offsets,
        np.concatenate([single, observed[watched]]),
        np.concatenate([single_information, information[watched]]),
    )
    # what the day taught about the rates counts for the day itself, too
    rates = believed_rates(evidence)
    walk, shock = (np.repeat(column[n_single:], sizes) for column in (rates.walk, rates.shock))
    mean, variance = moved_on(shifts, posterior.precision, walk, np.repeat(posterior.penalties, sizes))
    updated, precision, _ = seen(mean, variance, observed, information, shock)
    updated[offsets[:-1]] = 0.0
    believed, certain = _mixed(means, precisions, believed_shares(evidence)[:, _part(posterior, offsets)])
    updated[watched], precision[watched] = believed[n_single:], certain[n_single:]
    for field in numbers:
        here = slice(offsets[field], offsets[field + 1])
        updated[here], precision[here] = shifts[here], posterior.precision[here]
    moved = believed[:n_single]
    means[:, :n_single] -= moved
    known = Posterior(precision, certain[:n_single], posterior.penalties, watched, means, precisions, evidence)
    return Refreshed(moved, updated, known, rates, information)


def _mixed(means: Floats, precisions: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Returns mean and precision over the candidates, each of which has its own view of the past."""
    mean = np.sum(shares * means, axis=0)
    variance = np.sum(shares * (1.0 / precisions + (means - mean) ** 2), axis=0)
    return mean, 1.0 / variance


def _part(posterior: Posterior, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the part that each single effect and each watched value belongs to."""
    n_single = posterior.single_precision.size
    fields = np.searchsorted(offsets, posterior.watched, side="right") - 1
    return np.concatenate([np.arange(n_single), n_single + fields])


def _watch(
    posterior: Posterior, offsets: NDArray[np.int64], observed: Floats, information: Floats
) -> tuple[Floats, Floats, Floats]:
    """Lets every candidate see the day, and adds up what probability each gave to it, part by part."""
    n_single = posterior.single_precision.size
    part = _part(posterior, offsets)
    pull = np.concatenate([np.zeros(n_single), posterior.penalties[part[n_single:] - n_single]])
    means, variances = moved_on(posterior.means, posterior.precisions, WALKS[:, None] ** 2, pull)
    means, precisions, gained = seen(means, variances, observed, information, SHOCKS[:, None] ** 2)
    gained = np.where(information >= LEAST_INFORMATION, gained, 0.0)
    n_parts = posterior.evidence.shape[1]
    added = np.stack([np.bincount(part, gain, n_parts) for gain in gained])
    return means, precisions, EVIDENCE_KEPT * posterior.evidence + added
