"""Effects that move: what is known of them, how fast they walk, and what the rows of a day change in both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.logistic import solve_logistic
from monocal.core.dataset import Dataset
from monocal.core.fields import FieldSchema
from monocal.core.scores import Floats, sigmoid
from monocal.wide.intervals import value_variances, values_information
from monocal.wide.solver import Search, WideParameters, solve_wide

_WALKS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)
_SHOCKS = (0.0, 0.1, 0.3, 0.8)

WALKS, SHOCKS = (column.ravel() for column in np.meshgrid(_WALKS, _SHOCKS, indexing="ij"))
"""Standard deviations in logits, one pair per candidate: of the lasting step of an effect from one refresh to the next,
and of what is over by the next."""

EVIDENCE_KEPT = 0.95
"""Share of earlier evidence that still counts at the next refresh, so that rates themselves may change."""

_PRIOR = -WALKS / 0.04 - SHOCKS / 0.3
"""Before anything was seen. Real levels swing from week to week more than they drift; the scales were chosen on two
draws of a simulated drifting world."""

MOST_WATCHED = 256
"""Values of each field, the best known ones, on which rates are learned; all values then move at these rates."""

State = dict[str, NDArray[Any]]


# One step


def predict_step(mean: Floats, precision: Floats, walk: Floats, pull: Floats) -> tuple[Floats, Floats]:
    r"""Returns mean and variance of effects at the next step, before its rows are seen.

    .. math:: \delta' = \varphi\,\delta + \mathcal N(0, q), \qquad \varphi^2 = 1 - q \lambda

    An effect whose own distribution is :math:`\mathcal N(0, 1/\lambda)` keeps that distribution while it walks; so
    without rows its mean fades to 0 and its variance returns to 1/λ. A λ that would not leave room for the walk gives
    way, to :math:`1/(9 q)`: what was alike during the fit may come apart. With λ = 0 an effect walks freely.

    Arguments:
        mean: Of each effect.
        precision: 1 over its variance.
        walk: q, variance of the step.
        pull: λ.

    Example:
        >>> mean, variance = predict_step(np.array([0.5]), np.array([1e6]), np.array([0.01]), np.array([10.0]))
        >>> mean.round(3).tolist(), variance.round(3).tolist()
        ([0.474], [0.01])
    """
    kept = 1.0 - walk * _with_room(pull, walk)
    return np.sqrt(kept) * mean, kept / precision + walk


def _with_room(pull: Floats, walk: Floats) -> Floats:
    """Returns λ, at most so large that a step of the walk is a third of the effects' own standard deviation."""
    result: Floats = np.minimum(pull, 1.0 / np.maximum(9.0 * walk, 1e-12))
    return result


def update_step(
    mean: Floats, variance: Floats, observed: Floats, information: Floats, shock: Floats
) -> tuple[Floats, Floats, Floats]:
    r"""Returns mean and precision of effects after rows were seen, and how well the rows were predicted.

    The rows say `observed` with variance :math:`1/h + s`: sampling noise, and a shock that is over by the next step and
    that all rows share, however many they are. Effects without rows stay as they are.

    Arguments:
        mean: Before the rows.
        variance: Before the rows.
        observed: What the rows alone say.
        information: h, 0 without rows.
        shock: s.

    Example:
        A thousand rows against a shock of 0.1: they count as ninety.

        >>> mean, precision, _ = update_step(np.zeros(1), np.ones(1), np.ones(1), np.array([1000.0]), np.array([0.01]))
        >>> mean.round(3).tolist(), precision.round(1).tolist()
        ([0.989], [91.9])
    """
    has_rows = information > 0.0
    noise = 1.0 / np.where(has_rows, information, 1.0) + shock
    total = variance + noise
    surprise = observed - mean
    gain = np.where(has_rows, variance / total, 0.0)
    precision = 1.0 / variance + np.where(has_rows, 1.0 / noise, 0.0)
    evidence = np.where(has_rows, -0.5 * np.log(total) - 0.5 * surprise**2 / total, 0.0)
    return mean + gain * surprise, precision, evidence


# How fast effects move


@final
@dataclass(frozen=True)
class Rates:
    """The expected movement of each part, as variances per refresh.

    Attributes:
        walk: Of the lasting step.
        shock: Of what is over by the next refresh.
    """

    walk: Floats
    shock: Floats


def posterior_mean_rates(evidence: Floats) -> Rates:
    """Returns variances averaged over the candidates, weighted by how well each predicted so far.

    Arguments:
        evidence: Logarithms of one-step-ahead predictive densities, `(candidates, parts)`.

    Example:
        Without evidence little is expected to last, and more to be over by the next refresh.

        >>> rates = posterior_mean_rates(np.zeros((WALKS.size, 1)))
        >>> float(np.sqrt(rates.walk[0]).round(3)), float(np.sqrt(rates.shock[0]).round(3))
        (0.032, 0.198)
    """
    weights = candidate_probabilities(evidence)
    return Rates(WALKS**2 @ weights, SHOCKS**2 @ weights)


