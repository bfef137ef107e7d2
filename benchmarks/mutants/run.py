"""Changes the code a little, many times, and counts how often the tests notice.

A sample of mutants per group of files; each runs in a fork of a process that has the heavy packages loaded, on a copy
of the sources, against the tests of its group alone, and is ended after a time limit (which counts as noticed).

    python benchmarks/mutants/run.py --n 320 --out benchmarks/results/mutants.md
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))

from mutate import Mutant, mutants_of  # noqa: E402

GROUPS: dict[str, tuple[list[str], list[str], list[str]]] = {
    "calibrators": (
        [
            "core/spaces.py",
            "core/sampling.py",
            "core/samples.py",
            "calibrators/base.py",
            "calibrators/recent_intercept.py",
            "calibrators/statistical/*.py",
        ],
        [
            "tests/oracles/test_statistical_calibrators.py",
            "tests/unit/core/test_spaces.py",
            "tests/unit/core/test_bad_input.py",
            "tests/unit/calibrators/test_edges.py",
        ],
        [
            "tests/contracts/test_calibrators.py",
            "tests/unit/calibrators/test_monotone_arithmetic.py",
            "tests/unit/calibrators/test_guard_and_recent.py",
            "tests/unit/calibrators/test_field_shrinkage.py",
            "tests/unit/calibrators/test_wide_solver.py",
            "tests/unit/calibrators/test_carry_over.py",
        ],
    ),
    "metrics": (
        ["metrics/*.py"],
        [
            "tests/oracles/test_metrics_t10.py",
            "tests/oracles/test_metrics_sklearn.py",
        ],
        [
            "tests/unit/test_metric_input.py",
            "tests/contracts/test_metrics.py",
            "tests/unit/test_intervals.py",
            "tests/unit/test_floors.py",
            "tests/unit/judging",
        ],
    ),
    "artefact": (
        [
            "models/artefact.py",
            "models/inspection.py",
            "models/fusion.py",
            "core/files.py",
            "core/fingerprint.py",
            "core/manifest.py",
        ],
        ["tests/unit/core/test_files.py", "tests/unit/core/test_synced_files.py", "tests/unit/models/test_artefact.py"],
        ["tests/unit/models", "tests/unit/core/test_tensor_files.py", "tests/integration/files"],
    ),
    "engine": (
        ["serving/engine/*.py"],
        ["tests/unit/serving/test_verification.py", "tests/unit/serving/test_engine.py"],
        ["tests/unit/serving", "tests/integration/serving/test_natural_form.py"],
    ),
}
"""For each group: its files, the tests that are quick to notice, and those that only survivors of these meet."""

SLOW = "[umc or [fac or [sbcr or [desc or [adacalib or neural or without_torch or needs_no_torch"
TIME_LIMIT = 150.0
HEAVY = [
    "torch",
    "numpy",
    "scipy.special",
    "scipy.optimize",
    "scipy.stats",
    "sklearn.isotonic",
    "pyarrow.parquet",
    "pyarrow.csv",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=320, help="how many mutants, shared by the groups")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--group", choices=list(GROUPS), default=None)
    parser.add_argument("--quick", action="store_true", help="the quick tests alone: a lower bound of what is noticed")
    parser.add_argument("--only", type=int, nargs="*", default=None, help="numbers of the sample to try, from 1")
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    groups = {arguments.group: GROUPS[arguments.group]} if arguments.group else GROUPS
    copy = Path(tempfile.mkdtemp(prefix="mutants")) / "repository"
    for part in ("src", "tests", "pyproject.toml"):
        source = ROOT / part
        copy.parent.mkdir(exist_ok=True)
        (shutil.copytree if source.is_dir() else _copy_file)(source, copy / part)
    try:
        _load_heavy_packages()
        results = {
            name: _run_group(copy, *parts, arguments.n // len(groups), name, arguments)
            for name, parts in groups.items()
        }
    finally:
        shutil.rmtree(copy.parent)
    table = _table(results)
    print(table)
    if arguments.out:
        arguments.out.write_text(table, encoding="utf-8")


def _copy_file(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def _load_heavy_packages() -> None:
    for name in HEAVY:
        with contextlib.suppress(ImportError):
            __import__(name)


def _run_group(
    copy: Path,
    patterns: list[str],
    quick: list[str],
    thorough: list[str],
    n: int,
    name: str,
    arguments: argparse.Namespace,
) -> tuple[list[Mutant], list[Mutant]]:
    base = copy / "src" / "monocal"
    files = sorted({path for pattern in patterns for path in base.glob(pattern) if path.name != "__init__.py"})
    every = [one for path in files for one in mutants_of(path, str(path.relative_to(base)))]
    sample = random.Random(arguments.seed).sample(every, min(n, len(every)))
    stages = [[one for one in tests if (copy / one).exists()] for tests in (quick, thorough)]
    stages = stages[:1] if arguments.quick else stages
    print(f"{name}: {len(every)} mutants of {len(files)} files, {len(sample)} tried", flush=True)
    if not any(_noticed(copy, tests, None) for tests in stages):
        survivors = []
        for k, mutant in enumerate(sample):
            if arguments.only is not None and k + 1 not in arguments.only:
                continue
            began = time.monotonic()
            path = base / mutant.path
            sound = path.read_text(encoding="utf-8")
            path.write_text(mutant.apply(sound), encoding="utf-8")
            try:
                noticed = any(_noticed(copy, [f"src/monocal/{mutant.path}", *tests], path) for tests in stages)
            finally:
                path.write_text(sound, encoding="utf-8")
            if not noticed:
                survivors.append(mutant)
            word = "noticed" if noticed else "SURVIVED"
            print(f"{k + 1:4d} {word} {time.monotonic() - began:5.1f} s  {mutant}", flush=True)
        return sample, survivors
    raise SystemExit(f"{name}: the tests fail without any mutant")


def _noticed(copy: Path, tests: list[str], mutated: Path | None) -> bool:
    if mutated is not None:
        for stale in mutated.parent.glob(f"__pycache__/{mutated.stem}.*"):
            stale.unlink()
    child = os.fork()
    if child == 0:
        os.setsid()
        code = 2
        try:
            code = _in_child(copy, tests, keep_bytecode=mutated is None)
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    return _wait(child, TIME_LIMIT if mutated is not None else 900.0) != 0


def _in_child(copy: Path, tests: list[str], *, keep_bytecode: bool) -> int:
    import pytest

    os.chdir(copy)
    sys.dont_write_bytecode = not keep_bytecode
    sys.path.insert(0, str(copy / "src"))
    os.environ["PYTHONPATH"] = str(copy / "src")
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    log = io.StringIO()
    with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        code = int(
            pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "pytest_timeout", "-k", f"not ({SLOW})", *tests])
        )
    if keep_bytecode and code:
        sys.__stdout__.write(log.getvalue()[-3000:])
        sys.__stdout__.flush()
    return code


def _wait(child: int, limit: float) -> int:
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 1


def _table(results: dict[str, tuple[list[Mutant], list[Mutant]]]) -> str:
    lines = ["# Mutants", "", "| files | tried | noticed | share |", "| --- | ---: | ---: | ---: |"]
    totals = [0, 0]
    for name, (tried, survivors) in results.items():
        noticed = len(tried) - len(survivors)
        totals = [totals[0] + len(tried), totals[1] + noticed]
        lines.append(f"| {name} | {len(tried)} | {noticed} | {noticed / max(len(tried), 1):.0%} |")
    lines += [f"| all | {totals[0]} | {totals[1]} | {totals[1] / max(totals[0], 1):.0%} |", "", "## Survivors", ""]
    lines += [f"- `{one}`" for _, survivors in results.values() for one in survivors]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
