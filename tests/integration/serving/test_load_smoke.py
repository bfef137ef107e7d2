"""The load test at smoke size: swaps, lost workers and a full disk under traffic, every answer checked to the bit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import monocal

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "serving" / "load_test.py"
N_CLIENTS = 3


@pytest.fixture(scope="module")
def found():
    environment = {**os.environ, "PYTHONPATH": str(Path(monocal.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable,
        str(SCRIPT),
        "--requests",
        "800",
        "--swaps",
        "4",
        "--rows",
        "4000",
        "--clients",
        str(N_CLIENTS),
        "--hang-seconds",
        "10",  # a well worker may wait for seconds for its turn on a loaded machine
        "--json",
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_no_request_fails_while_models_are_swapped_and_workers_are_lost(found):
    assert found["requests"] >= 800
    assert found["statuses"] == {"200": found["requests"]}
    assert (found["swaps"], len(found["lost_workers"]), found["hung"]) == (4, 5, 1)
    assert found["failures_logged"] == 0


def test_every_answer_is_the_offline_answer_of_one_version(found):
    assert found["wrong_answers"] == 0
    assert len(found["answers_per_version"]) == 2


def test_only_requests_in_the_hands_of_a_lost_worker_are_sent_again(found):
    assert found["unexplained"] == 0
    assert max(found["lost_workers"].values()) <= N_CLIENTS


def test_the_service_counts_what_its_clients_saw_and_ends_in_good_order(found):
    assert found["requests"] <= found["requests_counted_by_the_service"] <= found["requests"] + found["sent_again"]
    assert found["exit_code"] == 0
