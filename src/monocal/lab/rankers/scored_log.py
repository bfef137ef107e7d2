"""The scored log: an encoded log with a ranker's logits and its frozen embeddings, on disk once for all calibrators."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.dataset import Dataset
from monocal.core.errors import check_known
from monocal.core.files import local_path
from monocal.core.folder import fingerprint
from monocal.core.scores import Floats, sampling_shift
from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.tables.encoded import EMBEDDINGS, SCORED_LOG, log_of_scores, map_scores, read_scored_manifest
from monocal.tables.table import Table

if TYPE_CHECKING:
    from monocal.lab.rankers.base import Ranker

Tables = tuple[NDArray[np.float32], ...]


@final
@dataclass(frozen=True, eq=False)
class ScoredLog:
    """Rows in time order with features, labels and logits; nothing here is ever changed.

    Attributes:
        log: The encoded log.
        logits: Task to float64 logits, one per row of the log, possibly memory maps.
        embeddings: The ranker's frozen table per field, or None if it has none.
        fingerprint: Changes with the log and with the ranker.
        notes: What somebody comparing results should know about the ranker's training.
        folder: Where the files are; None for a log in memory.
    """

    log: EncodedLog
    logits: Mapping[str, Floats]
    embeddings: Tables | None
    fingerprint: str
    notes: tuple[str, ...] = ()
    folder: Path | None = None

    @property
    def n_rows(self) -> int:
        return self.log.n_rows

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that have logits."""
        return tuple(self.logits)

    def part(self, name: str) -> ScoredLog:
        """Returns one of the log's named parts ("train", "calibration", "test"), as views."""
        check_known("part", name, self.log.parts)
        return self.slice(*self.log.parts[name])

    def slice(self, start: int, stop: int) -> ScoredLog:
        """Returns rows `start ≤ row < stop` as views: nothing is copied."""
        start, stop, _ = slice(start, stop).indices(self.n_rows)
        logits = {task: column[start:stop] for task, column in self.logits.items()}
        mark = fingerprint(self.fingerprint, "slice", start, stop)
        return replace(self, log=self.log.slice(start, stop), logits=logits, fingerprint=mark, folder=None)

    def as_encoded(self) -> EncodedLog:
        """Returns the encoded log with these logits as its scores, in columns called `<task>_logit`."""
        roles = self.log.roles.with_logits({task: f"{task}_logit" for task in self.logits})
        return replace(self.log, scores=dict(self.logits), roles=roles, fingerprint=self.fingerprint)

    def as_table(self) -> Table:
        """Returns the rows as fits take them, as views, with these logits and embeddings."""
        return replace(self.as_encoded().as_table(), embeddings=self.embeddings)

    def samples(self, task: str | None = None) -> Dataset:
        """Returns one task's rows as calibrators and metrics take them.

        Rows where the task was not observed are left out; the log's sampling rate is undone in the logits. Times are
        handed on, if the log has any.

        Arguments:
            task: One of `tasks`; None means the first.
        """
        chosen = self.tasks[0] if task is None else task
        check_known("task", chosen, self.logits)
        log = self.log
        labels = np.asarray(log.labels[chosen])
        rate = log.roles.sampling_rate if isinstance(log.roles.sampling_rate, int | float) else log.sampling_rates
        data = Dataset(
            self.logits[chosen] + sampling_shift(rate, self.n_rows),
            labels.astype(np.float64),
            None if log.weights is None else log.weights.astype(np.float64),
            log.features,
            log.times,
        )
        return data if labels.size and labels.min() >= 0 else data.take(np.flatnonzero(labels >= 0))

    def save(self, folder: str | Path, ranker: Ranker | None = None) -> ScoredLog:
        """Writes logits and embeddings as a folder, whole or not at all, and returns the log opened from it.

        The encoded log itself is not copied; its folder and fingerprint are noted.

        Arguments:
            folder: Where to.
            ranker: The fitted ranker, to be kept beside the scores in `ranker/`.
        """
        target = local_path(folder, "output folder")
        with SCORED_LOG.writing(target) as temporary:
            files = {task: f"{place:02d}_logits.npy" for place, task in enumerate(self.logits)}
            for task, file in files.items():
                np.save(temporary / file, np.asarray(self.logits[task], dtype=np.float64), allow_pickle=False)
            if self.embeddings is not None:
                _save_tables(temporary / EMBEDDINGS, self.embeddings)
            if ranker is not None and ranker.is_fitted:
                ranker.save(temporary / "ranker")
            entries = {
                "identity": self.fingerprint,
                "log_fingerprint": self.log.fingerprint,
                "log_folder": None if self.log.folder is None else os.path.relpath(self.log.folder, target),
                "field_sizes": list(self.log.field_sizes),
                "n_rows": self.n_rows,
                "logits": files,
                "notes": list(self.notes),
            }
            SCORED_LOG.seal(temporary, entries)
        return ScoredLog.open(target, self.log)

    @classmethod
    def open(cls, folder: str | Path, log: EncodedLog | None = None, *, check_contents: bool = False) -> ScoredLog:
        """Maps a finished folder into memory.

        Arguments:
            folder: What `save` or `rank_log` wrote.
            log: The encoded log it belongs to; by default it is opened from where it was.
            check_contents: Reads every file and compares checksums.
        """
        folder = Path(folder)
        manifest = read_scored_manifest(folder)
        log = EncodedLog.open(log_of_scores(folder, manifest)) if log is None else log
        logits, tables = map_scores(folder, manifest, log.fingerprint, log.n_rows, contents=check_contents)
        return cls(log, logits, tables, manifest["identity"], tuple(manifest["notes"]), folder)


def _save_tables(path: Path, tables: Tables) -> None:
    """Writes the tables as one array, one after the other; a memory map would crash the process on a full disk."""
    shape = (sum(len(table) for table in tables), tables[0].shape[1])
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(
            stream, {"descr": np.dtype(np.float32).str, "fortran_order": False, "shape": shape}
        )
        for table in tables:
            stream.write(np.ascontiguousarray(table, dtype=np.float32).data)
