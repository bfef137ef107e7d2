"""Every method that is fitted in shards, by processes of a launcher: the bits of one, in every reduction."""

import json
import runpy
from pathlib import Path

import pytest

from monocal.core.reduce import Local
from monocal.tables.encoded import open_encoded

SCRIPT = Path(__file__).with_name("every_method.py")
EVERY = runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def alone(prepared):
    """What one process finds, which adds up the same shards."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    log = open_encoded(prepared).part("calibration")
    yield lambda name: EVERY["found"](log, name, Local())
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def of_two(launched, prepared, tmp_path_factory):
    """Where two processes write what they find, a file per method and process."""
    place = tmp_path_factory.mktemp("two")
    ended = launched(["--standalone", "--nproc-per-node", 2], SCRIPT, prepared, place, *EVERY["FITS"]).ended()
    return place, ended


def found(place, name, rank, ended):
    """What a process has written, or else why there is nothing."""
    file = place / f"{name} {rank}.json"
    assert file.exists(), ended.stderr
    return json.loads(file.read_text())


def assert_same(one, expected):
    is_network = any("curve." in name for name in expected["arrays"])  # whose arrays travel between processes
    if not is_network:
        pairs = enumerate(zip(one["reductions"], expected["reductions"], strict=False))
        unequal = [number for number, (mine, its) in pairs if mine != its]
        assert not unequal, f"reduction {unequal[0]} and {len(unequal) - 1} after it, of {len(expected['reductions'])}"
    assert one["arrays"] == expected["arrays"]
    assert one["values"] == expected["values"]


@pytest.mark.parametrize("name", EVERY["FITS"])
def test_two_processes_find_what_one_finds(of_two, alone, name):
    place, ended = of_two
    expected = alone(name)
    assert len(expected["reductions"]) > 100
    for rank in range(2):
        assert_same(found(place, name, rank, ended), expected)


def test_two_launchers_as_on_two_hosts_find_it_too(launched, prepared, tmp_path, alone, free_port):
    """Each starts two of four processes, and the second looks for the first at its address."""
    name = "umc"
    meeting = ["--nnodes", 2, "--nproc-per-node", 2, "--rdzv-endpoint", f"127.0.0.1:{free_port}"]
    launchers = [launched([*meeting, "--node-rank", host], SCRIPT, prepared, tmp_path, name) for host in range(2)]
    for ended in [launcher.ended() for launcher in launchers]:
        assert ended.returncode == 0, ended.stderr
    expected = alone(name)
    for rank in range(4):
        assert_same(found(tmp_path, name, rank, ended), expected)
