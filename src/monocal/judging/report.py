"""What an evaluation found: numbers with their intervals and noise floors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, final

import numpy as np

from monocal.core.errors import UnknownName
from monocal.core.spaces import Floats
from monocal.judging.text_table import text_table
from monocal.metrics import AnyMetric, Forecast, Interval, Value, bootstrap, centred_interval, noise_floor
from monocal.metrics.intervals import check_confidence, check_replicates


@final
class Report:
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
        self.forecast = forecast
        self.metrics = dict(metrics)
        self.confidence = check_confidence(confidence)
        self.n_bootstrap = check_replicates("n_bootstrap", n_bootstrap)
        self.n_floor = check_replicates("n_floor", n_floor)
        self.seed = seed
        self._values = dict(values)
        self._replicates: dict[str, Floats] = {}
        self._draws: dict[str, Floats] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics, in order."""
        return tuple(self.metrics)

    @property
    def n_rows(self) -> int:
        return self.forecast.n_rows

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

    def floor(self, name: str) -> float:
        """The metric's mean for a perfect forecaster: labels redrawn from these predictions."""
        draws = self._defined_draws(name)
        return float(draws.mean()) if draws.size else float("nan")

    def floor_interval(self, name: str) -> Interval:
        """Where the metric of a perfect forecaster lies with the report's confidence."""
        draws = self._defined_draws(name)
        if not draws.size:
            return Interval(float("nan"), float("nan"))
        tail = 0.5 * (1.0 - self.confidence)
        low, high = np.quantile(draws, [tail, 1.0 - tail])
        return Interval(float(low), float(high))

    def excess(self, name: str) -> float:
        """How much worse than a perfect forecaster, in the metric's own unit; about 0 means as good as perfect.

        Worse is counted by the metric's goal: above the floor for errors, below it for AUC, and for PCOC how much
        farther from 1.
        """
        draws, goal = self._defined_draws(name), self.metrics[name].goal
        if not draws.size:
            return float("nan")
        return goal.loss(self.value(name)) - float(np.mean([goal.loss(draw) for draw in draws]))

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
        missing = self._missing(names, self._draws)
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
        return repr(self)

    def __repr__(self) -> str:
        """A table of what is known so far; `print(report)` computes intervals and floors first."""
        head = ("metric", "value", f"{self.confidence:.0%} interval", "floor", "excess")
        lines = [head, *(self._line(name) for name in self.names)]
        reasons = [f"{name}: {self.reason(name)}" for name in self.names if self.reason(name)]
        return "\n".join([f"{self.n_rows:,} rows", *text_table(lines), *reasons])

    def _found(self, name: str) -> Value:
        if name not in self._values:
            raise UnknownName.among("metric", name, self.names)
        return self._values[name]

    def _missing(self, names: Iterable[str] | None, known: Mapping[str, Floats]) -> dict[str, AnyMetric]:
        wanted = self.names if names is None else tuple(names)
        return {name: self.metrics[name] for name in wanted if name not in known and not self._found(name).reason}

    def _defined_draws(self, name: str) -> Floats:
        self._found(name)
        self.compute_floors([name])
        draws = self._draws.get(name, np.zeros(0))
        return draws[np.isfinite(draws)]

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
        interval = floor = excess = ""
        if name in self._replicates:
            interval = f"{self.interval(name).low:.5f} … {self.interval(name).high:.5f}"
        if name in self._draws:
            floor, excess = f"{self.floor(name):.5f}", f"{self.excess(name):+.5f}"
        return name, "–" if self.reason(name) else f"{self.value(name):.5f}", interval, floor, excess


def _plain(number: float) -> float | None:
    return number if math.isfinite(number) else None
