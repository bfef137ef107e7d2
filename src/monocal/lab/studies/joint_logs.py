"""Logs of the study `joint`: the simulated search, a public log, or a prepared one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.core.spaces import Floats
from monocal.lab.prepare.encoder import encode_log
from monocal.lab.simulator import simulate_search
from monocal.lab.sources import SOURCES
from monocal.logs.encoded_log import EncodedLog
from monocal.tables.split import RowRange


@final
@dataclass(frozen=True)
class JointLog:
    """One log of the study.

    Arguments:
        name: What tables call it.
        kind: `search` (simulated), `source` (raw files of a public data set) or `prepared` (a folder of `prepare`).
        group: Columns whose values make a list.
        rates: Fields of user and item whose click rates BBP uses.
        source: Name of the source.
        file: Where raw files or the prepared log lie, relative to the data folder.
        n_rows: At most about so many rows; 0 means all. The simulated log is drawn with so many; of a prepared log all
            rows of every k-th value of the last field of `rates` are kept, so that every list keeps the same share.
        note: What readers should know.
    """

    name: str
    kind: str
    group: Sequence[str]
    rates: Sequence[str]
    source: str = ""
    file: str = ""
    n_rows: int = 0
    note: str = ""


@final
@dataclass(frozen=True, eq=False)
class OpenedLog:
    """A log of the study.

    Attributes:
        log: Its rows, with their parts.
        truth: The true probabilities of the test part, if somebody knows them.
    """

    log: EncodedLog
    truth: Floats | None = None


def open_joint_log(spec: JointLog, folder: Path, data_folder: Path | None, seed: int = 0) -> OpenedLog | str:
    """Returns the log, or why it is not there; the seed draws a simulated one."""
    if spec.kind == "search":
        simulated = simulate_search(spec.n_rows, seed=seed)
        log = simulated.encoded()
        part = log.parts["test"]
        return OpenedLog(log, simulated.true_probabilities[part.start : part.stop])
    if spec.kind not in ("source", "prepared"):
        raise InvalidInput.of("kind of log", repr(spec.kind), "search, source or prepared", "choose one of the three")
    if data_folder is None or not (data_folder / spec.file).exists():
        return f"{spec.file or 'its raw files'} not found; pass --data-dir"
    raw = data_folder / spec.file
    if spec.kind == "source":
        log = encode_log(SOURCES[spec.source]().open(raw), None, folder / "encoded" / spec.name)
        return OpenedLog(log if not spec.n_rows else _newest(log, spec.n_rows))
    log = EncodedLog.open(raw)
    return OpenedLog(_thinned(log, spec) if spec.n_rows and spec.n_rows < log.n_rows else log)


def _newest(log: EncodedLog, n_rows: int) -> EncodedLog:
    """Returns the newest rows in the log's own shares."""
    start = max(log.n_rows - n_rows, 0)
    cuts = [start + int(share * (log.n_rows - start)) for share in (0.6, 0.8)]
    parts = {
        "train": RowRange(0, cuts[0] - start),
        "calibration": RowRange(cuts[0] - start, cuts[1] - start),
        "test": RowRange(cuts[1] - start, log.n_rows - start),
    }
    return replace(log.slice(start, log.n_rows), parts=parts)


def _thinned(log: EncodedLog, spec: JointLog) -> EncodedLog:
    column = log.features[:, log.field_names.index(spec.rates[-1])]
    every = -(-log.n_rows // spec.n_rows)
    chosen = np.flatnonzero((column % every == 1) & (column > 0))
    parts = {
        name: RowRange(*(int(np.searchsorted(chosen, border)) for border in (part.start, part.stop)))
        for name, part in log.parts.items()
    }
    return replace(log.take(chosen), parts=parts)
