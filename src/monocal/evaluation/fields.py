"""Calibration of every value of a field, long tail included; and errors by how often a value was seen in the fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Unpack, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.core.scores import Floats, log_losses, logit
from monocal.evaluation.cells import Cells, dispersion_of, sum_cells
from monocal.evaluation.evaluate import ForecastColumns, forecast_of
from monocal.evaluation.stats import Flags, Spread, levelled, spread_of, two_stage_discoveries
from monocal.metrics.forecast import Forecast
from monocal.metrics.resample import check_confidence
from monocal.tables.categories import EncodedColumn, encode_values
from monocal.tables.result import Tabular, text_table


@final
@dataclass(frozen=True, eq=False)
class FieldErrors:
    """One forecast on the values of one field.

    Attributes:
        cells: Sums per value.
        low: Lower end of the interval of each value's PCOC.
        high: Upper end; infinite without a positive.
        flagged: Values whose error is significant after correction.
        spread: How far off the values are together.
        is_significant: Whether the field is off, as a whole or through single values, after correction.
    """

    cells: Cells
    low: Floats
    high: Floats
    flagged: Flags
    spread: Spread
    is_significant: bool

    @property
    def n_flagged(self) -> int:
        return int(self.flagged.sum())

    @cached_property
    def relative_spread(self) -> Spread:
        """How far off the values are once the forecast's overall bias is taken out."""
        return spread_of(levelled(self.cells.counts))

    @property
    def shrunk_gap(self) -> Floats:
        """Predicted minus observed positives by the shrunk estimate."""
        gap: Floats = self.cells.predicted * (1.0 - 1.0 / self.cells.shrunk_pcoc)
        return gap

    @property
    def excess(self) -> Floats:
        """Predicted minus observed positives: as measured where significant, by the shrunk estimate elsewhere."""
        return np.where(self.flagged, self.cells.gap, self.shrunk_gap)


def field_errors(fields: Sequence[Cells], confidence: float = 0.95) -> list[FieldErrors]:
    """Estimates every value of every field; the long tail is shrunk, never folded into "other".

    First fields are tested, then the values of those that are off, with the false discovery rate held at 1 − confidence
    (`two_stage_discoveries`).

    Arguments:
        fields: One forecast's sums per value, field by field.
        confidence: Coverage of intervals.
    """
    spreads = [spread_of(cells.counts) for cells in fields]
    outside, flags = two_stage_discoveries(
        [spread.p_value for spread in spreads], [cells.p_values for cells in fields], 1.0 - confidence
    )
    return [
        FieldErrors(cells, *cells.interval(confidence), flagged, spread, bool(significant))
        for cells, spread, significant, flagged in zip(fields, spreads, outside, flags, strict=True)
    ]


_PRINTED = ("n_rows", "observed_rate", "mean_prediction", "pcoc", "pcoc_low", "pcoc_high", "pcoc_shrunk", "flagged")


@final
@dataclass(frozen=True, eq=False)
class FieldTable(Tabular):
    """One row per value of a field, most frequent first.

    Attributes:
        name: The field.
        columns: Arrays of equal length: `n_rows`, `weight`, `positives`, `predicted` (summed predictions),
            `mean_prediction`, `observed_rate`, `bias` (their difference), `bias_stderr`, `pcoc`, `pcoc_low`,
            `pcoc_high`, `pcoc_shrunk`, `p_value`, `flagged`.
        errors: How far off the field is as a whole; of all its values, also where these rows are some of them.
    """

    name: str
    columns: Mapping[str, NDArray[Any]]
    errors: FieldErrors
    _ids: NDArray[Any]
    _encoded: EncodedColumn

    def __len__(self) -> int:
        return int(self._ids.shape[0])

    def __getitem__(self, column: str) -> NDArray[Any]:
        return self.columns[column]

    @property
    def values(self) -> list[Any]:
        """The field's values, in the order of the rows; None stands for a missing value."""
        return self._encoded.decode(self._ids)

    def worst(self, k: int = 10) -> FieldTable:
        """Returns the k flagged values with the most positives predicted too many or too few."""
        flagged = np.flatnonzero(self["flagged"])
        gap = np.abs(self["predicted"] - self["positives"])[flagged]
        return self._take(flagged[np.argsort(-gap, kind="stable")[:k]])

    def as_dict(self) -> dict[str, list[Any]]:
        """Returns the columns as lists, the field's values first."""
        return {self.name: self.values, **{key: column.tolist() for key, column in self.columns.items()}}

    def _columns(self) -> dict[str, list[Any]]:
        return self.as_dict()

    def __repr__(self) -> str:
        flagged = int(self["flagged"].sum())
        return f"FieldTable of {len(self):,} values of {self.name}, {flagged:,} flagged; print it for the table"

    def __str__(self) -> str:
        columns = self.as_dict()
        return text_table({name: columns[name] for name in (self.name, *_PRINTED)})

    def _take(self, rows: NDArray[Any]) -> FieldTable:
        columns = {key: column[rows] for key, column in self.columns.items()}
        return FieldTable(self.name, columns, self.errors, self._ids[rows], self._encoded)


