"""How surely the calibrated logit of a row is known: the posterior variances of its parts, added up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.carry_over.blocks import TimeBlocks
from monocal.core.dataset import Dataset
from monocal.core.fields import FieldSchema, Ids
from monocal.core.scores import Floats, LogitVariance, sigmoid

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

    found: list[list[Floats | float]] = []
    for part in data.parts():
        z, weights = part.of(data.z), None if data.w is None else part.of(data.w)
        curvature = _curvature(part.of(logits), weights)
        ids = None if data.ids is None else data.ids[part.rows]
        mass = float(len(z)) if weights is None else float(weights.sum())
        values = values_information(curvature, ids, data.fields)
        found.append([float(curvature.sum()), float(curvature @ z), float(curvature @ z**2), mass, values])
    flat, turned, square, weight, information = data.cut.add(found)
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


# How far the true logits of rows lie from calibrated ones, beyond what the uncertainty of the parameters explains

MOST_ROWS = 100_000
"""The newest rows on which the spread is measured; a pair of fields costs a few milliseconds."""

N_SCORE_BINS = 20
BEYOND_NOISE = 1.0
"""A spread counts if it exceeds zero by so many standard errors: among hundreds of pairs noise would add up."""

MOST_VARIANCE = 400.0
"""Of logits, as far as it is trusted: with answers that are 0 or 1 in all digits moments have no bound."""

_ROUNDS = 6
"""Rounds in which weights of cells and variances settle."""

LEAST_LEFT = 0.5
"""Cells from which the fit took more than half of the residual say nothing about what it misses; nor does a kind of
cells most of which are such."""

_CELL_BITS = 18
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))

Cells = NDArray[np.int32] | NDArray[np.int64]
Words = NDArray[np.uint64]


def variance_components(
    forecasts: Sequence[Floats], data: Dataset, leverages: Floats | None = None
) -> list[dict[str, Floats]]:
    r"""Returns variances of what each forecast misses, by where it was seen: time, score, slopes and fields.

    Rows are put into cells: a time block, a twentieth of the score, a value of a field, and every pair of these. If
    rows of cell c share a deviation :math:`d_c` of variance τ², residuals add up to :math:`R_c = \sum w (y - p)` with

    .. math:: E[R_c^2] = g_c B_c + \tau^2 g_c^2 B_c^2, \qquad B_c = \sum w\,p\,(1 - p)

    which gives τ² by moments. The factor :math:`g_c = 1 - \sum w\,p\,(1 - p)\,h` is what the fit left of the residual:
    the leverage h of a row is 1 / (information + penalty) of those of its values that make the cell. What one kind of
    cell explains (its shrunken deviations) is added to the logits before the next is looked at, so nothing counts
    twice. Cells of a time block and a field value hold shocks: effects that came and went, of which the next forecast
    will meet new ones. Deviations in cells of the score have the variance :math:`\tau^2 + \beta^2 (z - c)^2` around the
    middle c of the scores: where slopes differ, rows with low and high scores are missed by more, and low ones are so
    rare among positives that one variance for all would not notice.

    It sees nothing that takes three columns to see, and a network's fit to its own rows is not taken out: a lower
    bound.

    References:
        DerSimonian, Laird. Meta-analysis in clinical trials. 1986.

    Arguments:
        forecasts: Calibrated logits, one per row each; cells are made once for all of them.
        data: The newest rows of the fit, in time order.
        leverages: 1 / (information + penalty) of the rows' values, `(n, F)`; None where no shifts were fitted.

    Example:
        Two fields that only matter together; the deviation has a standard deviation of 0.5.

        >>> random = np.random.default_rng(0)
        >>> ids = random.integers(1, 11, (50_000, 2)).astype(np.int32)
        >>> missed = random.normal(0.0, 0.5, (11, 11))[ids[:, 0], ids[:, 1]]
        >>> labels = (random.random(50_000) < sigmoid(missed - 1.0)).astype(float)
        >>> z = np.full(50_000, -1.0)
        >>> (found,) = variance_components([z], Dataset(z, labels, ids=ids))
        >>> 0.4 < float(found["of_fields"][0]) ** 0.5 < 0.6
        True
    """
    missed = [_Residuals(logits, data) for logits in forecasts]
    for kind, cells, own in _kinds_of_cells(data):
        taken = None if leverages is None or not own else leverages[:, own].sum(axis=1)
        for forecast in missed:
            forecast.update(kind, cells, taken)
    return [{kind: np.array([variance]) for kind, variance in forecast.found.items()} for forecast in missed]


@final
class _Residuals:
    """What one forecast misses, beyond what the cells so far explain."""

    def __init__(self, logits: Floats, rows: Dataset) -> None:
        self._z, self._scores = logits.copy(), rows.z
        self._weights, self._labels = rows.weights, rows.labels
        self._settle()
        self._centre = float(np.average(rows.z, weights=self._curvature + 1e-12))
        kinds = dict.fromkeys(("of_time", "of_score", "of_slopes", "of_fields"), 0.0)
        self.found = {**kinds, "centre": self._centre}

    def _settle(self) -> None:
        p = sigmoid(self._z)
        self._residuals, self._curvature = self._weights * (self._labels - p), self._weights * p * (1.0 - p)

    def update(self, kind: str, cells: Cells, taken: Floats | None) -> None:
        """Adds the variance that cells of one kind show, and takes out what it explains.

        Arguments:
            kind: What the cells are of.
            cells: The cell of every row.
            taken: The leverage of every row's values that make its cell; None if none do.
        """
        residual = np.bincount(cells, self._residuals)
        information: Floats = np.bincount(cells, self._curvature).astype(np.float64)
        left = np.ones_like(information)
        if taken is not None:
            left -= np.bincount(cells, self._curvature * taken)
        judged = left >= LEAST_LEFT
        known = (information * left)[judged]
        square = float(known @ known)
        if square <= 0.0 or information[judged].sum() < LEAST_LEFT * information.sum():
            return
        variance = (float(np.sum(residual[judged] ** 2)) - float(known.sum())) / square
        if variance <= BEYOND_NOISE * np.sqrt(2.0 / square):
            return
        variance = min(variance, MOST_VARIANCE)
        by_cell = np.full(information.shape, variance)
        if kind == "of_score":
            rows = np.maximum(np.bincount(cells), 1)
            away = (np.bincount(cells, self._scores - self._centre) / rows) ** 2
            variance, of_slopes = _even_and_slope_variance(residual[judged] ** 2 - known, known, away[judged], variance)
            self.found["of_slopes"] += of_slopes
            by_cell = variance + of_slopes * away
        self.found[kind] += variance
        self._z += (residual * by_cell / (information * by_cell + 1.0))[cells]
        self._settle()


def _even_and_slope_variance(excess: Floats, information: Floats, away: Floats, variance: float) -> tuple[float, float]:
    """Returns τ² and β², none of them negative, by least squares in which a cell weighs as much as it can say."""
    even, of_slopes = variance, 0.0
    if not away.any():
        return even, of_slopes
    for _ in range(_ROUNDS):
        weights = 1.0 / (1.0 + (even + of_slopes * away) * information) ** 2
        squares = weights * information**2
        a, b, c = squares.sum(), squares @ away, squares @ away**2
        first, second = weights @ excess, (weights * away) @ excess
        area = a * c - b * b
        if area > 1e-9 * a * c:
            even, of_slopes = (c * first - b * second) / area, (a * second - b * first) / area
        if area <= 1e-9 * a * c or even < 0.0 or of_slopes < 0.0:
            flat = bool(c * first * abs(first) >= a * second * abs(second))
            even, of_slopes = max(float(first / a), 0.0) * flat, max(float(second / c), 0.0) * (not flat)
        even, of_slopes = min(even, MOST_VARIANCE), min(of_slopes, MOST_VARIANCE)
    return float(even), float(of_slopes)


def _kinds_of_cells(data: Dataset) -> Iterator[tuple[str, Cells, list[int]]]:
    """Yields what the cells are of, the cell of every row, and the fields that make it."""
    blocks = TimeBlocks.of(data).block_of_rows(0)
    edges = np.unique(np.quantile(data.z, np.linspace(0.0, 1.0, N_SCORE_BINS + 1)[1:-1]))
    bins = np.searchsorted(edges, data.z).astype(np.int64)
    schema = data.fields
    fields = (
        []
        if data.ids is None
        else [schema.between_knots(field, data.ids[:, column]) for field, column in enumerate(schema.places)]
    )
    blocks_alone, bins_alone = blocks.astype(np.uint64), bins.astype(np.uint64)
    columns = [column.astype(np.uint64) for column in fields]
    yield "of_score", bins, []
    yield "of_time", blocks, []
    for place, column in enumerate(columns):
        yield "of_fields", _numbered(_mixed(column)), [place]
    yield "of_time", _numbered(_mixed(blocks_alone, _mixed(bins_alone))), []
    for place, column in enumerate(columns):
        yield "of_time", _numbered(_mixed(blocks_alone, _mixed(column))), [place]
    for place, column in enumerate(columns):
        yield "of_score", _numbered(_mixed(bins_alone, _mixed(column))), [place]
    for place, column in enumerate(columns):
        first = _mixed(column)
        for other in range(place):
            yield "of_fields", _numbered(_mixed(columns[other], first)), [place, other]


def _mixed(column: Words, before: Words | None = None) -> Words:
    """Mixes the bits of a column with those of the columns before it."""
    mixed: Words = (column if before is None else before ^ column) * _MIX[0]
    mixed ^= mixed >> np.uint64(29)
    return mixed


def _numbered(mixed: Words) -> Cells:
    """Numbers combinations of values below a bound; a few of many rare ones may share a number."""
    return (mixed * _MIX[1] >> np.uint64(64 - _CELL_BITS)).astype(np.int64)
