"""What the members of a network fit send each other: a team of threads, every reduction counted and checked.

python benchmarks/scale/team_traffic.py --members 100 --rows 40000
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from typing import Any

import numpy as np
import torch
from monocal.training.sharded_objective import ShardedObjective

from monocal.calibrators import calibrator
from monocal.core.reduce import Partition
from monocal.lab.simulator import simulate_log
from monocal.tables.vocabulary import Vocabulary
from monocal.testing.teams import ThreadTeam, run_team

FIELDS = ["site_id", "device", "hour"]


class Noted:
    """A member that writes down the size of everything it gives into a reduction."""

    def __init__(self, team: ThreadTeam) -> None:
        self.rank, self.size, self._team = team.rank, team.size, team
        self.sizes: Counter[int] = Counter()

    def count(self, numbers: Any) -> Any:
        self.sizes[numbers.size] += 1
        return self._team.count(numbers)

    def most(self, numbers: Any) -> Any:
        self.sizes[numbers.size] += 1
        return self._team.most(numbers)


def main(n_members: int, n_rows: int, settings: dict[str, Any]) -> None:
    """Fits once and prints how often which size was sent, and whether the formula of a training step holds."""
    log = simulate_log(n_rows, seed=0).table()
    features = Vocabulary.of_table(log, FIELDS).encode(log)
    scores, labels, times = (log[name].to_numpy() for name in ("pctr", "click", "timestamp"))

    def fit(team: ThreadTeam) -> Counter[int]:
        noted = Noted(team)
        own = np.arange(team.rank, n_rows, team.size)
        shards = Partition(noted, team.size, (team.rank,), np.array([0, len(own)]), own)
        fitted = calibrator("umc", n_epochs=1, **settings)
        fitted.fit(scores[own], labels[own], features=features[own], times=times[own], shards=shards)
        return noted.sizes

    shapes: list[list[int]] = []
    made = ShardedObjective.__init__

    def noting(self: ShardedObjective, *given: Any) -> None:
        made(self, *given)
        shapes.append([weight.numel() for weight in self.learned])

    ShardedObjective.__init__ = noting  # type: ignore[method-assign]
    torch.set_num_threads(1)
    found = run_team(n_members, fit)
    sizes, n_parameters, n_tensors = found[0], sum(shapes[0]), len(shapes[0])
    alike = all(member == sizes for member in found)
    facts = {
        "members": n_members,
        "rows": n_rows,
        "parameters": n_parameters,
        "tensors": n_tensors,
        "every member sends the same": alike,
        "reductions": sum(sizes.values()),
        "MB per member": round(8e-6 * sum(size * times for size, times in sizes.items()), 2),
        "reductions of parameters + 2 numbers": sizes[n_parameters + 2],
        "reductions of tensors + 2 numbers": sizes[n_tensors + 2],
        "sizes (numbers: times)": dict(sorted(sizes.items())),
    }
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--size", default="small")
    given = parser.parse_args()
    main(given.members, given.rows, {"size": given.size, "carry": "none"})