def field_table(
    labels: ArrayLike,
    probabilities: ArrayLike,
    values: Any,
    *,
    name: str = "value",
    confidence: float = 0.95,
    **columns: Unpack[ForecastColumns],
) -> FieldTable:
    r"""Returns PCOC of every value of a field with interval, shrunk estimate, p-value and a flag.

    Positives of one value are taken as binomial, with the number of trials and the rate chosen so that mean and
    variance are those of the predicted coin flips; where rows of one group are dependent, intervals and tests widen by
    as much as their residuals show (`dispersion_of`). The p-value is two-sided against perfect calibration; `flagged`
    holds the false discovery rate over all values at 1 − confidence in two stages, the field first and then its values,
    so a field with a thousand values does not raise fifty false alarms. `pcoc_shrunk` pulls small values towards 1 by
    as much as the spread between values suggests (gamma-Poisson): nothing is folded into "other".

    PCOC of a value without positives is NaN, its interval reaches to infinity, and its shrunk PCOC is finite.
    A row is one observation whatever its weight; uneven weights widen the interval.

    Arguments:
        labels: 0 or 1 per row.
        probabilities: The forecast.
        values: The field: strings, integers, anything; missing values are a value of their own.
        name: What the field is called.
        confidence: Coverage of intervals; 1 − confidence is the false discovery rate.
        columns: `groups` (users or sessions whose rows are dependent), `weights` and others, as in `evaluate`.

    References:
        Benjamini and Hochberg. Controlling the false discovery rate. 1995.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> site = rng.choice(["big", "small"], 20_000, p=[0.9, 0.1])
        >>> labels = rng.random(20_000) < 0.1
        >>> table = field_table(labels, np.where(site == "small", 0.15, 0.1), site, name="site")
        >>> table.values, table["flagged"].tolist(), table["pcoc"].round(1).tolist()
        (['big', 'small'], [False, True], [1.0, 1.5])
    """
    check_confidence(confidence)
    forecast = forecast_of(labels, probabilities, **columns)
    column = encode_values(values, forecast.n_rows, name)
    dispersions = {name: dispersion_of(forecast, column.ids)}
    return field_tables(forecast, {name: column}, dispersions, confidence=confidence)[name]


def field_tables(
    forecast: Forecast,
    fields: Mapping[str, EncodedColumn],
    dispersions: Mapping[str, float],
    *,
    confidence: float,
    values: Floats | None = None,
) -> dict[str, FieldTable]:
    """Returns the tables of several fields, with the false discovery rate held over all of them together.

    Arguments:
        forecast: The rows.
        fields: Encoded columns by name.
        dispersions: Field to how much wider its noise is, see `dispersion_of`.
        confidence: Coverage of intervals; 1 − confidence is the false discovery rate.
        values: What one positive of each row is worth.
    """
    sums, kept = [], []
    for name, column in fields.items():
        n_rows = np.bincount(column.ids)
        cells = sum_cells(forecast, column.ids, len(n_rows), values=values, dispersion=dispersions[name])
        ids = np.flatnonzero(cells.weight > 0.0)
        ids = ids[np.argsort(-n_rows[ids], kind="stable")]
        sums.append(cells.take(ids))
        kept.append((ids, n_rows[ids]))
    return {
        name: FieldTable(name, _columns(errors, n_rows), errors, ids, fields[name])
        for name, errors, (ids, n_rows) in zip(fields, field_errors(sums, confidence), kept, strict=True)
    }


