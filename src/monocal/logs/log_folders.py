"""Opening whatever stage of a log a folder holds."""

from __future__ import annotations

from pathlib import Path

from monocal.logs.encoded_log import EncodedLog
from monocal.logs.log_folder import ENCODED_LOG
from monocal.logs.scored_log import SCORED_LOG, ScoredLog


def is_any_log_folder(path: object) -> bool:
    """Says whether something is the path to the folder of an encoded or of a scored log.

    Example:
        >>> is_any_log_folder("log.parquet")
        False
    """
    return isinstance(path, str | Path) and (_is_scored(Path(path)) or ENCODED_LOG.is_at(path))


def open_log(folder: str | Path) -> EncodedLog | ScoredLog:
    """Opens an encoded log, or a scored one if the folder holds a ranker's scores."""
    place = Path(folder)
    return ScoredLog.open(place) if _is_scored(place) else EncodedLog.open(place)


def _is_scored(folder: Path) -> bool:
    return (folder / SCORED_LOG.manifest).is_file()
