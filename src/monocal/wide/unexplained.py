"""How far the true logits of rows lie from calibrated ones, beyond what the uncertainty of the parameters explains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.carry_over.blocks import TimeBlocks
from monocal.core.dataset import Dataset
from monocal.core.scores import Floats, sigmoid

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
