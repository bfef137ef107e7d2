"""Where the time of a network's fit by several processes goes: a line per stage, with what its reductions took, and
one per process with its time and memory.

`make` writes a made-up log block by block, in bounded memory; `simulate` one of five fields with a ranker's usual
mistakes, all of it in memory first.

python benchmarks/scale/team_stages.py make LOG --rows 20000000 --fields 21
python benchmarks/scale/team_stages.py simulate LOG --rows 3000000
torchrun --standalone --nproc-per-node 2 benchmarks/scale/team_stages.py fit LOG
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from made_up_log import make
from private_memory import PrivatePeak

from monocal.calibrators.base import Calibrator
from monocal.core.process_group import ProcessGroup, join_from_environment, leave
from monocal.lab.simulator import simulate_log
from monocal.models.fit import FitOptions, fit_log
from monocal.neural.base import NeuralCalibrator
from monocal.tables.encoded import open_encoded, save_encoded
from monocal.tables.roles import Roles
from monocal.tables.table import Table

FIELDS = ["site_id", "ad_id", "country", "device", "hour"]
ROLES = Roles.of(score="pctr", label="click", fields=FIELDS, time="timestamp")
BEFORE, CONVEX, TRAINING = "reading, facts and canary", "shifts, shares, passes", "training steps"


@dataclass
class Stage:
    """What a stage took in this process."""

    wall: float = 0.0
    cpu: float = 0.0
    reductions: int = 0
    sent: int = 0
    waited: float = 0.0
    reducing_cpu: float = 0.0


class Stages:
    """Books time on the stage that is running; stages lie inside each other."""

    def __init__(self) -> None:
        self.of = {name: Stage() for name in (BEFORE, CONVEX, TRAINING)}
        self._now = BEFORE
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def book(self) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        self.of[self._now].wall += wall - self._wall
        self.of[self._now].cpu += cpu - self._cpu
        self._wall, self._cpu = wall, cpu

    def inside(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def booked(*given: Any, **named: Any) -> Any:
            self.book()
            before, self._now = self._now, name
            try:
                return work(*given, **named)
            finally:
                self.book()
                self._now = before

        return booked

    def reducing(self, reduce: Callable[..., Any]) -> Callable[..., Any]:
        def noted(team: Any, numbers: Any, how: Any) -> Any:
            stage, wall, cpu = self.of[self._now], time.perf_counter(), time.process_time()
            found = reduce(team, numbers, how)
            stage.waited += time.perf_counter() - wall
            stage.reducing_cpu += time.process_time() - cpu
            stage.reductions += 1
            stage.sent += numbers.nbytes
            return found

        return noted


def simulate(folder: Path, n_rows: int) -> None:
    """Writes a simulated log in time order."""
    save_encoded(Table.read(simulate_log(n_rows, seed=0).table(), ROLES).in_time_order().encoded(), folder)


def fit(folder: Path, n_shards: int, curve_rows: int | None) -> None:
    """Fits this process's shards; every process prints what it took, the first one its stages, too."""
    team, log = join_from_environment(), open_encoded(folder)
    n_own = log.n_rows * len(range(team.rank, n_shards, team.size)) // n_shards
    stages = Stages()
    Calibrator.fit = stages.inside(CONVEX, Calibrator.fit)  # type: ignore[method-assign]
    NeuralCalibrator._train = stages.inside(TRAINING, NeuralCalibrator._train)  # type: ignore[method-assign]
    ProcessGroup._reduced = stages.reducing(ProcessGroup._reduced)  # type: ignore[method-assign]
    with PrivatePeak() as peak:
        model = fit_log(log, FitOptions("umc", {"curve_rows": curve_rows}), n_shards=n_shards, team=team)
    stages.book()
    weights = model.tasks[0].calibrator.weights_
    bits = hashlib.sha256(b"".join(weights[name].tobytes() for name in sorted(weights))).hexdigest()[:16]
    for name, stage in stages.of.items() if team.rank == 0 else ():
        facts = {
            "processes": team.size,
            "rows": log.n_rows,
            "fields": len(log.field_names),
            "stage": name,
            "wall s": round(stage.wall, 1),
            "cpu s": round(stage.cpu, 1),
            "reductions": stage.reductions,
            "MB": round(stage.sent / 1e6, 1),
            "in reductions, share of wall": round(stage.waited / max(stage.wall, 1e-9), 3),
            "in reductions, share of cpu": round(stage.reducing_cpu / max(stage.cpu, 1e-9), 3),
            "bits": bits,
            "load": round(os.getloadavg()[0], 1),
        }
        print(json.dumps(facts), flush=True)
    facts = {
        "rank": team.rank,
        "of": team.size,
        "rows": log.n_rows,
        "fields": len(log.field_names),
        **peak.facts(n_own),
        "wall s": round(sum(stage.wall for stage in stages.of.values()), 1),
        "cpu s": round(sum(stage.cpu for stage in stages.of.values()), 1),
        "bits": bits,
    }
    print(json.dumps(facts), flush=True)
    leave()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "simulate", "fit"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--fields", type=int, default=21, help="of a made-up log")
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--curve-rows", type=int, help="rows that the network is trained on; all by default")
    given = parser.parse_args()
    if given.what == "make":
        make(given.folder, given.rows, given.fields)
    elif given.what == "simulate":
        simulate(given.folder, given.rows)
    else:
        fit(given.folder, given.shards, given.curve_rows)
