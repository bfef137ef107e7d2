"""Where the CPU seconds of `monocal fit` go in a new process: imports, reading, fit, judging, saving.

python benchmarks/speed/cold_start.py              # 200,000 rows × 6 fields, half a minute
python benchmarks/speed/cold_start.py --runs 9

What stands in the table's file below the mark stays there.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MARK = "<!-- reading -->"
RESULTS = Path(__file__).resolve().parents[1] / "results" / "cold_start.md"
FIELDS = "site_id,ad_id,country,hour,position,device"
IMPORTS = {
    "the command line": ("monocal.cli.main",),
    "fitting and judging (numpy, scipy, arrow)": ("monocal.cli.fit", "monocal.evaluation.table"),
    "torch": ("torch",),
    "numba": ("numba",),
    "pandas, which arrow loads where it is installed": ("pandas",),
    "the training": ("monocal.training", "monocal.neural.network"),
}
PHASES = {
    "reading": ("monocal.evaluation.table", "rows_to_fit"),
    "the newest rows apart": ("monocal.evaluation.table", "hold_out"),
    "fit: carry-over, with compiled code loaded": ("monocal.neural.fitting.carry_over", "learn_carry_over"),
    "fit: wide fit on all rows": ("monocal.neural.fitting.carry_over", "fit_carried"),
    "fit: networks, trial and last": ("monocal.neural.base", "NeuralCalibrator._train"),
    "fit: shifts beside the network": ("monocal.neural.fitting.carry_over", "carried_shifts"),
    "fit: what rows know (intervals)": ("monocal.neural.base", "spread_of_network"),
    "fit: everything else": ("monocal.models.fit", "_fit_task"),
    "metrics": ("monocal.evaluation.table", "evaluate_rows"),
    "metrics, intervals and floors, printed": ("monocal.cli.tables", "print_judgement"),
    "saving": ("monocal.models.model", "Model.save"),
}


def main() -> None:
    """Fits in new processes and writes the phases of the one with the least CPU time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--fit", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.fit:
        _fit(*given.fit)
        return
    from monocal.core.files import atomic_file
    from monocal.lab.simulator import write_simulated_log

    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        log = write_simulated_log(Path(folder) / "log.parquet", given.rows, world="default")
        # the first may compile
        runs = [_in_a_process(str(log), f"{folder}/{number}") for number in range(given.runs + 1)][1:]
    best = min(runs, key=lambda run: run["all"])
    taken = ", ".join(f"{run['all']:.2f}" for run in runs)
    fit = sum(seconds for name, seconds in best["spent"].items() if name.startswith("fit"))
    lines = [
        "# Where the time of a cold start goes",
        "",
        f"`python benchmarks/speed/cold_start.py --rows {given.rows} --runs {given.runs}`",
        "",
        f"`monocal fit log.parquet … --out model/` (umc) on {given.rows:,} rows × 6 fields in a new process, compiled "
        "code on disk, no variable that limits threads: fitted on the older four fifths, judged on the newest, saved. "
        f"CPU seconds of the process, user and system; the run with the least of {given.runs}. "
        f"{platform.machine()}, {os.cpu_count()} cores, load average {load:.1f} at the start and "
        f"{os.getloadavg()[0]:.1f} at the end. All runs: {taken} s.",
        "",
        "| phase | CPU s |",
        "| --- | --- |",
        *(f"| import: {name} | {seconds:.2f} |" for name, seconds in best["imports"].items()),
        *(f"| {name} | {seconds:.2f} |" for name, seconds in best["spent"].items()),
        f"| everything else | {best['all'] - sum(best['imports'].values()) - sum(best['spent'].values()):.2f} |",
        f"| **all** | **{best['all']:.2f}** |",
        f"| of it imports | {sum(best['imports'].values()):.2f} |",
        f"| of it the fit | {fit:.2f} |",
        "",
    ]
    print("\n".join(lines))
    _, mark, reading = (given.out.read_text(encoding="utf-8") if given.out.exists() else "").partition(MARK)
    with atomic_file(given.out) as temporary:
        temporary.write_text("\n".join(lines) + mark + reading, encoding="utf-8")


def _in_a_process(log: str, model: str) -> dict[str, Any]:
    limits = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in limits}
    command = [sys.executable, __file__, "--fit", log, model]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(ended.stderr.splitlines()[-1])
    return found


def _fit(log: str, model: str) -> None:
    import gc

    # as the command's entry does before it loads anything
    gc.set_threshold(100_000)
    imports = {}
    for name, modules in IMPORTS.items():
        before = time.process_time()
        for module in modules:
            importlib.import_module(module)
        imports[name] = time.process_time() - before
    spent = dict.fromkeys(PHASES, 0.0)
    inside: list[float] = []
    for name, (module, path) in PHASES.items():
        owner: Any = importlib.import_module(module)
        *inner, last = path.split(".")
        for part in inner:
            owner = getattr(owner, part)
        setattr(owner, last, _timed(getattr(owner, last), name, spent, inside))
    from monocal.cli.main import main as command

    columns = ["--score", "pctr", "--label", "click", "--fields", FIELDS, "--time", "timestamp"]
    code = command(["fit", log, *columns, "--out", model])
    print(json.dumps({"imports": imports, "spent": spent, "all": time.process_time()}), file=sys.stderr)
    raise SystemExit(code)


def _timed(call: Callable[..., Any], name: str, spent: dict[str, float], inside: list[float]) -> Callable[..., Any]:
    """Adds what a call takes, less what timed calls inside it take."""

    def timed(*arguments: Any, **options: Any) -> Any:
        before = time.process_time()
        inside.append(0.0)
        try:
            return call(*arguments, **options)
        finally:
            taken = time.process_time() - before
            spent[name] += taken - inside.pop()
            if inside:
                inside[-1] += taken

    return timed


if __name__ == "__main__":
    main()
