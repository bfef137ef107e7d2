"""From labels and predictions to numbers with their intervals and noise floors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.samples import check_weights
from monocal.core.sampling import SamplingRate, sampling_shift
from monocal.core.spaces import Floats, ScoreSpace, check_score_space, sigmoid, to_logits
from monocal.metrics import (
    METRICS,
    AnyMetric,
    Forecast,
    Interval,
    Value,
    bootstrap,
    centred_interval,
    metric,
    noise_floor,
    values_of,
)
from monocal.metrics.forecast import check_probabilities
from monocal.metrics.resample import check_confidence, check_replicates
from monocal.tables.result import Tabular
from monocal.tables.table import encode_values


def text_table(lines: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines with their columns aligned.

    Example:
        >>> text_table([("metric", "value"), ("ece", "0.01")])
        ['metric  value', 'ece     0.01']
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]


class MeasuredValues(ABC):
    """Metrics of one forecast. A subclass knows the values, and where replicates and redraws come from.

    Attributes:
        n_rows: Rows that were judged.
        metrics: Metric to its options.
        values: Metric to what was found.
        confidence: Coverage of intervals.
    """

    n_rows: int
    metrics: Mapping[str, AnyMetric]
    values: Mapping[str, Value]
    confidence: float

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics, in order."""
        return tuple(self.values)

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

    def expected(self, name: str) -> float:
        """What the metric would be if this forecast were right: its mean over labels redrawn from these predictions."""
        draws = self._defined_draws(name)
        return float(draws.mean()) if draws.size else float("nan")

    def floor(self, name: str) -> float:
        """The noise floor: the metric of a perfect forecaster on so many rows.

        NaN for log-loss, normalised entropy, Brier, AUC and GAUC, which reward knowing more as well: their best value
        is unknown. A forecast that says too little about its rows would even be "better" than if it were right
        (`expected`).
        """
        return self.expected(name) if self._metric(name).has_floor else float("nan")

    def floor_interval(self, name: str) -> Interval:
        """Where the metric of a perfect forecaster lies with the report's confidence; NaN where `floor` is."""
        draws = self._defined_draws(name) if self._metric(name).has_floor else np.zeros(0)
        if not draws.size:
            return Interval(float("nan"), float("nan"))
        tail = 0.5 * (1.0 - self.confidence)
        low, high = np.quantile(draws, [tail, 1.0 - tail])
        return Interval(float(low), float(high))

    def excess(self, name: str) -> float:
        """How much worse than a perfect forecaster, in the metric's own unit; about 0 means as good as perfect.

        Above the floor for errors, and for PCOC how much farther from 1; NaN where `floor` is.
        """
        if not self._metric(name).has_floor:
            return float("nan")
        draws, goal = self._defined_draws(name), self.metrics[name].goal
        if not draws.size:
            return float("nan")
        return goal.loss(self.value(name)) - float(np.mean([goal.loss(draw) for draw in draws]))

    @abstractmethod
    def replicates(self, name: str) -> Floats:
        """The bootstrap replicates behind `interval`, `(n_bootstrap,)`."""

    @abstractmethod
    def compute_intervals(self, names: Iterable[str] | None = None) -> None:
        """Computes the intervals of several metrics in one go, where they can be computed later."""

    @abstractmethod
    def _draws_of(self, name: str) -> Floats:
        """The metric's values on redrawn labels, or none."""

    def _defined_draws(self, name: str) -> Floats:
        self._found(name)
        draws = self._draws_of(name)
        return draws[np.isfinite(draws)]

    def _metric(self, name: str) -> AnyMetric:
        self._found(name)
        return self.metrics[name]

    def _found(self, name: str) -> Value:
        if name not in self.values:
            raise UnknownName.among("metric", name, self.names)
        return self.values[name]