def candidate_probabilities(evidence: Floats) -> Floats:
    """Returns the posterior probability of each candidate, `(candidates, parts)`; every column adds up to 1."""
    weights = _PRIOR[:, None] + evidence
    weights = np.exp(weights - weights.max(axis=0))
    result: Floats = weights / weights.sum(axis=0)
    return result


# What is known


@final
@dataclass(frozen=True, eq=False)
class Posterior:
    """Precisions of all effects, and the candidates' views of some of them.

    Parts are the single effects (level, and slope or network) and then the fields.

    Attributes:
        precision: Of every field value's shift, field after field.
        single_precision: Of every single effect.
        penalties: One per field: 1 over the variance of its shifts.
        watched: Places of the values on which rates are learned.
        means: Each candidate's, `(candidates, watched values and single effects)`; single effects as deviations from
            the value in use.
        precisions: Each candidate's.
        evidence: How well each candidate predicted each part so far, `(candidates, parts)`.
    """

    precision: Floats
    single_precision: Floats
    penalties: Floats
    watched: NDArray[np.int64]
    means: Floats
    precisions: Floats
    evidence: Floats

    @classmethod
    def at_fit(cls, state: State, shifts: Floats, schema: FieldSchema, n_steps: float) -> Posterior:
        """Returns what a fit knows, seen as if its rows had come in steps of the size of a refresh.

        Arguments:
            state: What the fit kept (`posterior_at_fit`).
            shifts: One per value.
            schema: The fields that have shifts.
            n_steps: How many refreshes the rows of the fit would have made.
        """
        information, of_single, penalties = state["information"], state["single"], state["penalties"]
        n_single = of_single.size
        watched = []
        for field in range(len(schema)):
            here = schema.ids_of(field)
            best = np.argsort(-information[here], kind="stable")[: min(MOST_WATCHED, here.stop - here.start)]
            watched.append(here.start + np.sort(best))
        places = np.concatenate([*watched, np.zeros(0, dtype=np.int64)]).astype(np.int64)
        pull = schema.by_id(penalties)
        evidence = np.zeros((WALKS.size, n_single + len(penalties)))
        rates = posterior_mean_rates(evidence)
        walk, shock = schema.by_id(rates.walk[n_single:]), schema.by_id(rates.shock[n_single:])
        precision = _after_steps(information, pull, walk, shock, n_steps)
        nothing = np.zeros(n_single)
        single = _after_steps(of_single, nothing, rates.walk[:n_single], rates.shock[:n_single], n_steps)
        both, pulls = np.concatenate([of_single, information[places]]), np.concatenate([nothing, pull[places]])
        candidates = zip(WALKS, SHOCKS, strict=True)
        precisions = [_after_steps(both, pulls, np.float64(q**2), np.float64(s**2), n_steps) for q, s in candidates]
        means = np.tile(np.concatenate([nothing, shifts[places]]), (WALKS.size, 1))
        return cls(precision, single, penalties, places, means, np.stack(precisions), evidence)

    def as_arrays(self) -> State:
        return dict(vars(self))

    def with_values(self, schema: FieldSchema, grown: FieldSchema) -> Posterior:
        """Returns the same with more values per field; a new value is known as far as its field is.

        Arguments:
            schema: The fields now.
            grown: The fields with room for new values.
        """
        places = moved_places(schema.offsets, grown.offsets)
        precision = grown.by_id(self.penalties)
        precision[places] = self.precision
        return replace(self, precision=precision, watched=places[self.watched])


def moved_places(offsets: NDArray[np.int64], grown: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns where each value of a concatenated table is when every field has room for more.

    Example:
        >>> moved_places(np.array([0, 2, 5]), np.array([0, 4, 8])).tolist()
        [0, 1, 4, 5, 6]
    """
    return np.arange(int(offsets[-1])) + np.repeat(grown[:-1] - offsets[:-1], np.diff(offsets))


def _after_steps(information: Floats, pull: Floats, walk: Any, shock: Any, n_steps: float) -> Floats:
    """Precision at the end of a fit whose rows came in equal steps: shocks are averaged, and the walk went on."""
    averaged = information / (1.0 + information * shock / n_steps)
    precision = np.maximum(pull + averaged, 1e-6)
    # the fit knows the mean over its time; the effect at its end is a third of the walk away from that
    variance = 1.0 / precision + walk * n_steps / 3.0
    widest = np.maximum(1.0 / precision, 1.0 / np.maximum(_with_room(pull, walk), 1e-12))
    result: Floats = 1.0 / np.minimum(variance, widest)
    return result


# One refresh

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
    single = solve_logistic(day, lambda block: block.of(columns), offset=total)
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
