"""What a gate found: for programs, for people, and whether to go on."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, final

from monocal.judging.paired import PairedLosses
from monocal.tables.late_labels import LateLabels

Verdict = Literal["better", "tie", "slightly worse", "worse", "cannot tell"]


class Outcome(NamedTuple):
    """What an interval says.

    Attributes:
        verdict: What the new model is.
        passes: Whether more harm than is tolerated is excluded.
        words: The verdict in words.
    """

    verdict: Verdict
    passes: bool
    words: str


def outcome(low: float, high: float, tolerated: float) -> Outcome:
    """Returns what the interval of a difference of log-loss, new minus old, says about the new model.

    Arguments:
        low: Lower end of the interval.
        high: Upper end; NaN like the lower one if there is no interval.
        tolerated: The increase that is tolerated, above 0.

    Example:
        >>> for low, high in ((-0.3, -0.1), (-0.1, 0.1), (0.1, 0.2), (0.1, 0.3), (0.3, 0.4), (-0.1, 0.3)):
        ...     print(*outcome(low, high, tolerated=0.2), sep="; ")
        better; True; better
        tie; True; tie
        slightly worse; True; slightly worse, within what is tolerated
        worse; False; worse, and more harm than is tolerated cannot be excluded
        worse; False; worse by more than is tolerated
        cannot tell; False; too few rows to exclude harm
    """
    if math.isnan(low) or math.isnan(high):
        return Outcome("cannot tell", False, "no interval from a single observation")
    if high < 0.0:
        return Outcome("better", True, "better")
    if low > tolerated:
        return Outcome("worse", False, "worse by more than is tolerated")
    if low > 0.0 and high > tolerated:
        return Outcome("worse", False, "worse, and more harm than is tolerated cannot be excluded")
    if low > 0.0:
        return Outcome("slightly worse", True, "slightly worse, within what is tolerated")
    if high <= tolerated:
        return Outcome("tie", True, "tie")
    return Outcome("cannot tell", False, "too few rows to exclude harm")


@final
@dataclass(frozen=True)
class Judged:
    """A paired comparison on all rows or on a segment.

    Attributes:
        verdict: What the new model is. On all rows, see `outcome`. In a segment: "worse" if more harm than is tolerated
            was shown, "better" if any gain was, both with the false discovery rate held; else "tie".
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
    def of(cls, found: PairedLosses, place: int, confidence: float, verdict: Verdict) -> Judged:
        low, high = (float(end[place]) for end in found.interval(confidence))
        columns = (found.weight, found.first, found.second, found.difference)
        rows, old, new, difference = (float(column[place]) for column in columns)
        return cls(verdict, rows, old, new, difference, low, high)


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
        rows_needed: Observations (rows, or groups if there are groups) that would decide, four times in five, whether
            more than that is excluded, or the new model shown to be worse.
        pcoc: Predicted over observed positives of the old and the new model.
        segments: Every value that was judged.
    """

    overall: Judged
    tolerated: float
    rows_needed: int
    pcoc: tuple[float, float]
    segments: tuple[Segment, ...]

    @property
    def outcome(self) -> Outcome:
        """What the interval on all rows says."""
        return outcome(self.overall.low, self.overall.high, self.tolerated)

    @property
    def worse(self) -> tuple[Segment, ...]:
        """Segments in which more harm than is tolerated was shown."""
        return tuple(segment for segment in self.segments if segment.judged.verdict == "worse")

    @property
    def passed(self) -> bool:
        return self.outcome.passes and not self.worse


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
        words = verdict.outcome.words
        if verdict.worse and verdict.overall.verdict != "worse":
            worst = max(verdict.worse, key=lambda part: part.judged.difference * part.judged.rows)
            more = f" and {len(verdict.worse) - 1} more" if len(verdict.worse) > 1 else ""
            words = f"worse where {worst.column} is {worst.value}{more}"
        elif verdict.overall.verdict == "cannot tell" and verdict.rows_needed:
            words += f", about {verdict.rows_needed:,} {'groups' if self.by_groups else 'rows'} are needed"
        return f"{words}: {change}"
