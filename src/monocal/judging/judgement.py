"""The same rows before and after calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

from monocal.judging.compare import Comparison, compare
from monocal.judging.report import Report

HEADLINE_METRICS = ("log_loss", "auc", "gauc", "pcoc", "ece", "frce", "mfrce")
"""What is shown unless other metrics are asked for: discrimination, global bias, calibration, calibration by field."""


@final
@dataclass(frozen=True, eq=False)
class Judgement:
    """What a calibration did to one task.

    Attributes:
        before: Report of the ranker's own score (after the sampling correction, if there is a rate).
        after: Report of the calibrated probability; None if there is no calibrator to judge.
    """

    before: Report
    after: Report | None = None

    @property
    def last(self) -> Report:
        """The calibrated report if there is one, else the uncalibrated."""
        return self.before if self.after is None else self.after

    @cached_property
    def change(self) -> Comparison | None:
        """Paired differences, calibrated minus uncalibrated; None if there is one report only."""
        if self.after is None:
            return None
        return compare(self.before, self.after)

    def as_dict(self) -> dict[str, Any]:
        """Returns both reports and their comparison as plain numbers."""
        found: dict[str, Any] = {"before": self.before.as_dict()}
        if self.after is not None:
            found["after"] = self.after.as_dict()
        if self.change is not None:
            found["change"] = self.change.as_dict()
        return found


def judgement_columns(tasks: Mapping[str, Judgement]) -> dict[str, list[Any]]:
    """Returns the metrics of several tasks as columns: before, after, and their difference with its verdict.

    Arguments:
        tasks: Task to its judgement.
    """
    keys = ("task", "metric", "before", "after", "difference", "low", "high", "verdict")
    rows = []
    for task, judgement in tasks.items():
        changes = {} if judgement.change is None else judgement.change.as_dict()
        for name in judgement.before.names:
            change = changes.get(name, {})
            low, high = change.get("interval", (None, None))
            after = None if judgement.after is None else judgement.after.value(name)
            difference = (change.get("difference"), low, high, change.get("verdict"))
            rows.append((task, name, judgement.before.value(name), after, *difference))
    return {key: list(column) for key, column in zip(keys, zip(*rows, strict=True), strict=True)} if rows else {}


def headline_metrics(*, has_fields: bool, has_groups: bool) -> list[str]:
    """Returns the headline metrics that can be computed.

    Example:
        >>> headline_metrics(has_fields=False, has_groups=False)
        ['log_loss', 'auc', 'pcoc', 'ece']
    """
    needs = {"gauc": has_groups, "frce": has_fields, "mfrce": has_fields}
    return [name for name in HEADLINE_METRICS if needs.get(name, True)]
