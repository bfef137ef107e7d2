"""What an evaluation found: numbers with their intervals and noise floors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, final

import numpy as np

from monocal.core.spaces import Floats
from monocal.judging.measured_values import MeasuredValues
from monocal.judging.text_table import text_table
from monocal.metrics import AnyMetric, Forecast, Value, bootstrap, noise_floor
from monocal.metrics.intervals import check_confidence, check_replicates
from monocal.tables.tabular import Tabular


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
