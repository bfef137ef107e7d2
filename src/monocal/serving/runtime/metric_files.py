"""The files in which workers add up their metrics: allocated before they are mapped.

prometheus-client's multiprocess mode maps sparse files. On a full disk the first write into a hole of one kills the
process with SIGBUS, and with it every request in hand. Here the supervisor allocates one file per worker's place and
kind of metric before any worker starts. A worker started later in the same place goes on with its predecessor's
counters, so restarts take no further space. A metric that would not fit is left out, and logged.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prometheus_client import values
from prometheus_client.mmap_dict import MmapedDict, mmap_key

from monocal.serving.logs import log_event

METRICS_FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Where prometheus-client looks for the folder in which workers add up their metrics."""

_LIVE_GAUGES = "gauge_livesum"
_KINDS = ("counter", "histogram", _LIVE_GAUGES)
_PER_ENTRY = 32
"""Bytes an entry takes beside its key: a length, padding, a value and a time."""


def allocate(folder: Path, n_workers: int, n_bytes: int) -> None:
    """Makes the files of all workers, or none: `OSError` says why, and what was made is removed."""
    try:
        folder.mkdir()
        for slot in range(n_workers):
            for kind in _KINDS:
                with _file(folder, kind, slot).open("xb") as stream:
                    os.posix_fallocate(stream.fileno(), 0, n_bytes)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def room_for(n_fields: int, n_tasks: int) -> int:
    """Returns the size of a file in which the metrics of a model with so many fields and tasks find room.

    Example:
        >>> room_for(n_fields=21, n_tasks=3) // 1024
        469
    """
    return (256 + n_fields + 64 * n_tasks) * 1024


def forget_gauges(folder: Path, slot: int) -> None:
    """Empties the gauges of a worker that died, in place: on a full disk a removed file could not be made again."""
    path = _file(folder, _LIVE_GAUGES, slot)
    if path.exists():
        with path.open("r+b") as stream:
            stream.write(bytes(8))


def use_files_of(slot: int) -> None:
    """Makes all metrics created from now on share the files of a worker's place, as far as there is room."""
    folder = Path(os.environ[METRICS_FOLDER_VARIABLE])
    shared = values.MultiProcessValue(process_identifier=lambda: slot)  # type: ignore[no-untyped-call]
    values.ValueClass = _bounded(shared, folder, slot)


def _bounded(shared: Any, folder: Path, slot: int) -> Callable[..., Any]:
    known: dict[str, set[str]] = {}
    free: dict[str, int] = {}

    def value(
        kind: str, metric: str, name: str, labels: Any, given: Any, text: str, multiprocess_mode: str = ""
    ) -> Any:
        prefix = f"{kind}_{multiprocess_mode}" if kind == "gauge" else kind
        path = _file(folder, prefix, slot)
        if prefix not in known:
            entries = MmapedDict.read_all_values_from_file(path) if path.exists() else ()  # type: ignore[no-untyped-call]
            known[prefix] = {key for key, *_ in entries}
            taken = sum(len(key.encode()) + _PER_ENTRY for key in known[prefix])
            free[prefix] = (path.stat().st_size if path.exists() else 0) - 8 - taken
        key = mmap_key(metric, name, labels, given, text)
        if key not in known[prefix]:
            free[prefix] -= len(key.encode()) + _PER_ENTRY
            if free[prefix] < 0:
                log_event("metric left out", level=logging.ERROR, metric=name, reason="the shared file has no room")
                return values.MutexValue(kind, metric, name, labels, given, text)  # type: ignore[no-untyped-call]
            known[prefix].add(key)
        return shared(kind, metric, name, labels, given, text, multiprocess_mode)

    return value


def _file(folder: Path, kind: str, slot: int) -> Path:
    return folder / f"{kind}_{slot}.db"
