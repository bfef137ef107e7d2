"""Daily jobs that are killed in every phase; `benchmarks/reliability/killed_days.py` does it 240 times."""

import importlib.util
import os
import tempfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "reliability" / "killed_days.py"

# every job, before its pointer moved and after
WANTED = {"refresh and save", "after the pointer moved", "rollback, before the pointer"}


@pytest.mark.timeout(300)
def test_nothing_is_lost_and_nothing_half_believed():
    spec = importlib.util.spec_from_file_location("killed_days", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as place:
        counts = script.kill_days(Path(place), 16, until_hit=WANTED, most_kills=300)
    assert counts.total() >= 16
    assert {phase for phase, _ in counts} >= WANTED
