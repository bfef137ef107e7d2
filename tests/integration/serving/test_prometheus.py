"""Prometheus itself takes the rules, and they fire when they should; test_alerts.py compares names with a scrape."""

import shutil
import subprocess
from pathlib import Path

import pytest

ALERTS = Path(__file__).parents[3] / "deploy" / "alerts"

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="prometheus is not installed (Debian: apt-get install prometheus)"
)

UNIT_TESTS = """
rule_files: [monocal.rules.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'monocal_model_info{instance="a", model="model", version="1"}', values: '1x60'}
      - {series: 'monocal_feedback_window_sum{instance="a", task="click", of="predictions"}', values: '1000x60'}
      - {series: 'monocal_feedback_window_sum{instance="a", task="click", of="labels"}', values: '700x60'}
      - {series: 'monocal_feedback_window_sum{instance="a", task="view", of="predictions"}', values: '100x60'}
      - {series: 'monocal_feedback_window_sum{instance="a", task="view", of="labels"}', values: '80x60'}
      - {series: 'monocal_score_drift_psi{instance="a", task="click"}', values: '0.5x60'}
      - {series: 'monocal_score_drift_noise{instance="a", task="click"}', values: '0.3x60'}
      - {series: 'monocal_requests_total{instance="a", endpoint="calibrate", status="200"}', values: '0+97x60'}
      - {series: 'monocal_requests_total{instance="a", endpoint="calibrate", status="500"}', values: '0+3x60'}
      - {series: 'monocal_request_seconds_bucket{instance="a", endpoint="calibrate", le="0.2"}', values: '0+100x60'}
      - {series: 'monocal_request_seconds_bucket{instance="a", endpoint="calibrate", le="+Inf"}', values: '0+100x60'}
      - {series: 'monocal_field_unseen_total{instance="a", field="site"}', values: '0+30x60'}
      - {series: 'monocal_rows_total{instance="a"}', values: '0+100x60'}
    alert_rule_test:
      - eval_time: 5m
        alertname: MonocalMiscalibrated
        exp_alerts: []
      - eval_time: 30m
        alertname: MonocalMiscalibrated
        exp_alerts:
          - exp_labels: {severity: page, instance: a, task: click}
            exp_annotations:
              summary: >-
                Recent forecasts of click are more than 10 % away from the labels that arrived, beyond chance.
              runbook: guides/runbook.html#monocalmiscalibrated
      - eval_time: 30m
        alertname: MonocalErrors
        exp_alerts:
          - exp_labels: {severity: page, instance: a}
            exp_annotations:
              summary: More than 1 % of the requests fail.
              runbook: guides/runbook.html#monocalerrors
      - {eval_time: 59m, alertname: MonocalScoreDrift, exp_alerts: []}
      - {eval_time: 59m, alertname: MonocalSlow, exp_alerts: []}
      - {eval_time: 59m, alertname: MonocalAbsent, exp_alerts: []}
      - eval_time: 59m
        alertname: MonocalUnseenValues
        exp_alerts:
          - exp_labels: {severity: ticket, instance: a, field: site}
            exp_annotations:
              summary: More than 20 % of the values of site were not there at the fit.
              runbook: guides/runbook.html#monocalunseenvalues
  - interval: 1m
    input_series: [{series: 'up', values: '1x10'}]
    alert_rule_test:
      - eval_time: 5m
        alertname: MonocalAbsent
        exp_alerts:
          - exp_labels: {severity: page}
            exp_annotations:
              summary: No service with a model is scraped.
              runbook: guides/runbook.html#monocalabsent
"""


@pytest.fixture
def alerts(tmp_path):
    return Path(shutil.copytree(ALERTS, tmp_path / "alerts"))


def promtool(*arguments, folder):
    done = subprocess.run(["promtool", *arguments], cwd=folder, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def test_promtool_takes_the_rules_and_they_fire_when_they_should(alerts):
    code, said = promtool("check", "rules", "monocal.rules.yml", folder=alerts)
    assert code == 0, said
    (alerts / "tests.yml").write_text(UNIT_TESTS)
    code, said = promtool("test", "rules", "tests.yml", folder=alerts)
    assert code == 0, said
