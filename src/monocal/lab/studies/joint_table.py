"""The tables of the study `joint`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from monocal.core.spaces import Floats
from monocal.lab.studies.joint_logs import JointLog
from monocal.metrics import METRICS

_DIGITS = {"log_loss": 5}


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


def joint_markdown(
    name: str,
    question: str,
    tables: Sequence[tuple[JointLog, Sequence[JointRow]]],
    missing: Mapping[str, str],
    metrics: Sequence[str],
) -> str:
    """Returns the study's tables as Markdown."""
    lines = [f"# Study `{name}`", "", question, ""]
    for spec, rows in tables:
        first = rows[0]
        lines += [f"## {spec.name}", "", f"Lists by {', '.join(spec.group)}. {spec.note}".strip(), ""]
        lines += ["| loss | then | " + " | ".join(_head(metric) for metric in metrics) + " |"]
        lines += ["|" + " --- |" * (len(metrics) + 2)]
        for row in rows:
            cells = [_cell(row, first, metric) for metric in metrics]
            lines.append(f"| {row.loss} | {row.method} | " + " | ".join(cells) + " |")
        lines += [
            "",
            f"▲ better, ▼ worse than {first.loss} with {first.method}: the 95 % interval of the paired difference, by "
            f"bootstrap over lists ({len(first.replicates[metrics[0]])} replicates), excludes 0. In brackets: what a "
            "perfect forecast would score on these rows.",
            "",
        ]
    lines += [f"{one}: not run ({reason})." for one, reason in missing.items()]
    return "\n".join(lines) + "\n"


def paired(row: JointRow, other: JointRow, metric: str) -> tuple[float, float, float]:
    """Returns the difference of a metric between two rows of a table, and its 95 % interval."""
    low, high = np.quantile(row.replicates[metric] - other.replicates[metric], [0.025, 0.975])
    return row.values[metric] - other.values[metric], float(low), float(high)


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
    is_better = METRICS[metric].goal.is_better(1.0 if low > 0.0 else 0.0, than=0.0 if low > 0.0 else 1.0)
    return f"{text} {'▲' if is_better else '▼'}"


def _head(metric: str) -> str:
    return {"ndcg": "NDCG@10", "log_loss": "log-loss"}.get(metric, metric.upper())
