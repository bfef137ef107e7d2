"""A daily job that is killed at random moments; `benchmarks/reliability/killed_days.py` does it two hundred times."""

import importlib.util
import os
import tempfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "reliability" / "killed_days.py"


@pytest.mark.timeout(300)
def test_nothing_is_lost_and_nothing_half_believed(tmp_path):
    spec = importlib.util.spec_from_file_location("killed_days", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    if not os.access("/dev/shm", os.W_OK):
        assert script.kill_days(tmp_path, 12)["kills"] == 12
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        assert script.kill_days(Path(place), 12)["kills"] == 12
