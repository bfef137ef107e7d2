"""A real Prometheus on loopback: it takes the rules, scrapes the service, and fires on a planted bias."""

import json
import shutil
import socket
import subprocess
from pathlib import Path

import httpx
import pytest

ALERTS = Path(__file__).parents[3] / "deploy" / "alerts"

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None or shutil.which("prometheus") is None,
    reason="prometheus is not installed (Debian: apt-get install prometheus)",
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
      - {series: 'monocal_field_values_total{instance="a", field="site"}', values: '0+100x60'}
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


@pytest.fixture
def prometheus(alerts, tmp_path):
    """Starts Prometheus with the rules, which fire at once, against one service."""
    running = []

    def start(target):
        rules = alerts / "monocal.rules.yml"
        rules.write_text("".join(line.replace("for: 10m", "for: 0s") for line in rules.read_text().splitlines(True)))
        (tmp_path / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
            f"rule_files: [{rules}]\n"
            f"scrape_configs: [{{job_name: monocal, static_configs: [{{targets: ['{target}']}}]}}]\n"
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        process = subprocess.Popen(
            [
                "prometheus",
                "--config.file=prometheus.yml",
                "--storage.tsdb.path=data",
                f"--web.listen-address={address}",
            ],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        running.append(process)
        return f"http://{address}"

    yield start
    for process in running:
        process.terminate()
        try:
            process.wait(30.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def test_a_planted_bias_fires_and_a_right_forecast_does_not(start, models, prometheus, wait):
    service = start(models / "one")
    url = prometheus(service.admin_url.removeprefix("http://"))

    def query(path):
        try:
            return httpx.get(f"{url}/api/v1/{path}", timeout=300.0).json()["data"]
        except (httpx.TransportError, ValueError, KeyError):
            return {}

    def send_back(task, n_positive):
        said = {"probabilities": {task: [0.3] * 1_000}, "labels": {task: [1] * n_positive + [0] * (1_000 - n_positive)}}
        assert httpx.post(f"{service.url}/v1/feedback", json=said, timeout=300.0).status_code == 200

    send_back("long_view", 300)
    send_back("click", 150)

    def firing():
        found = [alert for alert in query("alerts").get("alerts", []) if alert["state"] == "firing"]
        return {(alert["labels"]["alertname"], alert["labels"].get("task")) for alert in found}

    wait(firing, "an alarm")
    assert firing() == {("MonocalMiscalibrated", "click")}
    found = {
        sample["metric"]["task"]: float(sample["value"][1]) for sample in query("query?query=monocal_pcoc")["result"]
    }
    assert found == pytest.approx({"click": 2.0, "long_view": 1.0})

    shown = {}
    for panel in json.loads((ALERTS / "monocal.dashboard.json").read_text())["panels"]:
        for target in panel["targets"]:
            answer = httpx.get(f"{url}/api/v1/query", params={"query": target["expr"]}, timeout=30.0).json()
            assert answer["status"] == "success", (panel["title"], answer)
            shown[panel["title"]] = answer["data"]["result"]
    for title, label in (("PCOC of recent labels", "task"), ("Models that serve", "version")):
        assert shown[title], title
        assert all(label in sample["metric"] for sample in shown[title])
