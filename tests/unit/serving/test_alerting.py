"""Rules and dashboard speak of what the service exports, and every alarm has its page."""

import json
import re
from pathlib import Path

import pytest

from monocal.serving.alerting import ALERTS, dashboard, rules_text, write_alerts
from monocal.serving.runtime.live_metrics import LiveMetrics

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def exported():
    """Every name and label that a scrape can have, from a service that has seen everything once."""
    metrics = LiveMetrics()
    metrics.requests.labels("calibrate", "200").inc()
    metrics.seconds.labels("calibrate").observe(0.1)
    metrics.field_values.labels("site").inc()
    metrics.field_unseen.labels("site").inc()
    metrics.feedback.labels("click").inc()
    metrics.feedback_sums.labels("click", "labels").set(1.0)
    metrics.feedback_sums.labels("click", "predictions").set(1.0)
    metrics.loads.labels("model", "refused").inc()
    text = metrics.exposition({"model": "1"}).decode()
    names = {re.split(r"[{ ]", line)[0] for line in text.splitlines() if not line.startswith("#")}
    # families without a model to compare with have no samples
    names |= set(re.findall(r"# TYPE (monocal_score_drift_\w+)", text))
    labels = set(re.findall(r'[{,](\w+)="', text)) | {"instance", "task"}
    return names, labels, text


def expressions():
    yield from ((alert.name, alert.expression) for alert in ALERTS)
    yield from ((panel["title"], target["expr"]) for panel in dashboard()["panels"] for target in panel["targets"])


@pytest.mark.parametrize(("name", "expression"), list(expressions()))
def test_every_metric_and_label_is_exported(name, expression, exported):
    names, labels, text = exported
    used = set(re.findall(r"monocal_\w+", expression))
    assert used
    assert used <= names
    for group in re.findall(r"by \(([^)]*)\)", expression):
        assert set(group.split(", ")) <= labels
    for label, relation, value in re.findall(r'(\w+)(=~?)"([^"]*)"', expression):
        assert label in labels
        if relation == "=":
            assert f'{label}="{value}"' in text


def test_every_alarm_has_its_section_in_the_runbook():
    sections = re.findall(r"^## (\w+)$", (DOCS / "guides" / "runbook.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sections == [alert.name for alert in ALERTS]
    for alert in ALERTS:
        assert f"runbook: guides/runbook.html#{alert.name.lower()}" in rules_text()


def test_panels_do_not_overlap():
    taken = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + 8)}
        assert not taken & cells
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_the_dashboard_has_the_fields_that_grafana_documents():
    """The JSON model of dashboards: known names, the types they have, and references that lead somewhere."""
    board = dashboard()
    types = {"uid": str, "title": str, "schemaVersion": int, "time": dict, "refresh": str, "templating": dict}
    assert {name: type(value) for name, value in board.items()} == {**types, "panels": list}
    assert 0 < len(board["uid"]) <= 40
    assert set(board["time"]) == {"from", "to"}
    (variable,) = board["templating"]["list"]
    assert (variable["type"], variable["query"]) == ("datasource", "prometheus")
    reference = {"type": "prometheus", "uid": f"${{{variable['name']}}}"}
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in board["panels"]:
        assert set(panel) == {"id", "type", "title", "datasource", "gridPos", "fieldConfig", "targets"}
        assert panel["type"] == "timeseries"
        assert panel["datasource"] == reference
        assert set(panel["gridPos"]) == {"x", "y", "w", "h"}
        assert set(panel["fieldConfig"]) == {"defaults", "overrides"}
        assert panel["fieldConfig"]["defaults"]["unit"] in {"none", "percentunit", "s"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        for target in panel["targets"]:
            assert set(target) == {"refId", "datasource", "expr", "legendFormat"}
            assert target["datasource"] == reference
            # what a legend names has to survive the query
            for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                kept = re.findall(r"by \(([^)]*)\)", target["expr"])
                assert all(label in group for group in kept)
                assert kept or "sum(" not in target["expr"]


def test_files_of_others_are_left_alone(tmp_path):
    (tmp_path / "mine.yml").write_text("mine")
    rules, board = write_alerts(tmp_path)
    write_alerts(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.yml", board.name, rules.name]
    assert json.loads(board.read_text())["uid"] == "monocal"
    assert rules.read_text() == rules_text()
