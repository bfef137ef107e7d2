"""What an evaluation on a cluster found: numbers, without access to the rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from monocal.core.errors import UnknownName
from monocal.judging.text_table import text_table
from monocal.metrics import Value


@final
@dataclass(frozen=True, eq=False)
class Measured:
    """Values of metrics on one forecast, as `monocal.judging.Report` has them, without intervals and floors.

    Those resample rows, which stay on the cluster.

    Attributes:
        n_rows: Rows that were judged.
        values: Metric to what was found.

    Example:
        >>> found = Measured(2, {"pcoc": Value(1.25), "mvce": Value.undefined("needs every row in one place")})
        >>> found.value("pcoc"), found.reason("mvce")
        (1.25, 'needs every row in one place')
    """

    n_rows: int
    values: Mapping[str, Value]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.values)

    def value(self, name: str) -> float:
        """The number; NaN when undefined, see `reason`."""
        return self._found(name).number

    def reason(self, name: str) -> str:
        """Why the number is undefined; empty when it is not."""
        return self._found(name).reason

    def details(self, name: str) -> dict[str, float]:
        """Further numbers that belong to the value, such as the `error_bound` of a sketch."""
        return dict(self._found(name).details)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain numbers ready for JSON; undefined ones are None and have a reason."""
        return {
            "n_rows": self.n_rows,
            "metrics": {
                name: {
                    "value": _plain(found.number),
                    "reason": found.reason,
                    "details": {key: _plain(number) for key, number in found.details.items()},
                }
                for name, found in self.values.items()
            },
        }

    def __repr__(self) -> str:
        lines = [
            ("metric", "value"),
            *((name, "–" if value.reason else f"{value.number:.5f}") for name, value in self.values.items()),
        ]
        reasons = [f"{name}: {value.reason}" for name, value in self.values.items() if value.reason]
        return "\n".join([f"{self.n_rows:,} rows", *text_table(lines), *reasons])

    def _found(self, name: str) -> Value:
        if name not in self.values:
            raise UnknownName.among("metric", name, self.names)
        return self.values[name]


@final
@dataclass(frozen=True, eq=False)
class ClusterEvaluation:
    """All tasks of a table.

    Attributes:
        tasks: Task to what was found by stage: "before" calibration and, with a model, "after" it.
    """

    tasks: Mapping[str, Mapping[str, Measured]]

    def as_dict(self) -> dict[str, Any]:
        return {
            "tasks": {
                task: {stage: found.as_dict() for stage, found in stages.items()} for task, stages in self.tasks.items()
            }
        }


def _plain(number: float) -> float | None:
    return number if math.isfinite(number) else None
