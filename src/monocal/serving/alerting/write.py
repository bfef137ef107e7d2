"""Rules and dashboard as files."""

from __future__ import annotations

import json
from pathlib import Path

from monocal.core.files import atomic_file
from monocal.core.outputs import output_folder
from monocal.serving.alerting.dashboard import dashboard
from monocal.serving.alerting.rules import rules_text

RULES_FILE = "monocal.rules.yml"
DASHBOARD_FILE = "monocal.dashboard.json"


def write_alerts(folder: str | Path) -> tuple[Path, Path]:
    """Writes Prometheus rules and a Grafana dashboard; other files of the folder are left alone.

    Arguments:
        folder: Where; it is made if it is not there.

    Returns:
        The file of rules and the file of the dashboard.
    """
    place = output_folder(folder)
    rules, board = place / RULES_FILE, place / DASHBOARD_FILE
    for path, text in ((rules, rules_text()), (board, json.dumps(dashboard(), indent=1) + "\n")):
        with atomic_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return rules, board
