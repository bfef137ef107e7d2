"""Several workers that share a port, and are replaced when they die or stand still."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import final

from monocal.core.errors import MonocalError
from monocal.models.artefact import read_manifest
from monocal.serving.logs import log_event
from monocal.serving.runtime.metric_files import METRICS_FOLDER_VARIABLE, allocate, forget_gauges, room_for
from monocal.serving.runtime.worker_board import WorkerBoard
from monocal.serving.settings import Settings
from monocal.serving.workers.listening import ServiceStopped

_LOOK_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 10.0
_STEADY_SECONDS = 10.0
_TIMES_LONGER_AT_START = 20
"""How much longer than `hang_seconds` a worker may take to start: it may have a large model to read."""


@final
@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    started: float
    n_failures: int = 0
    n_beats: int = 0
    n_silent_looks: int = 0


@final
@dataclass
class Supervisor:
    """Keeps workers alive.

    Workers inherit the listening sockets, so a connection goes to whichever is free, and connections waiting to be
    accepted survive a worker's death. A worker that dies is replaced, at once the first time, after growing pauses if
    its successors die young. One whose event loop has not turned for `hang_seconds` (it was stopped, or is stuck) is
    killed and replaced. Requests a killed worker had in hand are lost to their clients (connection reset).
    If no worker ever came up, the service stops with the reason in the log, rather than trying for ever.

    Arguments:
        settings: The service's settings.
        listening: The sockets to share.
        home: A folder for what workers share: copies of models, metrics, messages.
    """

    settings: Settings
    listening: list[socket.socket]
    home: Path
    _workers: dict[int, _Worker] = field(default_factory=dict)
    _pauses: dict[int, tuple[float, int]] = field(default_factory=dict)
    _stopping: bool = False
    _was_ready: bool = False

    def run(self) -> None:
        self._board = WorkerBoard.create(self.home / "board", self.settings.workers)
        self._environment = {
            **{name: value for name, value in os.environ.items() if name != METRICS_FOLDER_VARIABLE},
            "PYTHONPATH": os.pathsep.join(
                [str(Path(__file__).resolve().parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
            "OMP_NUM_THREADS": "1",  # a request is scored on one thread; workers are the parallelism
            **self._metrics_folder(),
        }
        before = {number: signal.signal(number, self._ask_to_stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            for slot in range(self.settings.workers):
                self._start(slot, n_failures=0)
            while not self._stopping:
                time.sleep(_LOOK_SECONDS)
                self._look_after_workers()
        finally:
            self._stop_workers()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _metrics_folder(self) -> dict[str, str]:
        try:
            manifest = read_manifest(self.settings.model_folder)
            n_bytes = room_for(len(manifest["fields"]), len(manifest["tasks"]))
        except MonocalError:  # the workers will say what is wrong with it
            n_bytes = room_for(0, 0)
        folder = self.home / "metrics"
        try:
            allocate(folder, self.settings.workers, n_bytes)
        except OSError as error:
            reason = f"the temporary folder has no room for them: {error.strerror}"
            log_event("metrics are those of single workers", level=logging.ERROR, reason=reason)
            return {}
        return {METRICS_FOLDER_VARIABLE: str(folder)}

    def _start(self, slot: int, n_failures: int) -> None:
        handles = [listener.fileno() for listener in self.listening]
        process = subprocess.Popen(
            [sys.executable, "-m", "monocal.serving.workers.worker"],
            stdin=subprocess.PIPE,
            pass_fds=handles,
            env=self._environment,
        )
        orders = {"settings": self.settings.to_json(), "home": str(self.home), "slot": slot, "sockets": handles}
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it may have died already, which is noticed in a moment
            process.stdin.write(json.dumps(orders).encode() + b"\n")
            process.stdin.flush()
        self._workers[slot] = _Worker(process, time.monotonic(), n_failures, self._board.n_beats(slot))
        log_event("worker started", slot=slot, worker=process.pid)

    def _look_after_workers(self) -> None:
        for slot, worker in list(self._workers.items()):
            if not self._was_ready and self._board.is_ready(slot, worker.process.pid):
                self._was_ready = True
            code = worker.process.poll()
            if code is None:
                self._kill_if_hung(slot, worker)
                continue
            log_event("worker died", level=logging.ERROR, slot=slot, worker=worker.process.pid, exit_code=code)
            self._clear_after(slot, worker)
            del self._workers[slot]
            if not self._was_ready:
                raise ServiceStopped("no worker could start; the log lines above say why")
            steady = time.monotonic() - worker.started > _STEADY_SECONDS
            n_failures = 0 if steady else worker.n_failures + 1
            pause = 0.0 if n_failures <= 1 else min(0.25 * 2.0**n_failures, _LONGEST_PAUSE_SECONDS)
            self._pauses[slot] = (time.monotonic() + pause, n_failures)
        for slot, (due, n_failures) in list(self._pauses.items()):
            if time.monotonic() >= due:
                del self._pauses[slot]
                self._start(slot, n_failures)

    def _kill_if_hung(self, slot: int, worker: _Worker) -> None:
        """Counts the looks since the last beat, not seconds: while this process is stopped itself, nothing counts."""
        n_beats = self._board.n_beats(slot)
        if n_beats != worker.n_beats:
            worker.n_beats, worker.n_silent_looks = n_beats, 0
            return
        worker.n_silent_looks += 1
        times = 1 if self._board.is_ready(slot, worker.process.pid) else _TIMES_LONGER_AT_START
        if worker.n_silent_looks * _LOOK_SECONDS > times * self.settings.hang_seconds:
            log_event("worker hung", level=logging.ERROR, slot=slot, worker=worker.process.pid)
            worker.process.kill()
            worker.n_silent_looks = 0

    def _stop_workers(self) -> None:
        for listener in self.listening:
            listener.close()
        for worker in self._workers.values():
            if worker.process.poll() is None:
                worker.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + self.settings.drain_seconds + 10.0
        for slot, worker in self._workers.items():
            try:
                worker.process.wait(max(deadline - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                log_event("worker killed", level=logging.ERROR, slot=slot, worker=worker.process.pid)
                worker.process.kill()
                worker.process.wait()
            self._clear_after(slot, worker)

    def _clear_after(self, slot: int, worker: _Worker) -> None:
        """Frees what a dead worker leaves behind."""
        if worker.process.stdin is not None:
            with suppress(BrokenPipeError):
                worker.process.stdin.close()
        forget_gauges(self.home / "metrics", slot)

    def _ask_to_stop(self, _signal_number: int, _frame: FrameType | None) -> None:
        self._stopping = True
