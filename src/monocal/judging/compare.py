"""Is the second forecast better than the first on the same rows, or can the data not tell?"""

from __future__ import annotations

from typing import Any, Literal, final

import numpy as np

from monocal.core.errors import InvalidInput, UnknownName
from monocal.judging.report import Report
from monocal.judging.text_table import text_table
from monocal.metrics import Interval, centred_interval

Verdict = Literal["better", "worse", "tie"]


def compare(first: Report, second: Report) -> Comparison:
    """Compares two reports on the same rows, resampling both in the same way.

    Both forecasts see the same resampled rows (or users, where groups were given), so what they have in common cancels
    and small differences become visible. Nothing is computed before it is asked for.

    Arguments:
        first: The reference, such as the uncalibrated forecast.
        second: The challenger.

    Example:
        >>> from monocal.judging import evaluate
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.uniform(0.02, 0.3, 20_000)
        >>> labels = rng.random(20_000) < truth
        >>> result = compare(evaluate(labels, 1.1 * truth), evaluate(labels, truth))
        >>> result.verdict("log_loss"), result.verdict("auc")
        ('better', 'tie')
    """
    _check_same_rows(first, second)
    return Comparison(first, second)


@final
class Comparison:
    """Paired differences between two forecasts: second minus first.

    Attributes:
        first: Report of the reference.
        second: Report of the challenger.
        names: Metrics that both reports hold with the same options.
    """

    def __init__(self, first: Report, second: Report) -> None:
        self.first, self.second = first, second
        self.names = tuple(name for name in first.names if first.metrics[name] == second.metrics.get(name))

    def difference(self, name: str) -> float:
        """The second value minus the first; NaN when either is undefined."""
        self._check(name)
        return self.second.value(name) - self.first.value(name)

    def interval(self, name: str) -> Interval:
        """Bootstrap interval of the difference."""
        self._check(name)
        replicates = self.second.replicates(name) - self.first.replicates(name)
        return centred_interval(self.difference(name), replicates, self.first.confidence)

    def verdict(self, name: str) -> Verdict:
        """What the second is, judged by the metric's goal: "tie" unless the paired interval excludes equality.

        For PCOC, whose ideal is 1, distances from 1 are compared. Metrics are judged one by one: among twenty verdicts
        at 95 % one may be chance.
        """
        self._check(name)
        loss = np.vectorize(self.first.metrics[name].goal.loss, otypes=[np.float64])
        change = loss(self.second.value(name)) - loss(self.first.value(name))
        replicates = loss(self.second.replicates(name)) - loss(self.first.replicates(name))
        low, high = centred_interval(float(change), replicates, self.first.confidence)
        if high < 0.0:
            return "better"
        return "worse" if low > 0.0 else "tie"

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
            lines.append((name, *numbers, f"{low:+.5f} … {high:+.5f}", entry["verdict"]))
        return "\n".join(text_table(lines))

    def __repr__(self) -> str:
        return f"Comparison of {len(self.names)} metrics on {self.first.n_rows:,} rows; print it for the table"

    def _check(self, name: str) -> None:
        if name not in self.names:
            raise UnknownName.among("metric", name, self.names)


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
