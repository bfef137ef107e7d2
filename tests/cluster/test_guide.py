"""The guides of Spark and of several processes, executed."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import monocal
from monocal.calibrators import calibrator
from monocal.models.fit import fit_log
from monocal.tables.encoded import open_encoded

PAGES = [Path(__file__).parents[2] / "docs" / "guides" / name for name in ("clusters.md", "several_processes.md")]


def test_the_guide_runs_from_the_laptop_to_the_service(spark, folder, rows, tmp_path, monkeypatch):
    for module in ("starlette", "uvicorn", "msgspec"):
        pytest.importorskip(module, reason="the serve extra is not installed")
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 3
    (tmp_path / "log").symlink_to(folder)
    pq.write_table(rows.slice(0, 6_000), tmp_path / "sample.parquet")
    monkeypatch.chdir(tmp_path)
    # Spark's working directory is that of the session's start
    named = re.sub(r'"(log|model|scored)"', lambda found: repr(str(tmp_path / found[1])), "\n".join(blocks))
    names = {"spark": spark}
    exec(compile(named, str(PAGES[0]), "exec"), names)
    assert (tmp_path / "scored" / "_SUCCESS").exists()
    assert names["found"].tasks["click"].value("pcoc") == pytest.approx(1.0, abs=0.1)
    assert monocal.load("model_of_all").predict(rows).mean() == pytest.approx(rows["click"].to_numpy().mean())
    assert fit_log(open_encoded("ranked"), calibrator("wide_logistic"), n_shards=2).info["soft_labels"]
    row = names["row"]
    body = {"scores": {"click": [row.pctr]}, "fields": {"site_id": [row.site_id], "device": [row.device]}}
    assert answered(tmp_path / "model", body)["probabilities"]["click"] == [row.pctr_calibrated]


def answered(model, body):
    """What `monocal serve` answers."""
    service = subprocess.Popen(
        [sys.executable, "-m", "monocal", "serve", str(model), "--port", "0"],
        env={**os.environ, "PYTHONPATH": str(Path(monocal.__file__).parents[1])},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        facts = next(json.loads(line) for line in service.stderr if '"listening"' in line)
        place = f"http://127.0.0.1:{facts['port']}/v1/calibrate"
        request = urllib.request.Request(place, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as response:
            return json.load(response)
    finally:
        service.send_signal(signal.SIGTERM)
        service.communicate(timeout=300)
