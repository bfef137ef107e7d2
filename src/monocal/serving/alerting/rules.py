"""When somebody should look at a service: Prometheus rules over what it exports."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal, final

from monocal.serving.runtime.metric_names import (
    COVER_ALL_WORKERS,
    FEEDBACK_ROWS,
    FEEDBACK_WINDOW_SUM,
    FIELD_UNSEEN,
    FIELD_VALUES,
    MODEL_INFO,
    MODEL_LOADS,
    REQUEST_SECONDS,
    REQUESTS,
    ROWS,
    SCORE_DRIFT_NOISE,
    SCORE_DRIFT_PSI,
)

RUNBOOK = "guides/runbook.html"
"""The page of the documentation that says what to do, with a section per alarm."""


@final
@dataclass(frozen=True)
class Alert:
    """One rule.

    Attributes:
        name: Its name, which is also the section of the runbook.
        expression: PromQL that gives something while the alarm is on.
        lasts: How long it must be on before anybody is told.
        severity: "page" wakes somebody, "ticket" waits for the morning.
        summary: One sentence, with Prometheus' placeholders.
    """

    name: str
    expression: str
    lasts: str
    severity: Literal["page", "ticket"]
    summary: str


def _sum_of(what: str) -> str:
    return f'sum by (instance, task) ({FEEDBACK_WINDOW_SUM}{{of="{what}"}})'


_PREDICTED, _OBSERVED = _sum_of("predictions"), _sum_of("labels")
_RATE = f"rate({REQUESTS}_total"

ALERTS = (
    Alert(
        "MonocalAbsent",
        f"absent({MODEL_INFO})",
        "2m",
        "page",
        "No service with a model is scraped.",
    ),
    Alert(
        "MonocalMiscalibrated",
        # a tenth of the forecast, and four standard deviations of a Poisson count with that mean
        f"abs({_PREDICTED} - {_OBSERVED}) > 0.1 * {_PREDICTED} + 4 * sqrt({_PREDICTED})",
        "10m",
        "page",
        "Recent forecasts of {{ $labels.task }} are more than 10 % away from the labels that came back, beyond chance.",
    ),
    Alert(
        "MonocalErrors",
        f'sum by (instance) ({_RATE}{{status=~"5.."}}[5m])) / sum by (instance) ({_RATE}[5m])) > 0.01',
        "5m",
        "page",
        "More than 1 % of the requests fail.",
    ),
    Alert(
        "MonocalSlow",
        f"histogram_quantile(0.99, sum by (instance, le) (rate({REQUEST_SECONDS}_bucket[5m]))) > 0.2",
        "10m",
        "ticket",
        "One request in a hundred takes longer than 0.2 seconds.",
    ),
    Alert(
        "MonocalLoadRefused",
        f'sum by (instance, model) (increase({MODEL_LOADS}_total{{outcome="refused"}}[1h])) > 0',
        "0m",
        "ticket",
        "A new model was refused; the old one goes on serving.",
    ),
    Alert(
        "MonocalScoreDrift",
        f"{SCORE_DRIFT_PSI} - {SCORE_DRIFT_NOISE} > 0.25",
        "30m",
        "ticket",
        "Scores of {{ $labels.task }} are distributed otherwise than at the fit.",
    ),
    Alert(
        "MonocalUnseenValues",
        f"sum by (instance, field) (rate({FIELD_UNSEEN}_total[30m])) "
        f"/ sum by (instance, field) (rate({FIELD_VALUES}_total[30m])) > 0.2",
        "30m",
        "ticket",
        "More than 20 % of the values of {{ $labels.field }} were not there at the fit.",
    ),
    Alert(
        "MonocalNoFeedback",
        f"sum by (instance) (increase({FEEDBACK_ROWS}_total[1d])) == 0 "
        f"and sum by (instance) (increase({ROWS}_total[1d])) > 0",
        "1h",
        "ticket",
        "Labels came back before, and none did for a day: calibration is not watched.",
    ),
    Alert(
        "MonocalPartialMetrics",
        f"{COVER_ALL_WORKERS} == 0",
        "10m",
        "ticket",
        "The numbers are those of one worker only.",
    ),
)
"""Every alarm, the most urgent first."""


def rules_text() -> str:
    """Returns the rules as Prometheus reads them.

    Example:
        >>> rules_text().splitlines()[3].strip()
        '- alert: MonocalAbsent'
    """
    lines = ["groups:", "  - name: monocal", "    rules:"]
    for alert in ALERTS:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {json.dumps(alert.expression)}",
            f"        for: {alert.lasts}",
            f"        labels: {{severity: {alert.severity}}}",
            "        annotations:",
            f"          summary: {json.dumps(alert.summary)}",
            f"          runbook: {RUNBOOK}#{alert.name.lower()}",
        ]
    return "\n".join(lines) + "\n"
