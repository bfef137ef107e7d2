"""The metric table."""

from __future__ import annotations

import math

from monocal.core.numbers import decimals, measured, percent, span
from monocal.evaluation.compare import MARGIN
from monocal.findings.metric_table import MetricRow, MetricSide
from monocal.findings.report_data import TaskReport
from monocal.report.page.elements import Cell, Column, Row, badge, details, number, section, table, text

TITLES = {
    "log_loss": ("Log-loss", "mean negative log-likelihood in nats; a proper scoring rule"),
    "ne": ("Normalised entropy", "log-loss divided by that of always predicting the average rate"),
    "brier": ("Brier score", "mean squared distance between forecast and outcome"),
    "pcoc": ("PCOC", "predicted over observed positives; 1 is ideal"),
    "ece": ("ECE", "mean gap between prediction and outcome over 100 bins of equal width"),
    "adaptive_ece": ("Adaptive ECE", "the same over bins of equal mass"),
    "smooth_ece": ("Smooth ECE", "calibration error without bins"),
    "rce": ("RCE", "mean relative gap over bins of equal width"),
    "cal_n": ("Cal-N", "root mean square of PCOC's distance from 1 over bins of equal mass"),
    "mce": ("MCE", "largest gap of any bin"),
    "mvce": ("MVCE", "gap over many random cuts of the rows"),
    "fece": ("FECE", "mean gap over the values of the first field"),
    "mfece": ("MFECE", "FECE averaged over all fields"),
    "frce": ("FRCE", "mean relative gap over the values of the first field"),
    "mfrce": ("MFRCE", "FRCE averaged over all fields"),
    "auc": ("AUC", "probability that a positive is ranked above a negative"),
    "gauc": ("GAUC", "AUC inside groups, averaged"),
    "ndcg": ("NDCG@10", "how early the positives of a group come among its first ten rows"),
}
"""How each metric is called and what it says, in reading order."""

_MAIN = ("log_loss", "pcoc", "ece", "mfrce", "frce", "auc", "gauc")
_MOODS = {"better": "good", "worse": "bad", "tie": "neutral", "cannot tell": "neutral"}

_COLUMNS = (
    Column("Metric", numeric=False),
    Column("Before", "uncalibrated, with its interval"),
    Column("After", "calibrated, with its interval"),
    Column("Noise floor", "what a perfect forecast would score on this many rows, where that is known"),
    Column("Change", "after minus before, of PCOC in the distance from 1, with its paired interval", wide_only=True),
    Column("Verdict", "tie: equality is within the paired interval, or nearly reached", numeric=False, wide_only=True),
)


def metrics(task: TaskReport, identifier: str) -> str:
    """The section of metrics: the main ones at once, all of them on demand."""
    found = task.metrics
    rows = [row for row in (found.row(name) for name in TITLES) if row is not None]
    main = [_row(row) for row in rows if row.name in _MAIN]
    rest = [_row(row) for row in rows if row.name not in _MAIN]
    missing = "".join(f"<li>{text(TITLES[name][0])}: {text(reason)}</li>" for name, reason in found.missing)
    parts = [table(f"{identifier}-main", "Main metrics before and after", _COLUMNS, main)]
    if rest:
        further = table(f"{identifier}-rest", "Further metrics", _COLUMNS, rest)
        parts.append(details(f"{len(rest)} more metrics", further))
    if missing:
        parts.append(f'<div class="note">Not computed: <ul>{missing}</ul></div>')
    lead = (
        f"Small numbers are {found.confidence:.0%} intervals from a bootstrap over {text(found.resampled)}. The "
        "noise floor is what a <em>perfect</em> forecast would score on as many rows: a value at its floor cannot be "
        "improved. Log-loss, Brier and AUC also reward knowing more, so their best attainable value is unknown. "
        f"Differences below {text(percent(MARGIN))} of a metric are ties."
    )
    return section(identifier, "Metrics with intervals and noise floors", lead, *parts)


def _row(row: MetricRow) -> Row:
    places = min((decimals(*side.interval) for side in row.sides if math.isfinite(side.value)), default=4)
    judgement = badge(row.verdict, _MOODS[row.verdict]) if row.verdict else "–"
    change = measured(row.difference, *row.difference_interval)
    title, meaning = TITLES[row.name]
    return Row(
        (
            Cell(
                f'<b>{text(title)}</b> <span class="narrow">{judgement}</span>'
                f'<small class="wide">{text(meaning)}</small>',
                title,
            ),
            *(_value(side, places) for side in row.sides),
            number(f"{row.floor:.{places}f}" if math.isfinite(row.floor) else "–"),
            Cell(
                f"{'+' if row.difference > 0 else ''}{change}<small>{text(span(*row.difference_interval))}</small>",
                row.difference,
                "n",
            ),
            Cell(judgement, row.verdict),
        )
    )


def _value(side: MetricSide, places: int) -> Cell:
    if not math.isfinite(side.value):
        return Cell(f"–<small>{text(side.reason)}</small>", float("nan"), "n")
    return Cell(f"{side.value:.{places}f}<small>{text(span(*side.interval, places))}</small>", side.value, "n")
