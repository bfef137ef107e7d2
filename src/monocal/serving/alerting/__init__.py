"""Alarms and a dashboard for what a service exports."""

from monocal.serving.alerting.dashboard import dashboard
from monocal.serving.alerting.rules import ALERTS, Alert, rules_text
from monocal.serving.alerting.write import write_alerts

__all__ = ["ALERTS", "Alert", "dashboard", "rules_text", "write_alerts"]
