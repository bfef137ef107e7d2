"""monocal alerts."""

from __future__ import annotations

from monocal.cli.options import Debug, Json, Out
from monocal.cli.output import print_json, remark

EXAMPLES = """
monocal alerts --out alerts/
"""


def alerts(out: Out, as_json: Json = False, debug: Debug = False) -> None:
    """Writes Prometheus rules and a Grafana dashboard for a service.

    The rules and the dashboard use the metrics that `monocal serve` exports. What to do about each alarm is on the
    page "Runbook" of the documentation.
    """
    from monocal.serving.alerting import write_alerts

    rules, dashboard = write_alerts(out)
    if as_json:
        print_json({"rules": rules, "dashboard": dashboard})
        return
    remark(f"wrote {rules} for Prometheus and {dashboard} for Grafana")
