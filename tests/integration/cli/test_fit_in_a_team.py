"""A process that a launcher started, alone in its team."""

import torch.distributed

from monocal.cli.main import main
from monocal.lab.simulator import simulate_log
from monocal.tables.encoded import save_encoded
from monocal.tables.roles import Roles
from monocal.tables.table import Table


def test_the_team_is_left_before_the_process_ends(tmp_path, monkeypatch):
    """Threads of a team that nobody left abort a process at its end, now and then, and its launcher ends the others."""
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    roles = Roles(score="pctr", label="click", fields=["device"], time="timestamp")
    rows = Table.read(simulate_log(4_000, seed=1).table(), roles).in_time_order().encoded()
    save_encoded(rows, tmp_path / "log")
    options = ["--method", "wide_logistic", "--engine", "torchrun", "--out", str(tmp_path / "model")]
    assert main(["fit", str(tmp_path / "log"), *options]) == 0
    assert not torch.distributed.is_initialized()
