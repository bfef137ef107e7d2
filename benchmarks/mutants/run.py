"""Changes the code a little, many times, and counts how often the tests notice.

A seeded sample of changes per group of files. Each is tried on a copy of the sources in a fork of a process that has
the heavy packages loaded, against the tests that reach the changed line, until the first of them fails. Limits are
CPU seconds. What was found is kept in the work folder: a run that was ended goes on where it stopped.

    python benchmarks/mutants/run.py
    python benchmarks/mutants/run.py --retry      (survivors again, with the tests as they are now)
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))

from mutate import Mutant, mutants_of  # noqa: E402
from reach import QUIET, Reach, record  # noqa: E402

GROUPS = {
    "metrics": ["metrics/*.py"],
    "calibrators": [
        "core/scores.py",
        "core/dataset.py",
        "core/fields.py",
        "core/reduce.py",
        "calibrators/*.py",
        "wide/*.py",
        "carry_over/*.py",
    ],
    "artefact": [
        "models/artefact.py",
        "core/files.py",
        "core/folder.py",
    ],
    "engine": ["serving/engine.py", "serving/encode.py"],
}
TESTS = [
    "src/monocal/metrics",
    "src/monocal/core",
    "src/monocal/models",
    "src/monocal/calibrators",
    "src/monocal/wide",
    "src/monocal/carry_over",
    "src/monocal/serving/engine.py",
    "src/monocal/serving/encode.py",
    "tests/oracles/test_metrics_*.py",
    "tests/oracles/test_statistical_calibrators.py",
    "tests/oracles/test_confcalib.py",
    "tests/oracles/test_mlplatt.py",
    "tests/properties/test_*.py",
    "tests/contracts/test_metrics.py",
    "tests/unit/metrics/test_*.py",
    "tests/unit/test_monotonicity.py",
    "tests/unit/core/test_*.py",
    "tests/unit/models/test_*.py",
    "tests/unit/serving/test_*.py",
    "tests/unit/calibrators/test_*.py",
    "tests/unit/wide/test_*.py",
    "tests/unit/carry_over/test_*.py",
    "tests/contracts/test_partitions.py",
    "tests/contracts/test_calibrators.py",
    "tests/unit/evaluation/test_*.py",
]
LEFT_OUT = " or ".join(
    [
        # trainings: they reach the statistical code, too, but not by less than a minute
        *("[umc", "[fac", "[sbcr", "[desc", "[adacalib", "test_neural", "test_carried_network", "neural_"),
        # they start processes and look at what those load
        *("without_torch", "needs_no_torch", "light_import"),
    ]
)
BUDGET_SECONDS = 20.0
"""CPU seconds of tests per mutant."""

HEAVY = "torch numba numpy scipy.special scipy.optimize scipy.stats sklearn.base sklearn.isotonic sklearn.metrics"
HEAVY += " pyarrow.parquet pyarrow.csv pyarrow.compute pandas polars safetensors.numpy starlette.applications msgspec"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=320, help="how many mutants, shared by the groups")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "mutants")
    parser.add_argument("--retry", action="store_true", help="try survivors again, with the tests of the checkout")
    arguments = parser.parse_args()
    copy = arguments.work.resolve() / "copy"
    kept = copy.parent / "src"
    if not kept.exists():
        shutil.copytree(ROOT / "src", kept, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(kept, copy / "src")
    for path in kept.rglob("*.py"):  # a run that was killed leaves its mutant behind
        target = copy / "src" / path.relative_to(kept)
        if target.read_bytes() != path.read_bytes():
            shutil.copy(path, target)
    shutil.rmtree(copy / "tests", ignore_errors=True)
    shutil.copytree(ROOT / "tests", copy / "tests")
    shutil.copy(ROOT / "pyproject.toml", copy)
    os.chdir(copy)
    sys.path.insert(0, str(copy / "src"))
    os.environ |= {
        "PYTHONPATH": str(copy / "src"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "OMP_NUM_THREADS": "1",
        "NUMBA_CACHE_DIR": str(copy.parent / "numba"),
    }
    for name in HEAVY.split():
        with contextlib.suppress(ImportError):
            __import__(name)
    reach = Reach(_recorded(copy.parent / "reach"))
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    results = copy.parent / "results.jsonl"
    _try_all(_sample(arguments.n, arguments.seed), reach, results, retry=arguments.retry)
    print(_table(results))


def _recorded(folder: Path) -> list[Path]:
    """Records what each test file reaches, unless it was recorded before and has not changed."""
    folder.mkdir(exist_ok=True)
    maps = []
    for pattern in TESTS:
        for path in sorted(Path().glob(pattern)):
            content = b"" if path.is_dir() else path.read_bytes()
            name = f"{str(path).replace('/', '.')}-{hashlib.sha256(content + LEFT_OUT.encode()).hexdigest()[:12]}.json"
            maps.append(folder / name)
            if not maps[-1].exists():
                _in_fork(lambda path=path, to=maps[-1]: record(str(path), LEFT_OUT, to), cpu_seconds=1200)
                found = json.loads(maps[-1].read_text())
                price = sum(found["seconds"].values())
                print(f"{path}: {len(found['seconds'])} tests, {price:.0f} s, failed {found['failed']}", flush=True)
    return maps


def _sample(n: int, seed: int) -> list[tuple[str, Mutant]]:
    base = Path("src/monocal")
    sample: list[tuple[str, Mutant]] = []
    for group, patterns in GROUPS.items():
        files = sorted({path for pattern in patterns for path in base.glob(pattern) if path.name != "__init__.py"})
        every = [mutant for path in files for mutant in mutants_of(path, str(path.relative_to(base)))]
        print(f"{group}: {len(every)} mutants of {len(files)} files", flush=True)
        sample += [(group, mutant) for mutant in random.Random(seed).sample(every, min(n // len(GROUPS), len(every)))]
    # groups take turns, so that a run that is ended early has tried as much of each
    turns = collections.Counter()
    order = []
    for group, _ in sample:
        order.append(turns[group])
        turns[group] += 1
    return [sample[k] for k in sorted(range(len(sample)), key=order.__getitem__)]


def _try_all(sample: list[tuple[str, Mutant]], reach: Reach, results: Path, *, retry: bool) -> None:
    known = _read(results)
    for group, mutant in sample:
        before = known.get(str(mutant))
        if before and not (retry and before["outcome"] == "survived"):
            continue
        tests, n_hits = reach.tests_of(mutant.path, mutant.line, BUDGET_SECONDS)
        path = Path("src/monocal") / mutant.path
        sound = path.read_text(encoding="utf-8")
        began = time.monotonic()
        for stale in path.parent.glob(f"__pycache__/{path.stem}.*"):
            stale.unlink()
        path.write_text(mutant.apply(sound), encoding="utf-8")
        try:
            limit = 30 + 5 * int(sum(reach.seconds[test] for test in tests))
            outcome = _in_fork(lambda tests=tests: _run_tests(tests), cpu_seconds=limit) if tests else "survived"
        finally:
            path.write_text(sound, encoding="utf-8")
        found = {"group": group, "mutant": str(mutant), "outcome": outcome, "reaching": n_hits, "tests": len(tests)}
        found["retried"] = bool(before)
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")
        print(f"{outcome} {time.monotonic() - began:5.1f} s, {len(tests)} tests  {mutant}", flush=True)


def _run_tests(tests: list[str]) -> int:
    import pytest

    return int(pytest.main(["-x", *QUIET, *tests]))


def _in_fork(work, cpu_seconds: int) -> str:
    """Runs in a fork; the words are `survived` (0), `noticed` (any other end) and `ran on` (CPU limit)."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)  # a group to end, in the same session: the priority of the caller stays
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        code = 2
        try:
            code = work() or 0
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
        return "ran on"
    return "survived" if status == 0 else "noticed"


def _read(results: Path) -> dict[str, dict]:
    """Returns the last word on each mutant."""
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    return {trial["mutant"]: trial for trial in map(json.loads, lines)}


def _table(results: Path) -> str:
    last = _read(results).values()
    lines = ["| files | tried | noticed | of these ran on | noticed at first |", "| --- | ---: | ---: | ---: | ---: |"]
    for group in [*GROUPS, "all"]:
        mine = [trial for trial in last if group in (trial["group"], "all")]
        noticed = [trial for trial in mine if trial["outcome"] != "survived"]
        first = sum(not trial["retried"] for trial in noticed)
        n_on = sum(trial["outcome"] == "ran on" for trial in noticed)
        share, early = (f"{k} ({k / max(len(mine), 1):.0%})" for k in (len(noticed), first))
        lines.append(f"| {group} | {len(mine)} | {share} | {n_on} | {early} |")
    lines += ["", "## Survivors", ""]
    lines += [f"- `{trial['mutant']}`" for trial in last if trial["outcome"] == "survived"]
    return "# Mutants\n\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
