"""Ten seasons of baseball plate appearances from Retrosheet, as one prepared Parquet file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

from monocal.core.errors import check_known
from monocal.lab.prepare.source import Source, find_file, table_rows
from monocal.tables.columns import RawRows
from monocal.tables.csv import RowProblems
from monocal.tables.roles import Roles
from monocal.tables.source import open_table

TASKS = {"strikeout": "label", "home_run": "is_hr", "walk": "is_walk", "hit": "is_hit"}
FIELDS = (
    *("batter", "pitcher", "bat_team", "fld_team", "park", "inning_b", "half", "lineup_pos", "bat_fieldpos", "bats"),
    *("throws", "tto", "daynight", "umphome", "sky", "temp_bin", "winddir", "month", "season"),
)


@final
class Retrosheet(Source):
    """Every plate appearance of 2015 to 2024 with its batter, pitcher, park and situation: large, real, drifting.

    Outcomes (`event`, `is_k`, …) are labels or nothing, never fields.

    Arguments:
        tasks: Which outcomes to take: "strikeout" (22 %), "home_run" (3 %, a rate like a click's), "walk", "hit".

    Example:
        >>> dict(Retrosheet(["home_run"]).schema.labels)
        {'home_run': 'is_hr'}
    """

    name = "retrosheet"
    notice = (
        "The information used here was obtained free of charge from and is copyrighted by Retrosheet. "
        "Interested parties may contact Retrosheet at www.retrosheet.org."
    )

    def __init__(self, tasks: Sequence[str] = ("strikeout",)) -> None:
        for task in tasks:
            check_known("task", task, TASKS)
        self.tasks = tuple(tasks)

    def _schema(self) -> Roles:
        labels = {task: TASKS[task] for task in self.tasks}
        return Roles(tasks=labels, fields=FIELDS, time="timestamp", group="pitcher")

    def _settings(self) -> dict[str, Any]:
        return {"tasks": list(self.tasks)}

    def _files(self, raw_dir: Path) -> Sequence[Path]:
        return [find_file(raw_dir, ("retrosheet_pa.parquet",), "Retrosheet")]

    def _rows(self, files: Sequence[Path], problems: RowProblems) -> Iterator[RawRows]:
        for path in files:
            yield from table_rows(open_table(path), self.schema, problems)
