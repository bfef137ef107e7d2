"""The documentation site builds without warnings and without anything from elsewhere."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from monocal.calibrators import CALIBRATORS
from monocal.metrics import METRICS

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    target = tmp_path_factory.mktemp("site")
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def test_no_page_loads_anything_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        loaded = re.findall(r'<(?:script|img|iframe|link)[^>]*(?:src|href)="(https?:[^"]*)"', page.read_text("utf-8"))
        assert loaded == [], page.name
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?https?:|@import", sheet.read_text("utf-8")), sheet.name


def test_every_method_and_metric_is_described(site):
    methods = (site / "reference" / "methods.html").read_text("utf-8")
    metrics = (site / "reference" / "metrics.html").read_text("utf-8")
    assert all(f'id="{name}"' in methods for name in CALIBRATORS)
    assert all(f'id="{name}"' in metrics for name in METRICS)


def test_speed_is_told_by_the_tables_of_the_last_runs(site):
    page = (site / "how_fast.html").read_text("utf-8")
    assert "results:" not in page
    rows = [
        json.loads(line) for line in (ROOT / "benchmarks" / "results" / "speed.jsonl").read_text("utf-8").splitlines()
    ]
    for table, column in (("speed", "instructions per row"), ("fit_speed", "wall s")):
        last = next(row[column] for row in reversed(rows) if row["table"] == table and column in row)
        assert f"<td>{last:,}</td>" in page, table


def test_formulas_are_drawn_by_the_browser_itself(site):
    for page in site.rglob("*.html"):
        content = page.read_text("utf-8")
        assert "arithmatex" not in content, page.name
        assert ":math:" not in content, page.name
    assert (site / "reference" / "metrics.html").read_text("utf-8").count("<math") > 20


def test_nothing_of_the_machine_is_on_the_pages(site):
    for page in site.rglob("*.html"):
        assert str(ROOT) not in page.read_text("utf-8"), page.name
