"""A newcomer's hour: the commands of the README on a log that nobody here made, up to a verdict and a scored table."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monocal

ROOT = Path(__file__).parents[3]
SOURCE = Path(monocal.__file__).parents[1]


def log_of_digits():
    """Handwritten digits as a log: ten questions per image, naive Bayes' score, whether it is that digit."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import cross_val_predict
    from sklearn.naive_bayes import GaussianNB

    images, digits = load_digits(return_X_y=True)
    scores = cross_val_predict(GaussianNB(var_smoothing=1e-3), images, digits, cv=5, method="predict_proba")
    asked = np.arange(10)
    columns = {"pctr": scores.ravel(), "click": (digits[:, None] == asked).ravel().astype(np.int8)}
    return pa.table({**columns, "digit": np.tile(asked, len(digits)), "timestamp": np.arange(scores.size)})


def session(page):
    """The commands of the first block of a page in which `monocal calibrate` stands."""
    blocks = re.findall(r"```\w*\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)
    block = next(block for block in blocks if "\nmonocal calibrate" in f"\n{block}")
    lines = block.replace("\\\n", " ").splitlines()
    return [
        shlex.split(line, comments=True) for line in lines if line.startswith(("monocal calibrate", "monocal apply"))
    ]


@pytest.mark.extras
def test_the_readme_leads_from_a_strange_log_to_a_verdict(tmp_path):
    commands = session("README.md")
    table = log_of_digits()
    cut = 16_000
    pq.write_table(table.slice(0, cut), tmp_path / "log.parquet")
    pq.write_table(table.slice(cut), tmp_path / "new.parquet")
    for words in commands:
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    verdict = json.loads((tmp_path / "box" / "verdict.json").read_text())
    assert verdict["decision"] == "SHIP"
    assert "fields: digit" in verdict["said"]
    assert (tmp_path / "box" / "report.html").is_file()
    scored = pq.read_table(tmp_path / "scored.parquet")
    labels = scored["click"].to_numpy()
    before, after = (monocal.evaluate(labels, scored[name].to_numpy()) for name in ("pctr", "pctr_calibrated"))
    assert after.value("log_loss") < 0.5 * before.value("log_loss")
    low, high = after.interval("pcoc")
    assert low < 1.0 < high
