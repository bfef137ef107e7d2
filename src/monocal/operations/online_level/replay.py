"""The level from its log alone."""

from __future__ import annotations

from pathlib import Path

from monocal.core.errors import ArtefactError, InvalidInput
from monocal.operations.online_level.feedback_log import files_of, records_of
from monocal.operations.online_level.level import OnlineLevel


def replay(folder: str | Path) -> tuple[str, OnlineLevel]:
    """Learns every line of a feedback folder again; returns the model's fingerprint and the level.

    The numbers are those of the service, to the last bit, because both fold the same lines in the same order. Where a
    file follows another one and took its level over, the state it begins with is compared with the one just folded.

    Arguments:
        folder: What the service had as `level_folder`.
    """
    files = files_of(Path(folder))
    if not files:
        raise InvalidInput.of("folder", repr(str(folder)), "a folder with feedback-000001.log", "pass level_folder")
    version, level = "", None
    for path in files:
        for number, record in enumerate(records_of(path)):
            if number == 0:
                state = record["level"]
                went_on = version == record["version"] and bool(state["tasks"])
                if level is not None and went_on and level.to_json() != OnlineLevel.from_json(state).to_json():
                    raise ArtefactError(
                        f"{path}: it does not begin with the level at the end of the file before it. "
                        "Way out: replay the files of one service together, all of them unchanged"
                    )
                version, level = record["version"], OnlineLevel.from_json(state)
            elif level is not None:
                for task, rows in record["rows"].items():
                    level.learn(task, **rows)
    if level is None:
        raise ArtefactError(f"{files[0]}: it holds no whole line. Way out: it was never used; remove it")
    return version, level
