"""A Grafana dashboard of what a service exports."""

from __future__ import annotations

from typing import Any, NamedTuple

from monocal.serving.runtime.metric_names import (
    FEEDBACK_ROWS,
    FIELD_UNSEEN,
    FIELD_VALUES,
    IN_FLIGHT,
    MODEL_INFO,
    MODEL_LOADS,
    PCOC,
    REQUEST_SECONDS,
    REQUESTS,
    ROWS,
    SCORE_DRIFT_NOISE,
    SCORE_DRIFT_PSI,
)

_SOURCE = {"type": "prometheus", "uid": "${source}"}
_WIDTH, _HEIGHT = 8, 8


class _Panel(NamedTuple):
    title: str
    unit: str
    queries: dict[str, str]


def _quantile(share: float) -> str:
    return f"histogram_quantile({share}, sum by (le) (rate({REQUEST_SECONDS}_bucket[5m])))"


_PANELS = (
    _Panel("PCOC of recent labels", "none", {"{{task}}": PCOC}),
    _Panel(
        "Labels that came back per second", "none", {"{{task}}": f"sum by (task) (rate({FEEDBACK_ROWS}_total[5m]))"}
    ),
    _Panel(
        "Score drift (PSI) and its noise",
        "none",
        {"{{task}}": SCORE_DRIFT_PSI, "noise, {{task}}": SCORE_DRIFT_NOISE},
    ),
    _Panel(
        "Unseen values",
        "percentunit",
        {
            "{{field}}": f"sum by (field) (rate({FIELD_UNSEEN}_total[30m])) "
            f"/ sum by (field) (rate({FIELD_VALUES}_total[30m]))"
        },
    ),
    _Panel("Candidates per second", "none", {"candidates": f"sum(rate({ROWS}_total[5m]))"}),
    _Panel("Requests per second", "none", {"{{status}}": f"sum by (status) (rate({REQUESTS}_total[5m]))"}),
    _Panel("Seconds per request", "s", {"median": _quantile(0.5), "99 %": _quantile(0.99)}),
    _Panel("Requests in hand", "none", {"in hand": f"sum({IN_FLIGHT})"}),
    _Panel("Loads of models", "none", {"{{model}} {{outcome}}": f"sum by (model, outcome) ({MODEL_LOADS}_total)"}),
    _Panel("Models that serve", "none", {"{{model}} {{version}}": f"sum by (model, version) ({MODEL_INFO})"}),
)


def dashboard() -> dict[str, Any]:
    """Returns the dashboard as Grafana imports it; it asks for the Prometheus to read from.

    Example:
        >>> len(dashboard()["panels"]), dashboard()["panels"][0]["title"]
        (10, 'PCOC of recent labels')
    """
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    return {
        "uid": "monocal",
        "title": "monocal",
        "schemaVersion": 39,
        "time": {"from": "now-24h", "to": "now"},
        "refresh": "1m",
        "templating": {"list": [source]},
        "panels": [_panel(number, panel) for number, panel in enumerate(_PANELS)],
    }


def _panel(number: int, panel: _Panel) -> dict[str, Any]:
    row, column = divmod(number, 24 // _WIDTH)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": _SOURCE, "expr": expression, "legendFormat": legend}
            for place, (legend, expression) in enumerate(panel.queries.items())
        ],
    }
