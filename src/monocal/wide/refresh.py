"""One refresh: what the rows of a day say about every effect, and what is known of it afterwards."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.logistic import solve_logistic
from monocal.core.dataset import Block, Dataset
from monocal.core.errors import InvalidInput
from monocal.core.fields import FieldSchema
from monocal.core.scores import Floats, sigmoid
from monocal.wide.filter import (
    EVIDENCE_KEPT,
    SHOCKS,
    WALKS,
    Posterior,
    Rates,
    State,
    candidate_probabilities,
    moved_places,
    posterior_mean_rates,
    predict_step,
    update_step,
)
from monocal.wide.intervals import value_variances, values_information
from monocal.wide.solver import Search, WideParameters, solve_wide

LEAST_INFORMATION = 5.0
"""A value teaches how fast its field moves if its rows of the day carry at least this much: about five positives."""

_SEARCH = Search(tolerance=1e-7, max_iterations=60, slope_is_free=False)


@final
@dataclass(frozen=True, eq=False)
class Known:
    """Effects and how surely they are known, before a refresh.

    Attributes:
        shifts: One per value, with room for values that are new today.
        schema: The fields, with that room.
        posterior: How surely they are known.
    """

    shifts: Floats
    schema: FieldSchema
    posterior: Posterior


@final
@dataclass(frozen=True, eq=False)
class Refreshed:
    """What a refresh made of the effects.

    Attributes:
        single: By how much each single effect moves.
        shifts: One per value.
        posterior: How surely all that is known now.
        rates: How fast the parts move, as far as that is known now.
        information: What today's rows say about each value.
    """

    single: Floats
    shifts: Floats
    posterior: Posterior
    rates: Rates
    information: Floats

    def facts(self, known: Known, second: str) -> dict[str, Any]:
        """Returns what moved, in plain numbers.

        Arguments:
            known: The effects as they were.
            second: What the second single effect is, slope or network.
        """
        n_single = self.single.size
        change = self.shifts - known.shifts
        walk, shock = np.sqrt(self.rates.walk), np.sqrt(self.rates.shock)
        fields = []
        for field in range(len(known.schema)):
            here = known.schema.ids_of(field)
            moved, rows = change[here], self.information[here]
            largest = int(np.argmax(np.abs(moved)))
            fields.append(
                {
                    "moved": float(np.sqrt(rows @ moved**2 / max(float(rows.sum()), 1e-12))),
                    "largest": largest,
                    "largest_move": float(moved[largest]),
                    "walk": float(walk[n_single + field]),
                    "shock": float(shock[n_single + field]),
                }
            )
        singles = {
            name: {"moved": float(self.single[k]), "walk": float(walk[k]), "shock": float(shock[k])}
            for k, name in enumerate(("level", second)[:n_single])
        }
        return {**singles, "fields": fields}


def require_posterior(state: State | None, method: str) -> State:
    """Returns what a fit kept; one that kept nothing is refused."""
    if state is None:
        raise InvalidInput.of(
            "model",
            f"a fit of {method!r} that kept no precisions",
            "a model that kept the precision of its effects",
            "fit once anew with this version, and refresh that model from then on",
        )
    return state


def restore(state: State, data: Dataset, shifts: Floats, schema: FieldSchema) -> Known:
    """Returns what was known, with room for values that are new today.

    Arguments:
        state: What the fit or the last refresh kept.
        data: Today's rows.
        shifts: One per value.
        schema: The fields that have shifts.
    """
    if "evidence" in state:
        posterior = Posterior(**state)
    else:
        n_steps = max(float(state["weight"][0]) / float(data.weights.sum()), 1.0)
        posterior = Posterior.at_fit(state, shifts, schema, n_steps)
        for field in np.flatnonzero(schema.is_numeric).tolist():
            here = schema.ids_of(field)
            posterior.precision[here] = 1.0 / value_variances(state, schema, None)[here]
    sizes = schema.sizes
    if sizes.size and data.ids is not None:
        sizes = np.maximum(sizes, data.ids[:, schema.places].max(axis=0) + 1)
    grown = FieldSchema(sizes, schema.n_knots, schema.columns)
    if grown.n_ids == schema.n_ids:
        return Known(shifts, schema, posterior)
    longer = np.zeros(grown.n_ids)
    longer[moved_places(schema.offsets, grown.offsets)] = shifts
    return Known(longer, grown, posterior.with_values(schema, grown))


def centred(logits: Floats, calibrated: Floats, weights: Floats) -> tuple[Floats, float]:
    """Returns the columns of level and slope, and the logit around which the slope turns.

    Turned around the rows that carry the information, a slope says nothing about the level.
    """
    p = sigmoid(calibrated)
    centre = float(np.average(logits, weights=weights * p * (1.0 - p) + 1e-12))
    return np.column_stack([np.ones_like(logits), logits - centre]), centre


def refresh_effects(logits: Floats, data: Dataset, columns: Floats, known: Known) -> Refreshed:
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
        data: Today's rows.
        columns: What multiplies the single effects, `(n, k)`; the first column is 1, the level.
        known: Shifts and what was known.
    """
    schema, posterior, n_single = known.schema, known.posterior, columns.shape[1]
    logits, data, schema = _with_curves_fixed(logits, data, known)
    labels, weights = data.labels, data.weights
    mean, variance, shock = _expected(posterior.evidence, known, n_single)
    mean[schema.offsets[:-1]] = 0.0
    total = schema.add_shifts(logits, data.ids, mean)
    day = replace(data, z=total, w=weights, schema=schema)
    found = solve_wide(day, 1.0 / (variance + shock), _SEARCH, WideParameters.at(np.zeros_like(mean)))
    total = schema.add_shifts(total + found.intercept, data.ids, found.shifts)
    single = solve_logistic(day, _columns(columns), offset=total)
    total = total + columns @ single
    single[0] += found.intercept
    p = sigmoid(total)
    curvature = weights * p * (1.0 - p)
    single_information, information = curvature @ columns**2, values_information(curvature, data.ids, schema)
    score = np.zeros_like(mean) if data.ids is None else schema.sums(data.ids, weights * (labels - p))
    observed = mean + found.shifts + np.divide(score, information, out=np.zeros_like(score), where=information > 0.0)
    watched = posterior.watched
    means, precisions, evidence = _watch(
        posterior,
        _part(posterior, schema),
        np.concatenate([single, observed[watched]]),
        np.concatenate([single_information, information[watched]]),
    )
    # what the day taught about the rates counts for the day itself, too
    mean, variance, shock = _expected(evidence, known, n_single)
    updated, precision, _ = update_step(mean, variance, observed, information, shock)
    updated[schema.offsets[:-1]] = 0.0
    probabilities = candidate_probabilities(evidence)[:, _part(posterior, schema)]
    mixed, certain = _mixed(means, precisions, probabilities)
    updated[watched], precision[watched] = mixed[n_single:], certain[n_single:]
    for field in np.flatnonzero(known.schema.is_numeric).tolist():
        here = schema.ids_of(field)
        updated[here], precision[here] = known.shifts[here], posterior.precision[here]
    moved = mixed[:n_single]
    means[:, :n_single] -= moved
    after = Posterior(precision, certain[:n_single], posterior.penalties, watched, means, precisions, evidence)
    return Refreshed(moved, updated, after, posterior_mean_rates(evidence), information)


