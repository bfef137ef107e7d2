"""Fits by torchrun on several hosts, which are network namespaces of this machine: bits, time, and what happens when a
process or a cable is lost. A line of JSON per case.

python benchmarks/scale/several_hosts.py bits          # needs root and iproute2
python benchmarks/scale/several_hosts.py traffic --rows 400000
python benchmarks/scale/several_hosts.py lost
python benchmarks/scale/several_hosts.py cut --timeout 20
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from network_hosts import INTERFACE, Hosts

import monocal
from monocal.calibrators import calibrator
from monocal.lab.prepare.splits import split_by_share
from monocal.lab.simulator import simulate_log
from monocal.models.fit import fit_log
from monocal.tables.encoded import open_encoded, save_encoded
from monocal.tables.roles import Roles
from monocal.tables.table import Table

MEMBER = Path(__file__).with_name("watched_member.py")
SOURCE = str(Path(monocal.__file__).parents[1])
PORT = 29500
N_SHARDS = 4
BY_NAME = {"rdzv-endpoint": f"host-1:{PORT}"}
C10D = {**BY_NAME, "rdzv-backend": "c10d"}
SMALL = {"size": "small", "n_epochs": 2}
LONG = {"size": "small", "n_epochs": 1000, "carry": "none", "n_dimensions": 4}


def bits_of(found: Any) -> str:
    """A sum of all that a model's first calibrator learned, or one by itself."""
    state = (found.tasks[0].calibrator if hasattr(found, "tasks") else found).state()
    total = hashlib.sha256()
    for name in sorted(state.arrays):
        total.update(name.encode() + state.arrays[name].tobytes())
    total.update(json.dumps(state.values, sort_keys=True, default=str).encode())
    return total.hexdigest()[:16]


def by_one_process(log: Path, settings: dict[str, Any]) -> str:
    model = fit_log(open_encoded(log).part("calibration"), calibrator("umc", **settings), n_shards=N_SHARDS)
    return bits_of(model)


class Trial:
    """One fit by the launchers of all hosts."""

    def __init__(
        self, hosts: Hosts, log: Path, folder: Path, settings: dict[str, Any], n_each: int = 2, **requests: Any
    ) -> None:
        folder.mkdir()
        self.hosts, self.log, self.folder, self.model = hosts, log, folder, folder / "model"
        self.settings, self.n_each = settings, n_each
        self.requests = {"folder": str(folder), **requests}

    def start(self, launcher: dict[str, str] | None = None, plain: bool = False, **environment: str) -> None:
        """Starts a launcher per host, the last one first.

        Arguments:
            launcher: Options of torchrun instead of these: node rank, address of the first host.
            plain: Whether `-m monocal` runs as a user would type it, unwatched.
            environment: Settings of the launchers.
        """
        sets = [word for name, value in self.settings.items() for word in ("--set", f"{name}={value}")]
        fit = ["fit", self.log, "--method", "umc", *sets, "--engine", "torchrun", "--n-shards", N_SHARDS]
        what = ["-m", "monocal"] if plain else [MEMBER, json.dumps(self.requests)]
        n = len(self.hosts.addresses)
        environment = {"PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", **environment}
        self.started = time.monotonic()
        self.launchers = []
        for host in reversed(range(n)):
            options = {"nnodes": str(n), "nproc-per-node": str(self.n_each), "node-rank": str(host)}
            options |= {"rdzv-endpoint": f"{self.hosts.addresses[0]}:{PORT}", **(launcher or {})}
            words = [word for name, value in options.items() for word in (f"--{name}", value)]
            line = [sys.executable, "-m", "torch.distributed.run", *words, *what, *fit, "--out", self.model]
            self.launchers.append(self.hosts.start(host, line, self.folder / f"host-{host + 1}.txt", **environment))

    def ended(self, seconds: float) -> dict[str, Any]:
        """Waits for all launchers and returns what is known then: how they ended and whether a model is there."""
        deadline = time.monotonic() + seconds
        ends: list[float | None] = [None] * len(self.launchers)
        while None in ends and time.monotonic() < deadline:
            for number, launcher in enumerate(self.launchers):
                if ends[number] is None and launcher.poll() is not None:
                    ends[number] = time.time()
            time.sleep(0.02)
        left = [pid for host in range(len(self.launchers)) for pid in self.hosts.running(host)]
        facts: dict[str, Any] = {
            "codes of hosts": [launcher.poll() for launcher in reversed(self.launchers)],
            "wall s": round(time.monotonic() - self.started, 1),
            "processes left": len(left),
            "saved": self.model.exists(),
        }
        for mark in ("lost", "cut"):
            if (self.folder / mark).exists():
                moment = float((self.folder / mark).read_text())
                facts[f"s after {mark}, by host"] = [end and round(end - moment, 1) for end in reversed(ends)]
        facts["said"] = sorted({line for path in self.folder.glob("host-*.txt") for line in _errors(path)})
        self.hosts.clear()
        return facts

    def bits(self) -> str | None:
        return bits_of(monocal.load(self.model)) if self.model.exists() else None


