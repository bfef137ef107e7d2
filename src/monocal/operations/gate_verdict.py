"""What a gate found: for programs, for people, and whether to go on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, final

from monocal.judging.paired import PairedLosses
from monocal.tables.late_labels import LateLabels

Verdict = Literal["better", "tie", "worse"]


@final
@dataclass(frozen=True)
class Judged:
    """A paired comparison on all rows or on a segment.

    Attributes:
        verdict: What the new model is. On all rows: "tie" unless the interval excludes equality. In a segment: "worse"
            if more harm than is tolerated was shown, "better" if any gain was, both with the false discovery rate held.
        rows: Rows, counted with their weights.
        old: Log-loss of the old model.
        new: Log-loss of the new model.
        difference: New minus old.
        low: Lower end of its interval.
        high: Upper end; NaN like the lower one if a single observation has none.
    """

    verdict: Verdict
    rows: float
    old: float
    new: float
    difference: float
    low: float
    high: float

    @classmethod
    def of(cls, found: PairedLosses, place: int, confidence: float, verdict: Verdict | None = None) -> Judged:
        low, high = (float(end[place]) for end in found.interval(confidence))
        shown: Verdict = verdict or ("better" if high < 0.0 else "worse" if low > 0.0 else "tie")
        columns = (found.weight, found.first, found.second, found.difference)
        rows, old, new, difference = (float(column[place]) for column in columns)
        return cls(shown, rows, old, new, difference, low, high)


@final
@dataclass(frozen=True)
class Segment:
    """One value of a guarded column."""

    column: str
    value: str
    judged: Judged


@final
@dataclass(frozen=True)
class TaskVerdict:
    """One task.

    Attributes:
        overall: On all rows.
        tolerated: The increase of log-loss that is tolerated.
        rows_needed: Observations (rows, or groups if there are groups) that would exclude more than that if the
            models are equally good, four times in five.
        pcoc: Predicted over observed positives of the old and the new model.
        segments: Every value that was judged.
    """

    overall: Judged
    tolerated: float
    rows_needed: int
    pcoc: tuple[float, float]
    segments: tuple[Segment, ...]

    @property
    def excludes_harm(self) -> bool:
        """Whether more harm than is tolerated is excluded on all rows."""
        return self.overall.high <= self.tolerated

    @property
    def shows_harm(self) -> bool:
        """Whether more harm than is tolerated is shown on all rows."""
        return self.overall.low > self.tolerated

    @property
    def worse(self) -> tuple[Segment, ...]:
        """Segments in which more harm than is tolerated was shown."""
        return tuple(segment for segment in self.segments if segment.judged.verdict == "worse")

    @property
    def passed(self) -> bool:
        return self.excludes_harm and not self.worse


@final
@dataclass(frozen=True)
class GateVerdict:
    """Everything a gate found.

    Attributes:
        tasks: Task to what was found.
        n_rows: Rows that judged.
        max_harm: The tolerated share.
        confidence: Of intervals; 1 − confidence is the false discovery rate of segments.
        by_groups: Whether groups, not rows, were the observations.
        old: Fingerprint of the old model.
        new: Of the new one.
        late_labels: How mature the rows are, if labels may still come.
    """

    tasks: dict[str, TaskVerdict]
    n_rows: int
    max_harm: float
    confidence: float
    by_groups: bool
    old: str
    new: str
    late_labels: LateLabels | None = None

    @property
    def passed(self) -> bool:
        """Whether the new model may replace the old one."""
        return all(verdict.passed for verdict in self.tasks.values())

    def reasons(self) -> list[str]:
        """Returns one sentence per task that says why it passes or does not."""
        return [f"{name}: {self._reason(verdict)}" for name, verdict in self.tasks.items()]

    def as_dict(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "reasons": self.reasons(),
            "n_rows": self.n_rows,
            "max_harm": self.max_harm,
            "confidence": self.confidence,
            "old": self.old,
            "new": self.new,
            **({} if self.late_labels is None else {"late_labels": self.late_labels.as_dict()}),
            "tasks": {
                name: {
                    "passed": verdict.passed,
                    **asdict(verdict.overall),
                    "tolerated": verdict.tolerated,
                    "rows_needed": verdict.rows_needed,
                    "pcoc": {"old": verdict.pcoc[0], "new": verdict.pcoc[1]},
                    "segments": [
                        {"column": part.column, "value": part.value, **asdict(part.judged)} for part in verdict.segments
                    ],
                }
                for name, verdict in self.tasks.items()
            },
        }

    def __str__(self) -> str:
        maturity = [] if self.late_labels is None else [str(self.late_labels)]
        return "\n".join(["passed" if self.passed else "not passed", *self.reasons(), *maturity])

    def _reason(self, verdict: TaskVerdict) -> str:
        found = verdict.overall
        change = (
            f"log-loss {found.old:.5f} -> {found.new:.5f} ({found.difference:+.5f}, {self.confidence:.0%} interval "
        )
        change += f"{found.low:+.5f} … {found.high:+.5f}; tolerated {verdict.tolerated:+.5f})"
        if verdict.shows_harm:
            return f"worse: {change}"
        if not verdict.excludes_harm:
            units = "groups" if self.by_groups else "rows"
            return f"too few rows to exclude harm, about {verdict.rows_needed:,} {units} are needed: {change}"
        if verdict.worse:
            worst = max(verdict.worse, key=lambda part: part.judged.difference * part.judged.rows)
            more = f" and {len(verdict.worse) - 1} more" if len(verdict.worse) > 1 else ""
            return f"worse where {worst.column} is {worst.value}{more}: {change}"
        return f"{found.verdict}: {change}"