def _with_curves_fixed(logits: Floats, data: Dataset, known: Known) -> tuple[Floats, Dataset, FieldSchema]:
    """Returns logits with the curves of numeric fields, rows whose numbers are unseen, and fields without bases."""
    schema = known.schema
    plain = FieldSchema(schema.sizes, (0,) * len(schema), schema.columns)
    numeric = np.flatnonzero(schema.is_numeric)
    if not numeric.size or data.ids is None:
        return logits, data, plain
    ids = data.ids.copy()
    for field in numeric:
        column = schema.places[field]
        logits = logits + known.shifts[schema.offsets[field] + ids[:, column]]
        ids[:, column] = 0
    return logits, replace(data, ids=ids), plain


def _expected(evidence: Floats, known: Known, n_single: int) -> tuple[Floats, Floats, Floats]:
    """Returns mean and variance of today's lasting shifts before the day, and the variance of its shocks."""
    rates, schema, posterior = posterior_mean_rates(evidence), known.schema, known.posterior
    walk, shock = (schema.by_id(column[n_single:]) for column in (rates.walk, rates.shock))
    mean, variance = predict_step(known.shifts, posterior.precision, walk, schema.by_id(posterior.penalties))
    return mean, variance, shock


def _mixed(means: Floats, precisions: Floats, probabilities: Floats) -> tuple[Floats, Floats]:
    """Returns mean and precision over the candidates, each of which has its own view of the past."""
    mean = np.sum(probabilities * means, axis=0)
    variance = np.sum(probabilities * (1.0 / precisions + (means - mean) ** 2), axis=0)
    return mean, 1.0 / variance


def _part(posterior: Posterior, schema: FieldSchema) -> NDArray[np.int64]:
    """Returns the part that each single effect and each watched value belongs to."""
    n_single = posterior.single_precision.size
    fields = np.searchsorted(schema.offsets, posterior.watched, side="right") - 1
    return np.concatenate([np.arange(n_single), n_single + fields])


def _watch(
    posterior: Posterior, part: NDArray[np.int64], observed: Floats, information: Floats
) -> tuple[Floats, Floats, Floats]:
    """Lets every candidate see the day, and adds up what probability each gave to it, part by part."""
    n_single = posterior.single_precision.size
    pull = np.concatenate([np.zeros(n_single), posterior.penalties[part[n_single:] - n_single]])
    means, variances = predict_step(posterior.means, posterior.precisions, WALKS[:, None] ** 2, pull)
    means, precisions, gained = update_step(means, variances, observed, information, SHOCKS[:, None] ** 2)
    gained = np.where(information >= LEAST_INFORMATION, gained, 0.0)
    n_parts = posterior.evidence.shape[1]
    added = np.stack([np.bincount(part, gain, n_parts) for gain in gained])
    return means, precisions, EVIDENCE_KEPT * posterior.evidence + added


def _columns(columns: Floats) -> Any:
    def design(block: Block) -> Floats:
        return block.of(columns)

    return design