def _errors(path: Path) -> list[str]:
    return [line[:300] for line in path.read_text(errors="replace").splitlines() if line.startswith("error: ")]


def told(**facts: Any) -> None:
    print(json.dumps({**facts, "load": round(os.getloadavg()[0], 1)}, ensure_ascii=False), flush=True)


def bits(log: Path, folder: Path) -> None:
    """Two and three hosts against one process, by how names lead to addresses."""
    expected = by_one_process(log, SMALL)
    cases: list[tuple[int, int, str, dict[str, str], dict[str, str]]] = [
        (2, 2, "none", {}, {}),
        (2, 2, "none", {}, {"GLOO_SOCKET_IFNAME": INTERFACE}),
        (2, 2, "loopback", BY_NAME, {}),
        (2, 2, "addresses", BY_NAME, {}),
        (2, 2, "addresses", C10D, {}),
        (2, 2, "loopback", C10D, {}),
        (2, 2, "none", {**C10D, "rdzv-endpoint": f"10.99.0.1:{PORT}"}, {}),
        (3, 1, "none", {}, {}),
    ]
    for number, (n, n_each, names, launcher, environment) in enumerate(cases):
        with Hosts(n, names) as hosts:
            trial = Trial(hosts, log, folder / f"bits-{number}", SMALL, n_each)
            trial.start(launcher, plain=True, **environment)
            facts = trial.ended(150)
        asked = {"hosts": n, "processes": n * n_each, "names": names, **launcher, **environment}
        told(**asked, bits=trial.bits(), same=trial.bits() == expected, **facts)


def traffic(log: Path, folder: Path) -> None:
    """Where the wall time of a default fit goes: four processes on one host, on two, and on two with a slow cable."""
    expected = by_one_process(log, {})
    for number, (n, each, rate) in enumerate([(1, 4, None), (2, 2, None), (2, 2, "1gbit"), (2, 2, "100mbit")]):
        with Hosts(n, "none", rate) as hosts:
            trial = Trial(hosts, log, folder / f"traffic-{number}", {}, each)
            trial.start()
            facts = trial.ended(500)
            facts["MB sent by hosts"] = [round(hosts.sent(host) / 1e6) for host in range(n)]
        per_rank = [json.loads(path.read_text()) for path in sorted(trial.folder.glob("rank-*.json"))]
        same = trial.bits() == expected
        told(hosts=n, processes=n * each, rate=rate, bits=trial.bits(), same=same, **facts, ranks=per_rank)


def lost(log: Path, folder: Path) -> None:
    """A process is killed in the middle of a training: on the second host, and on the first."""
    for rank in (3, 1, 0):
        with Hosts(2) as hosts:
            trial = Trial(hosts, log, folder / f"lost-{rank}", LONG, lost=rank, after=1500)
            trial.start()
            told(lost_rank=rank, **trial.ended(300))


def cut(log: Path, folder: Path, timeout: float) -> None:
    """The cable of the second host is taken out in the middle of a training."""
    with Hosts(2) as hosts:
        trial = Trial(hosts, log, folder / "cut", LONG, reached=1500, timeout=timeout)
        trial.start()
        deadline = time.monotonic() + 200
        while not (trial.folder / "reached").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        hosts.cut(1)
        (trial.folder / "cut").write_text(str(time.time()))
        told(timeout=timeout, **trial.ended(300 + timeout))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["bits", "traffic", "lost", "cut"])
    parser.add_argument("--rows", type=int, default=80_000, help="of the simulated log, a fifth of which is fitted")
    parser.add_argument("--timeout", type=float, default=20.0, help="of a reduction, where a cable is cut")
    parser.add_argument("--keep", type=Path, help="a new folder for what the processes said")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        log = folder / "log"
        roles = Roles(score="pctr", label="click", fields=["site_id", "device"], time="timestamp")
        rows = Table.read(simulate_log(given.rows, seed=7).table(), roles).in_time_order().encoded()
        save_encoded(replace(rows, parts=split_by_share(rows.n_rows)), log)
        cases = {"bits": bits, "traffic": traffic, "lost": lost}
        cases["cut"] = partial(cut, timeout=given.timeout)
        cases[given.what](log, folder)
