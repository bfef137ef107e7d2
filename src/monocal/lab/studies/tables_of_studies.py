"""The tables of the studies joint and refresh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from scipy.stats import t as student

from monocal.core.scores import Floats
from monocal.metrics import METRICS
from monocal.metrics.base import minimize

if TYPE_CHECKING:
    from monocal.lab.studies.joint import JointLog


KL = "kl_to_truth"
"""The mean divergence from true probabilities, where somebody knows them."""

_DIGITS = {"log_loss": 5, KL: 5}
_HEADS = {"ndcg": "NDCG@10", "log_loss": "log-loss", KL: "KL to the truth"}


@final
@dataclass(frozen=True, eq=False)
class JointRow:
    """One loss with one calibrator on one log.

    Attributes:
        loss: The loss's name.
        method: The calibrator.
        values: Metric to its value on the test rows.
        replicates: Metric to its values in bootstrap replicates that all rows of a table share.
        floors: Metric to what a perfect forecast would score, mean over redrawn labels.
    """

    loss: str
    method: str
    values: Mapping[str, float]
    replicates: Mapping[str, Floats]
    floors: Mapping[str, float]


@final
@dataclass(frozen=True, eq=False)
class JointTable:
    """All rows of one log with one seed; the first is plain log-loss without a calibrator.

    Attributes:
        log: The log.
        seed: The seed.
        rows: Losses × calibrators.
    """

    log: JointLog
    seed: int
    rows: Sequence[JointRow]

    def markdown(self, metrics: Sequence[str]) -> list[str]:
        """Returns the lines of the table, with its legend."""
        first = self.rows[0]
        shown = [*metrics, *([KL] if KL in first.values else [])]
        found = {(row.loss, row.method): row for row in self.rows}
        heads = ["loss", "then", *(_HEADS.get(metric, metric.upper()) for metric in shown)]
        heads += ["log-loss minus the loss alone", "log-loss minus log-loss, then the same"]
        lines = [f"## {self.log.name}, seed {self.seed}", ""]
        lines += [f"Lists by {', '.join(self.log.group)}. {self.log.note}".strip(), ""]
        lines += ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
        for row in self.rows:
            cells = [row.loss, row.method, *(_cell(row, first, metric) for metric in shown)]
            cells += [_change(row, found[other]) for other in ((row.loss, first.method), (first.loss, row.method))]
            lines.append("| " + " | ".join(cells) + " |")
        return [
            *lines,
            "",
            f"▲ better, ▼ worse than {first.loss} with {first.method}: the 95 % interval of the paired difference, by "
            f"bootstrap over lists ({len(first.replicates[metrics[0]])} replicates), excludes 0. In brackets: what a "
            "perfect forecast would score on these rows. The last two columns: paired differences with their 95 % "
            "intervals, by the same bootstrap.",
            "",
        ]


def joint_markdown(
    name: str, question: str, tables: Sequence[JointTable], missing: Mapping[str, str], metrics: Sequence[str]
) -> str:
    """Returns the study's tables as Markdown."""
    lines = [f"# Study `{name}`", "", question, ""]
    for table in tables:
        lines += table.markdown(metrics)
    lines += [f"{log}: not run ({reason})." for log, reason in missing.items()]
    return "\n".join(lines) + "\n"


def paired(row: JointRow, other: JointRow, metric: str) -> tuple[float, float, float]:
    """Returns the difference of a metric between two rows of a table, and its 95 % interval."""
    low, high = np.quantile(row.replicates[metric] - other.replicates[metric], [0.025, 0.975])
    return row.values[metric] - other.values[metric], float(low), float(high)


def _change(row: JointRow, other: JointRow) -> str:
    if row is other:
        return ""
    change, low, high = paired(row, other, "log_loss")
    return f"{change:+.5f} ({low:+.5f} to {high:+.5f})"


def _cell(row: JointRow, first: JointRow, metric: str) -> str:
    digits = _DIGITS.get(metric, 4)
    if np.isnan(row.values[metric]):
        return "–"
    text = f"{row.values[metric]:.{digits}f}"
    if np.isfinite(row.floors.get(metric, np.nan)):
        text += f" ({row.floors[metric]:.{digits}f})"
    _, low, high = paired(row, first, metric)
    if not (low > 0.0 or high < 0.0):
        return text
    has_risen = low > 0.0
    goal = minimize if metric == KL else METRICS[metric].goal
    is_better = goal.is_better(float(has_risen), than=float(not has_risen))
    return f"{text} {'▲' if is_better else '▼'}"


_HEAD = ("log-loss", "minus {}", "mean of PCOC − 1, absolute", "minus {}")


@final
@dataclass(frozen=True, eq=False)
class WalkedWay:
    """One way of keeping one method up to date, through one log.

    Attributes:
        name: Method and way.
        losses: Mean log-loss of every step, with labels in time and with labels that come a step late, `(2, steps)`.
        off: Distance of PCOC from 1, likewise.
        cpu_seconds: Of one update.
    """

    name: str
    losses: Floats
    off: Floats
    cpu_seconds: float


def refresh_table(ways: Sequence[WalkedWay], reference: str, truth: Floats | None) -> list[str]:
    """Returns the lines of one log's table; the reference is a way by name.

    Intervals are Student's over steps, because rows of one step share its shocks.
    """
    ours = next(way for way in ways if way.name == reference)
    head = [text.format(reference) for text in _HEAD]
    lines = [f"| way | {' | '.join(head)} | labels a step late: {' | '.join(head)} | CPU s per update |"]
    lines.append("|" + " --- |" * 10)
    for way in ways:
        cells = []
        for late in (0, 1):
            for values, base, digits in ((way.losses, ours.losses, 5), (way.off, ours.off, 3)):
                mean, half = mean_and_half_width(values[late] - base[late])
                cells += [f"{values[late].mean():.{digits}f}", f"{mean:+.{digits}f} ± {half:.{digits}f}"]
        lines.append(f"| {way.name} | {' | '.join(cells)} | {way.cpu_seconds:.2f} |")
    if truth is not None:
        lines.append(f"| the truth | {truth.mean():.5f} |" + " |" * 8)
    return lines


def mean_and_half_width(differences: Floats) -> tuple[float, float]:
    """Returns the mean of differences and half of its 95 % interval.

    Example:
        >>> mean, half = mean_and_half_width(np.array([1.0, 2.0, 3.0]))
        >>> mean, round(half, 2)
        (2.0, 2.48)
    """
    n = differences.size
    half = student.ppf(0.975, n - 1) * differences.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
    return float(differences.mean()), float(half)


def refresh_markdown(name: str, question: str, tables: Mapping[str, Sequence[str]], missing: Mapping[str, str]) -> str:
    """Returns the study's tables as Markdown."""
    lines = [f"# Study `{name}`", "", question, ""]
    for log, table in tables.items():
        lines += [f"## {log}", "", *table, ""]
    lines += ["Differences with 95 % intervals over steps (Student): rows of one step share its shocks.", ""]
    lines += [f"{name}: not run ({reason})." for name, reason in missing.items()]
    return "\n".join(lines) + "\n"
