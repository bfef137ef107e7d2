"""Peak memory of a wide fit by several processes on a log of many rows; prints a line per process.

python benchmarks/scale/team_memory.py make LOG --rows 20000000 --fields 21
torchrun --standalone --nproc-per-node 2 benchmarks/scale/team_memory.py fit LOG
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from made_up_log import make
from private_memory import PrivatePeak

from monocal.calibrators import calibrator
from monocal.core.process_group import join_from_environment
from monocal.models.fit import fit_log
from monocal.tables.encoded import open_encoded


def fit(folder: Path) -> None:
    """Fits this process's part and prints what it took."""
    team, log = join_from_environment(), open_encoded(folder)
    with PrivatePeak() as peak:
        started, cpu = time.perf_counter(), time.process_time()
        model = fit_log(log, calibrator("wide_logistic"), team=team)
    facts = {
        "rank": team.rank,
        "of": team.size,
        "rows": log.n_rows,
        "fields": len(log.field_names),
        **peak.facts(log.n_rows // team.size),
        "wall s": round(time.perf_counter() - started, 1),
        "cpu s": round(time.process_time() - cpu, 1),
        "shifts": model.tasks[0].calibrator.shifts_.tobytes()[-8:].hex(),
    }
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["make", "fit"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--fields", type=int, default=21)
    given = parser.parse_args()
    if given.what == "make":
        make(given.folder, given.rows, given.fields)
    else:
        fit(given.folder)
