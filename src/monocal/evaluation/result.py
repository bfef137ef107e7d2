"""One forecast of one task: a table of metric × {value, interval, floor, reason}."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from monocal.core.errors import InvalidInput, check_known
from monocal.core.numbers import plain_values
from monocal.core.scores import Floats
from monocal.metrics import AnyMetric, Forecast, Interval, Value, bootstrap, centred_interval, noise_floor
from monocal.metrics.resample import check_confidence, check_replicates
from monocal.tables.result import Tabular

if TYPE_CHECKING:
    from monocal.evaluation.fields import FieldTable, SeenBand
    from monocal.evaluation.paired import Comparison


NO_ROWS = "resampling needs all rows in one place"

LEAST_OBSERVATIONS = 50
"""With fewer rows (or groups, where groups are resampled) nothing is claimed about a difference: quantiles of so few
resampled losses, of which single ones may be a hundred times the others, hold nothing like their confidence."""

LEAST_PER_CLASS = 20
"""Nor with fewer rows of either label."""


@final
@dataclass(frozen=True)
class EvaluationOptions:
    """How forecasts are evaluated.

    Attributes:
        metrics: Names or metric objects; None means the headline ones of a table, all metrics of arrays.
        by: Fields of which every value is evaluated.
        confidence: Coverage of intervals.
        n_bootstrap: Replicates behind an interval.
        n_floor: Label redraws behind a floor.
        seed: Seed of resampling and redrawing.
    """

    metrics: Sequence[str | AnyMetric] | None = None
    by: Sequence[str] = ()
    confidence: float = 0.95
    n_bootstrap: int = 200
    n_floor: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        check_replicates("n_bootstrap", self.n_bootstrap)
        check_replicates("n_floor", self.n_floor)


@final
@dataclass(eq=False, repr=False)
class Evaluation(Tabular):
    """One forecast of one task: a table of metric × {value, interval, floor, reason}.

    Intervals and floors are computed from the forecast when first asked for, and kept; the evaluation refers to the
    columns it was made from, which must not be changed in place. Without the rows, from sums of a cluster, it has
    neither.

    Attributes:
        metrics: Metrics by name.
        values: Their values.
        n_rows: Rows that were evaluated.
        options: Confidence, replicates, redraws, seed.
        forecast: The rows; None if they are somewhere else.
        before: The same rows with the score before calibration, if this is a calibrated forecast.
        by: Field to errors by value, for the fields that were asked for.
        times_seen: Field to errors by how often values were seen in the fit; empty if that is not known.
    """

    metrics: Mapping[str, AnyMetric]
    values: Mapping[str, Value]
    n_rows: int
    options: EvaluationOptions = EvaluationOptions()
    forecast: Forecast | None = None
    before: Evaluation | None = None
    by: Mapping[str, FieldTable] = field(default_factory=dict)
    times_seen: Mapping[str, list[SeenBand]] = field(default_factory=dict)
    _resampled: dict[str, Floats] = field(default_factory=dict, init=False)
    _redrawn: dict[str, Floats] = field(default_factory=dict, init=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics, in order."""
        return tuple(self.values)

    @property
    def confidence(self) -> float:
        """Coverage of intervals."""
        return self.options.confidence

    @property
    def stages(self) -> dict[str, Evaluation]:
        """The forecast before calibration and, if this is another one, after it."""
        return {"before": self} if self.before is None else {"before": self.before, "after": self}

    @property
    def rows(self) -> Forecast:
        """The rows; refused where there are only sums."""
        if self.forecast is None:
            expected, hint = "an evaluation of rows", "evaluate a sample of the table here"
            raise InvalidInput.of("evaluation", "sums without rows", expected, hint)
        return self.forecast

    @cached_property
    def change(self) -> Comparison | None:
        """Paired differences to the score before calibration; None if this is that score, or without intervals."""
        from monocal.evaluation.paired import Comparison

        return None if self.before is None or self.forecast is None else Comparison(self.before, self)

    def value(self, name: str) -> float:
        """The number; NaN when undefined, see `reason`."""
        return self._found(name).number

    def reason(self, name: str) -> str:
        """Why the number is undefined; empty when it is not."""
        return self._found(name).reason

    def details(self, name: str) -> dict[str, float]:
        """Further numbers that belong to the value: decomposition parts, dropped shares, error bounds."""
        return dict(self._found(name).details)

    def interval(self, name: str) -> Interval:
        """Bootstrap interval `(low, high)` of the value, resampling groups where groups were given."""
        replicates = self.replicates(name)
        return centred_interval(self.value(name), replicates, self.confidence, self.metrics[name].limits)

    def interval_reason(self, name: str) -> str:
        """Why there is no interval; empty if there is one."""
        return self.reason(name) or (NO_ROWS if self.forecast is None else "")

    def expected(self, name: str) -> float:
        """What the metric would be if this forecast were right: its mean over labels redrawn from these predictions."""
        return _mean(self._draws(name))

    def floor(self, name: str) -> float:
        """The noise floor: the metric of a perfect forecaster on so many rows.

        NaN for log-loss, normalised entropy, Brier, AUC and GAUC, which reward knowing more as well: their best value
        is unknown. A forecast that says too little about its rows would even be "better" than if it were right
        (`expected`).
        """
        return _mean(self._floor_draws(name))

    def floor_interval(self, name: str) -> Interval:
        """Where the metric of a perfect forecaster lies with the evaluation's confidence; NaN where `floor` is."""
        draws, tail = self._floor_draws(name), 0.5 * (1.0 - self.confidence)
        low, high = np.quantile(draws, [tail, 1.0 - tail]).tolist() if draws.size else (math.nan, math.nan)
        return Interval(low, high)

    def excess(self, name: str) -> float:
        """How much worse than a perfect forecaster, in the metric's own unit; about 0 means as good as perfect.

        Above the floor for errors, and for PCOC how much farther from 1; NaN where `floor` is.
        """
        goal = self._metric(name).goal
        return goal.loss(self.value(name)) - _mean([goal.loss(draw) for draw in self._floor_draws(name)])

    def replicates(self, name: str) -> Floats:
        """The bootstrap replicates behind `interval`, `(n_bootstrap,)`; NaN where there are none."""
        self._found(name)
        self.compute_intervals([name])
        return self._resampled.get(name, np.full(self.options.n_bootstrap, np.nan))

    def compute_intervals(self, names: Iterable[str] | None = None) -> None:
        """Computes the intervals of several metrics in one go; those known already are kept."""
        missing = self._missing(names, self._resampled)
        if missing and self.forecast is not None:
            self._resampled |= bootstrap(missing, self.forecast, self.options.n_bootstrap, self.options.seed)

    def compute_floors(self, names: Iterable[str] | None = None) -> None:
        """Computes the noise floors of several metrics in one go; those known already are kept."""
        with_floor = [name for name in self.names if self.metrics[name].has_floor]
        missing = self._missing(with_floor if names is None else names, self._redrawn)
        if missing and self.forecast is not None:
            self._redrawn |= noise_floor(missing, self.forecast, self.options.n_floor, self.options.seed)

    def too_few(self) -> str:
        """Returns why the rows are too few to compare forecasts on them, see `too_few_to_compare`; empty if not."""
        rows = self.forecast
        if rows is None:
            return too_few_to_compare(self.n_rows)
        n_groups = None if rows.groups is None else int(np.unique(rows.groups).size)
        positives = float(np.average(rows.labels, weights=rows.weights)) * rows.n_observed_rows
        return too_few_to_compare(rows.n_observed_rows, positives, n_groups)

    def plot(self, *, ax: Any = None) -> Any:
        """Draws reliability with its noise band, before and after calibration; needs `monocal[plot]`.

        Arguments:
            ax: Axes of matplotlib; None makes a new figure.
        """
        from monocal.reports.figures import draw_evaluation

        return draw_evaluation(self, ax)

    def as_dict(self) -> dict[str, Any]:
        """Returns everything about this forecast as plain numbers for JSON; undefined ones are None with a reason."""
        self.compute_intervals()
        self.compute_floors()
        return {
            "n_rows": self.n_rows,
            "confidence": self.confidence,
            "n_bootstrap": self.options.n_bootstrap,
            "n_floor": self.options.n_floor,
            "seed": self.options.seed,
            "metrics": {name: self._entry(name) for name in self.names},
        }

    def __repr__(self) -> str:
        return f"Evaluation of {len(self.names)} metrics on {self.n_rows:,} rows; print it for the table"

    def _columns(self) -> dict[str, list[Any]]:
        entries = self.as_dict()["metrics"].values()
        columns = {"metric": list(self.names), "value": [entry["value"] for entry in entries]}
        columns |= {end: [entry["interval"][at] for entry in entries] for at, end in enumerate(("low", "high"))}
        return columns | {key: [entry[key] for entry in entries] for key in ("floor", "excess", "goal", "reason")}

    def _missing(self, names: Iterable[str] | None, known: Mapping[str, Floats]) -> dict[str, AnyMetric]:
        wanted = self.names if names is None else tuple(names)
        return {name: self.metrics[name] for name in wanted if name not in known and not self._found(name).reason}

    def _draws(self, name: str) -> Floats:
        self._found(name)
        self.compute_floors([name])
        draws = self._redrawn.get(name, np.zeros(0))
        return draws[np.isfinite(draws)]

    def _floor_draws(self, name: str) -> Floats:
        return self._draws(name) if self._metric(name).has_floor else np.zeros(0)

    def _metric(self, name: str) -> AnyMetric:
        self._found(name)
        return self.metrics[name]

    def _found(self, name: str) -> Value:
        check_known("metric", name, self.values)
        return self.values[name]

    def _entry(self, name: str) -> dict[str, Any]:
        without = self.interval_reason(name)
        entry: dict[str, Any] = {
            "value": self.value(name),
            "interval": self.interval(name),
            **({"interval_reason": without} if without and not self.reason(name) else {}),
            "floor": self.floor(name),
            "floor_interval": self.floor_interval(name),
            "excess": self.excess(name),
            "goal": self.metrics[name].goal.kind,
            "reason": "infinite" if math.isinf(self.value(name)) else self.reason(name),
            "details": self.details(name),
        }
        plain: dict[str, Any] = plain_values(entry)
        return plain


def too_few_to_compare(n_rows: int, n_positive: float | None = None, n_groups: int | None = None) -> str:
    """Returns why nothing is claimed about a difference on so few rows; empty if they are enough.

    Arguments:
        n_rows: Rows.
        n_positive: Positives among them, counted in rows of average weight; None if that is not known.
        n_groups: Groups of rows, where groups are resampled.

    Example:
        >>> too_few_to_compare(6, 2)
        '6 rows, 2 of one label: too few to compare; it takes 50 rows and 20 rows of each label'
        >>> too_few_to_compare(1_000, 20, n_groups=50)
        ''
    """
    n, what = (n_rows, "rows") if n_groups is None else (n_groups, "groups")
    fewest = n_rows if n_positive is None else min(n_positive, n_rows - n_positive)
    if n >= LEAST_OBSERVATIONS and round(fewest, 6) >= LEAST_PER_CLASS:
        return ""
    return (
        f"{n:,} {what}, {fewest:,.0f} of one label: too few to compare; it takes {LEAST_OBSERVATIONS} {what} and "
        f"{LEAST_PER_CLASS} rows of each label"
    )


def _mean(numbers: Sequence[float] | Floats) -> float:
    return float(np.mean(numbers)) if len(numbers) else math.nan
