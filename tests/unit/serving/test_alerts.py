"""Rules and dashboard in deploy/ speak of what the service exports, and every alarm has its page."""

import json
import re
from pathlib import Path

import pytest
import yaml

from monocal.serving.telemetry import LiveMetrics

HOME = Path(__file__).parents[3]
RULES = yaml.safe_load((HOME / "deploy" / "alerts" / "monocal.rules.yml").read_text())["groups"][0]["rules"]
PANELS = json.loads((HOME / "deploy" / "alerts" / "monocal.dashboard.json").read_text())["panels"]
EXPRESSIONS = [rule["expr"] for rule in RULES] + [target["expr"] for panel in PANELS for target in panel["targets"]]


@pytest.fixture(scope="module")
def exported():
    """What a scrape can have, from a service that has seen everything once."""
    metrics = LiveMetrics()
    metrics.requests.labels("calibrate", "200").inc()
    metrics.seconds.labels("calibrate").observe(0.1)
    metrics.field_unseen.labels("site").inc()
    metrics.feedback.labels("click").inc()
    metrics.feedback_sums.labels("click", "labels").set(1.0)
    metrics.feedback_sums.labels("click", "predictions").set(1.0)
    metrics.loads.labels("model", "refused").inc()
    return metrics.exposition({"model": "1"}).decode()


def test_every_metric_and_label_of_rules_and_dashboard_is_exported(exported):
    names = {re.split(r"[{ ]", line)[0] for line in exported.splitlines() if not line.startswith("#")}
    # families without a model to compare with have no samples
    names |= set(re.findall(r"# TYPE (monocal_score_drift_\w+)", exported))
    labels = set(re.findall(r'[{,](\w+)="', exported)) | {"instance", "task"}
    assert len(EXPRESSIONS) > 15
    for expression in EXPRESSIONS:
        used = set(re.findall(r"monocal_\w+", expression))
        assert used, expression
        assert used <= names, expression
        for group in re.findall(r"by \(([^)]*)\)", expression):
            assert set(group.split(", ")) <= labels, expression
        for label, value in re.findall(r'(\w+)="([^"]*)"', expression):
            assert f'{label}="{value}"' in exported, expression


def test_every_alarm_has_its_section_in_the_runbook():
    text = (HOME / "docs" / "guides" / "runbook.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == [rule["alert"] for rule in RULES]
    for rule in RULES:
        assert rule["annotations"]["runbook"] == f"guides/runbook.html#{rule['alert'].lower()}"
