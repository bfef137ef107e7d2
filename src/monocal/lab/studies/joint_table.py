"""The tables of the study `joint`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from monocal.core.spaces import Floats
from monocal.lab.studies.joint_logs import JointLog
from monocal.metrics import METRICS
from monocal.metrics.base import minimize

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
