"""What a new process costs: CPU seconds from its start to its end, compiled code on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from monocal.lab.simulator import write_simulated_log
from suite.timing import Row

LIBRARIES = "import numpy, scipy.optimize, pyarrow.parquet, pandas, numba, torch"
FIELDS = "site_id,ad_id,country,hour,position,device"
TIMED = """
import sys, time
import monocal.models.fit as one
started = []
inner = one._fit_task
def timed(*arguments, **options):
    before = time.process_time()
    found = inner(*arguments, **options)
    print("fit", time.process_time() - before, file=sys.stderr)
    return found
one._fit_task = timed
from monocal.cli.main import run
run()
"""


def starts(n_rows: int, rounds: int) -> list[Row]:
    """Returns rows of commands in new processes beside one that imports the libraries and does nothing."""
    with tempfile.TemporaryDirectory() as folder:
        log = write_simulated_log(Path(folder) / "log.parquet", n_rows, world="default")
        fit = ["fit", str(log), "--score", "pctr", "--label", "click", "--fields", FIELDS, "--time", "timestamp"]
        commands = {
            "libraries": ["-c", LIBRARIES],
            "help": ["-m", "monocal", "--help"],
            "platt": ["-m", "monocal", *fit, "--method", "platt", "--out", str(Path(folder) / "platt")],
            "umc": ["-c", TIMED, *fit, "--out", str(Path(folder) / "umc")],
        }
        best = dict.fromkeys([*commands, "of it"], float("inf"))
        for _ in range(rounds + 1):  # the first round may compile
            for name, command in commands.items():
                seconds, within = _cpu_seconds(command)
                best[name] = min(best[name], seconds)
                best["of it"] = min(best["of it"], within)
    wanted = {
        "help": "monocal --help",
        "platt": "monocal fit --method platt",
        "umc": "monocal fit (umc), judged and saved",
    }
    wanted["of it"] = "– of it the fit, with torch and compiled code loaded on the way"
    return [
        Row(text, best[name], "import of numpy, scipy, arrow, pandas, numba, torch", best["libraries"])
        for name, text in wanted.items()
    ]


def _cpu_seconds(command: list[str]) -> tuple[float, float]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, *command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}: {said}")
    within = [float(line.split()[1]) for line in said.splitlines() if line.startswith("fit ")]
    return used.ru_utime + used.ru_stime, within[0] if within else float("inf")
