"""Opening whatever stage of a log a folder holds."""

from __future__ import annotations

from pathlib import Path

from monocal.logs.encoded_log import EncodedLog
from monocal.logs.log_folder import is_log_folder
from monocal.logs.scored_log import MANIFEST, ScoredLog


def is_any_log_folder(path: str | Path) -> bool:
    """Says whether a path is the folder of an encoded or of a scored log.

    Example:
        >>> is_any_log_folder("log.parquet")
        False
    """
    folder = Path(path)
    return (folder / MANIFEST).is_file() or is_log_folder(folder)


def open_log(folder: str | Path) -> EncodedLog | ScoredLog:
    """Opens an encoded log, or a scored one if the folder holds a ranker's scores."""
    place = Path(folder)
    return ScoredLog.open(place) if (place / MANIFEST).is_file() else EncodedLog.open(place)
