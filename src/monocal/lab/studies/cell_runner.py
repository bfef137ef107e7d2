"""Runs the cells of a study: each in a process of its own, finished ones never again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from monocal.core.process import progress
from monocal.lab.studies.cells import Cell, cell_of, cell_to_json, finish
from monocal.lab.studies.prepared_logs import DataMissing, prepare
from monocal.lab.studies.study import Study

_POLL_SECONDS = 0.05


@final
@dataclass(frozen=True)
class RunOptions:
    """How cells are run.

    Arguments:
        workers: Cells at once; each gets one thread.
        memory_bytes: All running cells together; a cell that goes beyond its share is stopped and skipped.
        data_folder: Where real logs lie.
        retry_skipped: Run cells again that were skipped before.
        finished_only: Run nothing: judge what is finished.
    """

    workers: int = 2
    memory_bytes: int = 16 << 30
    data_folder: Path | None = None
    retry_skipped: bool = False
    finished_only: bool = False


@final
@dataclass
class _Running:
    cell: Cell
    process: subprocess.Popen[bytes]
    started: float


def list_cells(study: Study, cache: Path, options: RunOptions) -> tuple[list[Cell], dict[str, str]]:
    """Prepares the data and lists the cells; data that are not there are named with the reason."""
    cells: list[Cell] = []
    missing: dict[str, str] = {}
    with progress("preparing data", len(study.data), "sets") as bar:
        for spec in study.data:
            bar.note(spec.name)
            try:
                data = prepare(spec, cache, options.data_folder)
            except DataMissing as error:
                missing[spec.name] = str(error)
            else:
                cells += [
                    cell_of(spec.name, data, method, seed, cache)
                    for method in study.calibrators
                    for seed in study.seeds[: spec.n_seeds or None][: method.n_seeds or None]
                ]
            bar.advance(1)
    return cells, missing


def run_cells(cells: Sequence[Cell], options: RunOptions) -> int:
    """Runs every unfinished cell and returns how many were run. Equal cells are run once."""
    waiting = {cell.folder: cell for cell in cells if not _is_done(cell, options)}
    queue = list(waiting.values())
    running: list[_Running] = []
    n_run = 0
    log_folder = queue[0].folder.parent.parent / "logs" if queue else None
    with progress("cells", len(queue), "cells") as bar:
        try:
            while queue or running:
                while queue and len(running) < options.workers:
                    assert log_folder is not None
                    running.append(_start(queue.pop(0), log_folder))
                    bar.note(running[-1].cell.title)
                still = []
                for running_cell in running:
                    if _is_over(running_cell, options):
                        n_run += 1
                        bar.advance(1)
                    else:
                        still.append(running_cell)
                running = still
                time.sleep(_POLL_SECONDS)
        finally:
            for running_cell in running:
                running_cell.process.kill()
                running_cell.process.wait()
    return n_run


def _is_done(cell: Cell, options: RunOptions) -> bool:
    if not cell.is_finished:
        return False
    return not (options.retry_skipped and cell.result()["status"] != "ok")


def _start(cell: Cell, log_folder: Path) -> _Running:
    log_folder.mkdir(parents=True, exist_ok=True)
    environment = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    with (log_folder / f"{cell.folder.name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "monocal.lab.studies.cells"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment,
        )
    assert process.stdin is not None
    process.stdin.write(cell_to_json(cell).encode())
    process.stdin.close()
    return _Running(cell, process, time.monotonic())


def _is_over(running_cell: _Running, options: RunOptions) -> bool:
    code = running_cell.process.poll()
    if code is None:
        reason = _beyond_limits(running_cell, options)
        if reason is None:
            return False
        running_cell.process.kill()
        running_cell.process.wait()
        finish(running_cell.cell, {"status": "skipped", "reason": reason})
    elif code != 0:
        finish(running_cell.cell, {"status": "skipped", "reason": _failure_reason(running_cell.cell, code)})
    return True


def _beyond_limits(running_cell: _Running, options: RunOptions) -> str | None:
    seconds = time.monotonic() - running_cell.started
    if seconds > running_cell.cell.spec.time_limit_seconds:
        return f"stopped after its time limit of {running_cell.cell.spec.time_limit_seconds:.0f} s"
    share = options.memory_bytes // max(options.workers, 1)
    used = _resident_bytes(running_cell.process.pid)
    if used > share:
        return f"stopped at {used / 2**30:.1f} GiB, beyond its share of {share / 2**30:.1f} GiB"
    return None


def _resident_bytes(pid: int) -> int:
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def _failure_reason(cell: Cell, code: int) -> str:
    log = cell.folder.parent.parent / "logs" / f"{cell.folder.name}.log"
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    last: Any = lines[-1] if lines else "no message"
    return f"process ended with {code}: {last}"