@final
class Report(Tabular, MeasuredValues):
    """Values of metrics on one forecast. Intervals and floors are computed when first asked for, and kept.

    The report refers to the columns it was made from; do not change them in place afterwards.

    Arguments:
        forecast: The rows.
        metrics: Metrics by name.
        values: Their values.
        confidence: Coverage of intervals.
        n_bootstrap: Replicates behind an interval.
        n_floor: Label redraws behind a floor.
        seed: Seed of both.
    """

    def __init__(
        self,
        forecast: Forecast,
        metrics: Mapping[str, AnyMetric],
        values: Mapping[str, Value],
        *,
        confidence: float,
        n_bootstrap: int,
        n_floor: int,
        seed: int,
    ) -> None:
        self.forecast, self.n_rows = forecast, forecast.n_observed_rows
        self.metrics = dict(metrics)
        self.confidence = check_confidence(confidence)
        self.n_bootstrap = check_replicates("n_bootstrap", n_bootstrap)
        self.n_floor = check_replicates("n_floor", n_floor)
        self.seed = seed
        self.values = dict(values)
        self._replicates: dict[str, Floats] = {}
        self._draws: dict[str, Floats] = {}

    def replicates(self, name: str) -> Floats:
        """The bootstrap replicates behind `interval`, `(n_bootstrap,)`."""
        self._found(name)
        self.compute_intervals([name])
        return self._replicates.get(name, np.full(self.n_bootstrap, np.nan))

    def compute_intervals(self, names: Iterable[str] | None = None) -> None:
        """Computes the intervals of several metrics in one go; those known already are kept."""
        missing = self._missing(names, self._replicates)
        if missing:
            self._replicates.update(bootstrap(missing, self.forecast, self.n_bootstrap, self.seed))

    def compute_floors(self, names: Iterable[str] | None = None) -> None:
        """Computes the noise floors of several metrics in one go; those known already are kept."""
        with_floor = [name for name in self.names if self.metrics[name].has_floor]
        missing = self._missing(with_floor if names is None else names, self._draws)
        if missing:
            self._draws.update(noise_floor(missing, self.forecast, self.n_floor, self.seed))

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain numbers ready for JSON; undefined numbers are None and have a reason."""
        self.compute_intervals()
        self.compute_floors()
        return {
            "n_rows": self.n_rows,
            "confidence": self.confidence,
            "n_bootstrap": self.n_bootstrap,
            "n_floor": self.n_floor,
            "seed": self.seed,
            "metrics": {name: self._entry(name) for name in self.names},
        }

    def __str__(self) -> str:
        self.compute_intervals()
        self.compute_floors()
        head = ("metric", "value", f"{self.confidence:.0%} interval", "floor", "excess")
        lines = [head, *(self._line(name) for name in self.names)]
        reasons = [f"{name}: {self.reason(name)}" for name in self.names if self.reason(name)]
        return "\n".join([f"{self.n_rows:,} rows", *text_table(lines), *reasons])

    def __repr__(self) -> str:
        return f"Report of {len(self.names)} metrics on {self.n_rows:,} rows; print it for the table"

    def _columns(self) -> dict[str, list[Any]]:
        entries = self.as_dict()["metrics"]
        return {
            "metric": list(entries),
            **{
                key: [entry[key] for entry in entries.values()]
                for key in ("value", "floor", "excess", "goal", "reason")
            },
            **{
                end: [entry["interval"][place] for entry in entries.values()]
                for place, end in enumerate(("low", "high"))
            },
        }

    def _missing(self, names: Iterable[str] | None, known: Mapping[str, Floats]) -> dict[str, AnyMetric]:
        wanted = self.names if names is None else tuple(names)
        return {name: self.metrics[name] for name in wanted if name not in known and not self._found(name).reason}

    def _draws_of(self, name: str) -> Floats:
        self.compute_floors([name])
        return self._draws.get(name, np.zeros(0))

    def _entry(self, name: str) -> dict[str, Any]:
        return {
            "value": _plain(self.value(name)),
            "interval": [_plain(end) for end in self.interval(name)],
            "floor": _plain(self.floor(name)),
            "floor_interval": [_plain(end) for end in self.floor_interval(name)],
            "excess": _plain(self.excess(name)),
            "goal": self.metrics[name].goal.kind,
            "reason": "infinite" if math.isinf(self.value(name)) else self.reason(name),
            "details": {key: _plain(number) for key, number in self.details(name).items()},
        }

    def _line(self, name: str) -> tuple[str, str, str, str, str]:
        low, high = self.interval(name)
        numbers = (self.value(name), self.floor(name), self.excess(name))
        value, floor, excess = (f"{number:.5f}" if math.isfinite(number) else "–" for number in numbers)
        return name, value, f"{low:.5f} … {high:.5f}" if math.isfinite(low) else "", floor, excess


def _plain(number: float) -> float | None:
    return number if math.isfinite(number) else None


def evaluate(
    labels: ArrayLike,
    probabilities: ArrayLike,
    *,
    fields: Mapping[str, Any] | None = None,
    groups: Any | None = None,
    weights: ArrayLike | None = None,
    metrics: Sequence[str | AnyMetric] | None = None,
    sampling_rate: SamplingRate = None,
    scores_are: ScoreSpace = "probability",
    confidence: float = 0.95,
    n_bootstrap: int = 200,
    n_floor: int = 100,
    seed: int = 0,
    soft_labels: bool = False,
    units: Any | None = None,
) -> Report:
    """Measures a forecast: every metric's value at once, its interval and its noise floor when asked.

    Arguments:
        labels: 0 or 1 per row.
        probabilities: The forecast, or its logits with `scores_are="logit"`.
        fields: Columns of any values by field name; `fece` and `frce` refer to the first, `mfece` and `mfrce` to all.
        groups: A column of any values, such as users: `gauc` is computed inside groups, and intervals resample groups.
        weights: Numbers ≥ 0; weight k means the row k times.
        metrics: Names or metric objects; None means all of `METRICS`. What cannot be computed is NaN with a reason.
        sampling_rate: The share of negatives that the forecaster was trained on, when it was trained on fewer; the
            forecast is brought back to the full traffic first.
        scores_are: "probability" or "logit".
        confidence: Coverage of intervals.
        n_bootstrap: Replicates behind an interval.
        n_floor: Label redraws behind a floor.
        seed: Seed of resampling and redrawing.
        soft_labels: Labels may be any numbers in [0, 1]: q stands for q positives and 1 − q negatives.
        units: A column of any values: rows that are one observation without being a group, such as the two rows of one
            soft label.

    Example:
        A forecast that predicts a quarter too much on every row:

        >>> rng = np.random.default_rng(0)
        >>> truth = rng.uniform(0.02, 0.3, 20_000)
        >>> labels = rng.random(20_000) < truth
        >>> report = evaluate(labels, 1.25 * truth, fields={"site": rng.integers(0, 50, 20_000)})
        >>> round(report.value("pcoc"), 2), [round(end, 2) for end in report.interval("pcoc")]
        (1.25, [1.21, 1.29])
        >>> report.value("ece") > 3 * report.floor("ece")
        True
        >>> report.reason("gauc")
        'no groups were given'
    """
    chosen = chosen_metrics(metrics)
    forecast = forecast_of(
        labels,
        probabilities,
        fields=fields,
        groups=groups,
        weights=weights,
        sampling_rate=sampling_rate,
        scores_are=scores_are,
        soft_labels=soft_labels,
        units=units,
    )
    return Report(
        forecast,
        chosen,
        values_of(chosen, forecast),
        confidence=confidence,
        n_bootstrap=n_bootstrap,
        n_floor=n_floor,
        seed=seed,
    )


def forecast_of(
    labels: ArrayLike,
    probabilities: ArrayLike,
    *,
    fields: Mapping[str, Any] | None = None,
    groups: Any | None = None,
    weights: ArrayLike | None = None,
    sampling_rate: SamplingRate = None,
    scores_are: ScoreSpace = "probability",
    soft_labels: bool = False,
    units: Any | None = None,
) -> Forecast:
    """Returns checked rows of full-traffic probabilities with fields and groups as ids; arguments as in `evaluate`.

    Example:
        A forecaster that saw one negative in ten says 0.5 where 1/11 is meant.

        >>> forecast_of([0, 1], [0.5, 0.5], sampling_rate=0.1).probabilities.round(4).tolist()
        [0.0909, 0.0909]
    """
    check_score_space(scores_are)
    predicted = _full_traffic(probabilities, scores_are, sampling_rate)
    n = predicted.shape[0]
    if n == 0:
        raise InvalidInput.of(
            "probabilities", "no rows", "at least one row", "check the filter that produced the table"
        )
    columns = {name: encode_values(column, n, f"fields[{name!r}]").ids for name, column in _columns(fields).items()}
    return Forecast.of(
        labels,
        predicted,
        weights=None if weights is None else check_weights(weights, n),
        fields=columns,
        groups=None if groups is None else encode_values(groups, n, "groups").ids,
        units=None if units is None else encode_values(units, n, "units").ids,
        soft_labels=soft_labels,
    )


def chosen_metrics(metrics: Sequence[str | AnyMetric] | None) -> dict[str, AnyMetric]:
    """Returns the wanted metrics by name, or says which name is unknown or given twice.

    Example:
        >>> list(chosen_metrics(["ece", metric("cal_n", bins=5)]))
        ['ece', 'cal_n']
    """
    if isinstance(metrics, str):
        raise InvalidInput.of("metrics", repr(metrics), "a list of names", f"write [{metrics!r}]")
    chosen: dict[str, AnyMetric] = {}
    for wanted in METRICS if metrics is None else metrics:
        found = metric(wanted) if isinstance(wanted, str) else wanted
        if found.name in chosen:
            raise InvalidInput.of("metrics", f"{found.name} twice", "each metric once", "make two reports")
        chosen[found.name] = found
    return chosen


def _columns(fields: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if fields is None:
        return {}
    if not isinstance(fields, Mapping):
        raise InvalidInput.of(
            "fields", f"a {type(fields).__name__}", "columns by name", 'pass a dictionary such as {"site": column}'
        )
    return fields


def _full_traffic(scores: ArrayLike, scores_are: ScoreSpace, sampling_rate: SamplingRate) -> Floats:
    if scores_are == "logit":
        logits = to_logits(scores, "logit", "probabilities")
        return sigmoid(logits + sampling_shift(sampling_rate, logits.shape[0]))
    probabilities = check_probabilities(scores)
    if sampling_rate is None:
        return probabilities
    # the odds are multiplied directly, so that 0 and 1 stay 0 and 1
    rate = np.exp(sampling_shift(sampling_rate, probabilities.shape[0]))
    corrected: Floats = rate * probabilities / (rate * probabilities + (1.0 - probabilities))
    return corrected