def _columns(errors: FieldErrors, n_rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    cells = errors.cells
    variance = np.maximum(cells.predicted - cells.squares, 0.0) * cells.effective_weight
    return {
        "n_rows": n_rows,
        "weight": cells.weight,
        "positives": cells.observed,
        "predicted": cells.predicted,
        "mean_prediction": cells.predicted_rate,
        "observed_rate": cells.observed_rate,
        "bias": cells.predicted_rate - cells.observed_rate,
        "bias_stderr": np.sqrt(variance) / cells.weight,
        "pcoc": cells.pcoc,
        "pcoc_low": errors.low,
        "pcoc_high": errors.high,
        "pcoc_shrunk": cells.shrunk_pcoc,
        "p_value": cells.p_values,
        "flagged": errors.flagged,
    }


LEAST_SEEN = (0, 1, 10, 100, 1_000)
"""Where bands of counts begin: never, once to nine times, and so on."""

_QUANTILE = 1.96


@final
@dataclass(frozen=True)
class SeenBand:
    """Rows whose value of one field had about as many rows in the fit.

    Attributes:
        least: The value had at least so many rows in the fit.
        most: And at most so many; None has no limit.
        n_rows: Rows of the band, counted with their weights.
        n_positive: Positives among them.
        log_loss: Stage ("before", "after") to the mean log-loss.
        pcoc: Stage to predicted over observed positives; NaN without positives.
        noise: How far from 1 chance alone takes PCOC in 95 of 100 such bands if the last forecast is right.
    """

    least: int
    most: int | None
    n_rows: float
    n_positive: float
    log_loss: dict[str, float]
    pcoc: dict[str, float]
    noise: float

    @property
    def title(self) -> str:
        """The band in words."""
        if self.most is None:
            return f"{self.least:,} or more"
        return "never" if self.most == 0 else f"{self.least:,} to {self.most:,}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def by_times_seen(
    times_seen: NDArray[Any], labels: ArrayLike, stages: Mapping[str, Floats], weights: ArrayLike | None = None
) -> list[SeenBand]:
    """Returns the bands that have rows, from values never seen to frequent ones.

    Arguments:
        times_seen: How many rows of the fit had this row's value.
        labels: 0 or 1.
        stages: Forecasts by name, the last one the best.
        weights: How often each row counts.

    Example:
        >>> seen, labels = np.array([0, 0, 5, 5]), np.array([0, 1, 1, 1])
        >>> bands = by_times_seen(seen, labels, {"after": np.array([0.4, 0.4, 0.9, 0.9])})
        >>> [(band.title, band.n_rows, band.pcoc["after"]) for band in bands]
        [('never', 2.0, 0.8), ('1 to 9', 2.0, 0.9)]
    """
    y = np.asarray(labels, dtype=np.float64)
    w = np.ones(y.shape[0]) if weights is None else np.asarray(weights, dtype=np.float64)
    band = np.searchsorted(LEAST_SEEN, times_seen, side="right") - 1

    def sums(column: Floats) -> Floats:
        return np.bincount(band, column, len(LEAST_SEEN)).astype(np.float64)

    rows, positives, best = sums(w), sums(w * y), list(stages.values())[-1]
    observed = np.where(positives > 0.0, positives, np.nan)
    most = (*(least - 1 for least in LEAST_SEEN[1:]), None)
    losses = {name: sums(w * log_losses(logit(p), y)) for name, p in stages.items()}
    pcoc = {name: sums(w * p) / observed for name, p in stages.items()}
    noise = _QUANTILE * np.sqrt(sums(w**2 * best * (1.0 - best))) / observed
    return [
        SeenBand(
            LEAST_SEEN[at],
            most[at],
            float(rows[at]),
            float(positives[at]),
            {name: float(loss[at] / rows[at]) for name, loss in losses.items()},
            {name: float(ratio[at]) for name, ratio in pcoc.items()},
            float(noise[at]),
        )
        for at in np.flatnonzero(rows > 0.0)
    ]
