"""Is the second forecast better than the first on the same rows, or can the data not tell?"""

from __future__ import annotations

from typing import Any, Literal, final

import numpy as np

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.goals import Goal
from monocal.core.numbers import significant
from monocal.judging.measured_values import MeasuredValues
from monocal.judging.report import Report
from monocal.judging.text_table import text_table
from monocal.metrics import Interval, centred_interval
from monocal.tables.tabular import Tabular

Verdict = Literal["better", "worse", "tie"]

MARGIN = 1e-4
"""Differences below a hundredth of a percent are ties however many rows prove them: nobody would pay for one."""


def compare(first: Report, second: Report, *, margin: float = MARGIN) -> Comparison:
    """Compares two reports on the same rows, resampling both in the same way.

    Both forecasts see the same resampled rows (or users, where groups were given), so what they have in common cancels
    and small differences become visible. Nothing is computed before it is asked for.

    Arguments:
        first: The reference, such as the uncalibrated forecast.
        second: The challenger.
        margin: Differences below this share of the first value are ties; of PCOC, below this distance.

    Example:
        >>> from monocal.judging import evaluate
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.uniform(0.02, 0.3, 20_000)
        >>> labels = rng.random(20_000) < truth
        >>> result = compare(evaluate(labels, 1.1 * truth), evaluate(labels, truth))
        >>> result.verdict("log_loss"), result.verdict("auc"), result.told("pcoc")
        ('better', 'tie', 'better by 0.0932')
    """
    _check_same_rows(first, second)
    if not 0.0 <= margin < 1.0:
        raise InvalidInput.of("margin", margin, "a share in [0, 1)", f"leave it out to use {MARGIN:g}")
    return Comparison(first, second, margin)


@final
class Comparison(Tabular):
    """Paired differences between two forecasts: second minus first.

    For PCOC, whose ideal is 1, the difference is that of the distances from 1: negative is nearer.

    Attributes:
        first: Report of the reference.
        second: Report of the challenger.
        margin: Share of the first value below which a difference is a tie.
        names: Metrics that both reports hold with the same options.
    """

    def __init__(self, first: MeasuredValues, second: MeasuredValues, margin: float = MARGIN) -> None:
        self.first, self.second, self.margin = first, second, margin
        self.names = tuple(name for name in first.names if first.metrics[name] == second.metrics.get(name))

    def difference(self, name: str) -> float:
        """The second value minus the first, for PCOC as distances from 1; NaN when either is undefined."""
        return float(self._distance(name, self.second.value(name)) - self._distance(name, self.first.value(name)))

    def interval(self, name: str) -> Interval:
        """Bootstrap interval of the difference."""
        first, second = (self._distance(name, report.replicates(name)) for report in (self.first, self.second))
        return centred_interval(self.difference(name), second - first, self.first.confidence)

    def size(self, name: str) -> float:
        """The difference as a share of the first value; of PCOC, the difference itself."""
        value = self.first.value(name)
        scale = 1.0 if self._is_ratio(name) else abs(value)
        return self.difference(name) / scale if scale > 0.0 else float("nan")

    def verdict(self, name: str) -> Verdict:
        """What the second is, judged by the metric's goal.

        "tie" unless the paired interval excludes equality and the difference is larger than the margin. Metrics are
        judged one by one: among twenty verdicts at 95 % one may be chance.
        """
        low, high = self.interval(name)
        if not (high < 0.0 or low > 0.0) or abs(self.size(name)) < self.margin:
            return "tie"
        return "better" if (high < 0.0) != (self._goal(name).kind == "maximize") else "worse"

    def told(self, name: str) -> str:
        """The verdict with the size of the difference, such as "better by 12.3 %"."""
        verdict, size = self.verdict(name), abs(self.size(name))
        if verdict == "tie":
            return "tie"
        return f"{verdict} by " + (significant(size) if self._is_ratio(name) else f"{significant(100.0 * size)} %")

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """Returns differences, intervals and verdicts of all metrics that are defined for both."""
        self.first.compute_intervals(self.names)
        self.second.compute_intervals(self.names)
        return {
            name: {
                "first": self.first.value(name),
                "second": self.second.value(name),
                "difference": self.difference(name),
                "interval": list(self.interval(name)),
                "size": self.size(name),
                "verdict": self.verdict(name),
            }
            for name in self.names
            if np.isfinite(self.difference(name))
        }

    def __str__(self) -> str:
        head = ("metric", "first", "second", "difference", f"{self.first.confidence:.0%} interval", "second is")
        lines = [head]
        for name, entry in self.as_dict().items():
            low, high = entry["interval"]
            numbers = (f"{entry['first']:.5f}", f"{entry['second']:.5f}", f"{entry['difference']:+.5f}")
            lines.append((name, *numbers, f"{low:+.5f} … {high:+.5f}", self.told(name)))
        return "\n".join(text_table(lines))

    def __repr__(self) -> str:
        return f"Comparison of {len(self.names)} metrics on {self.first.n_rows:,} rows; print it for the table"

    def _columns(self) -> dict[str, list[Any]]:
        entries = self.as_dict()
        keys = ("first", "second", "difference", "size", "verdict")
        return {
            "metric": list(entries),
            **{key: [entry[key] for entry in entries.values()] for key in keys},
            **{
                end: [entry["interval"][place] for entry in entries.values()]
                for place, end in enumerate(("low", "high"))
            },
        }

    def _goal(self, name: str) -> Goal:
        if name not in self.names:
            raise UnknownName.among("metric", name, self.names)
        return self.first.metrics[name].goal

    def _distance(self, name: str, values: Any) -> Any:
        return np.abs(values - self._goal(name).target) if self._is_ratio(name) else values

    def _is_ratio(self, name: str) -> bool:
        return self._goal(name).kind == "toward"


def _check_same_rows(first: Report, second: Report) -> None:
    if (first.seed, first.n_bootstrap) != (second.seed, second.n_bootstrap):
        raise InvalidInput.of(
            "second",
            f"seed {second.seed} and n_bootstrap {second.n_bootstrap}",
            f"those of the first report ({first.seed} and {first.n_bootstrap})",
            "evaluate both with the same seed and n_bootstrap, so that they are resampled alike",
        )
    for column in ("labels", "weights", "groups"):
        a, b = getattr(first.forecast, column), getattr(second.forecast, column)
        if a is not b and not (a is not None and b is not None and np.array_equal(a, b)):
            raise InvalidInput.of(
                "second",
                f"a report with other {column}",
                "two forecasts of the same rows",
                f"evaluate both with the same {column}, in the same order",
            )
