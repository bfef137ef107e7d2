"""Values of metrics, and what resampled rows and redrawn labels say about them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

import numpy as np

from monocal.core.errors import UnknownName
from monocal.core.spaces import Floats
from monocal.metrics import AnyMetric, Interval, Value, centred_interval


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
