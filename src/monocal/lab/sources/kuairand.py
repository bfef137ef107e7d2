"""KuaiRand (Kuaishou short videos, CC BY-SA 4.0): the files as published, and KuaiRand-Pure as one prepared file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.lab.prepare.source import Source, drop_malformed, find_file
from monocal.lab.sources.side_files import SideTable
from monocal.tables.columns import RawRows
from monocal.tables.csv import CsvFormat, RowProblems, csv_rows
from monocal.tables.roles import Roles
from monocal.tables.source import open_table
from monocal.tables.texts import parse_text

NOTICE = "KuaiRand: Gao et al., KuaiRand: an unbiased sequential recommendation dataset, CIKM 2022. CC BY-SA 4.0."
VIDEO_FIELDS = ("author_id", "video_type", "upload_type", "music_id", "music_type", "tag")
USER_FIELDS = (
    *("user_active_degree", "is_live_streamer", "is_video_author", "follow_user_num_range", "fans_user_num_range"),
    *("friend_user_num_range", "register_days_range"),
    *(f"onehot_feat{index}" for index in range(18)),
)
FIELDS = (
    *("user_id", "video_id", "author_id", "tag", "tab", "hour", "duration_bin", "music_id", "music_type"),
    *("video_type", "upload_type", *USER_FIELDS),
)
TASKS = {"click": "is_click", "long_view": "long_view", "effective_view": "effective_view"}
EFFECTIVE_MS = 7_000

_NUMBERS = ("time_ms", "play_time_ms", "duration_ms", "hourmin")
_LOG_COLUMNS = ("user_id", "video_id", "tab", "is_click", "long_view", *_NUMBERS)


def kuairand_schema() -> Roles:
    """The schema of KuaiRand rows: three tasks, 36 fields known before the outcome."""
    return Roles(tasks=TASKS, fields=FIELDS, time="time", group="user_id")


@final
class KuaiRand(Source):
    """Impressions of short videos with three tasks: click, long view, effective view.

    An effective view was played for 7 s or to its end. Users and videos are joined by id; what a file does not
    know is null. Log files are read in order of their names; encoding sorts them by time.

    Arguments:
        with_random: Whether to read the logs of randomly exposed videos too.

    Example:
        >>> tuple(KuaiRand().schema.tasks)
        ('click', 'long_view', 'effective_view')
    """

    name = "kuairand"
    notice = NOTICE

    def __init__(self, with_random: bool = False) -> None:
        self.with_random = with_random

    def _schema(self) -> Roles:
        return kuairand_schema()

    def _settings(self) -> dict[str, Any]:
        return {"with_random": self.with_random}

    def _files(self, raw_dir: Path) -> Sequence[Path]:
        folder = next((f for f in (raw_dir, raw_dir / "data") if _find(f, "log_*")), raw_dir)
        logs = _find(folder, "log_standard*") + (_find(folder, "log_random*") if self.with_random else [])
        users, videos = _find(folder, "user_features*"), _find(folder, "video_features_basic*")
        for found, name in (
            (logs, "log_standard*.csv"),
            (users, "user_features*.csv"),
            (videos, "video_features_basic*.csv"),
        ):
            if not found:
                raise InvalidInput.of(
                    "raw_dir", repr(str(raw_dir)), f"a folder with {name}", "fetch the raw files of KuaiRand"
                )
        return [*users, *videos, *logs]

    def _rows(self, files: Sequence[Path], problems: RowProblems) -> Iterator[RawRows]:
        users, videos = SideTable(USER_FIELDS), SideTable(VIDEO_FIELDS)
        for path in files:
            if path.name.startswith("user_features"):
                _fill(users, path, "user_id", problems)
            elif path.name.startswith("video_features"):
                _fill(videos, path, "video_id", problems)
            else:
                for rows in csv_rows(path, CsvFormat(), problems, _LOG_COLUMNS, _NUMBERS):
                    yield _joined(rows, users, videos, problems)


def _find(folder: Path, start: str) -> list[Path]:
    return sorted(path for ending in ("", ".gz", ".zst") for path in folder.glob(f"{start}.csv{ending}"))


def _fill(table: SideTable, path: Path, key: str, problems: RowProblems) -> None:
    for rows in csv_rows(path, CsvFormat(), problems, [key, *table.attributes], [key]):
        table.add(rows.batch.column(key), {name: rows.batch.column(name) for name in table.attributes})


def _joined(rows: RawRows, users: SideTable, videos: SideTable, problems: RowProblems) -> RawRows:
    numbers: dict[str, NDArray[np.int64]] = {}
    for name in _NUMBERS:
        column = rows.batch.column(name)
        values, bad = parse_text(column, pa.int64())
        rows = drop_malformed(problems, rows, bad, column, f"a whole number in column {name!r}")
        numbers = {other: kept[~bad] for other, kept in numbers.items()} | {name: values[~bad]}
    batch = rows.batch
    columns = {name: batch.column(name) for name in ("user_id", "video_id", "tab", "is_click", "long_view")}
    columns |= users.look_up(batch.column("user_id")) | videos.look_up(batch.column("video_id"))
    columns |= derived_columns(numbers["time_ms"], numbers["play_time_ms"], numbers["duration_ms"])
    columns["hour"] = pa.array(numbers["hourmin"] // 100)
    columns["duration_bin"] = pa.array(np.minimum(numbers["duration_ms"] // 15_000, 40))
    return rows._replace(batch=pa.RecordBatch.from_pydict(columns))


def derived_columns(
    time_ms: NDArray[np.int64], play_ms: NDArray[np.int64], duration_ms: NDArray[np.int64]
) -> dict[str, pa.Array]:
    """Returns the time and the label of an effective view: played for 7 s, or to the end."""
    finished = (duration_ms > 0) & (play_ms >= duration_ms)
    effective = (play_ms >= EFFECTIVE_MS) | finished
    return {
        "time": pa.array(time_ms, pa.timestamp("ms")),
        "effective_view": pc.cast(pa.array(effective), pa.int8()),
    }


_PURE_NUMBERS = ("time_ms", "play_time_ms", "duration_ms")
_OTHERS = ("is_click", "long_view", "is_dup")


@final
class KuaiRandPure(Source):
    """Rows of `kuairand_pure.parquet` with the schema of `KuaiRand`; rows flagged as duplicates are left out."""

    name = "kuairand_pure"
    notice = NOTICE

    def _schema(self) -> Roles:
        return kuairand_schema()

    def _files(self, raw_dir: Path) -> Sequence[Path]:
        return [find_file(raw_dir, ("kuairand_pure.parquet",), "KuaiRand-Pure")]

    def _rows(self, files: Sequence[Path], problems: RowProblems) -> Iterator[RawRows]:
        for path in files:
            wanted = [*_PURE_NUMBERS, *_OTHERS, *FIELDS]
            for rows in open_table(path).placed_batches(wanted, dictionary_columns=FIELDS, problems=problems):
                kept = rows.keep(np.asarray(rows.batch.column("is_dup").to_numpy() == 0))
                time_ms, play_ms, duration_ms = (kept.batch.column(name).to_numpy() for name in _PURE_NUMBERS)
                columns = {name: kept.batch.column(name) for name in ("is_click", "long_view", *FIELDS)}
                columns |= derived_columns(time_ms, play_ms, duration_ms)
                yield kept._replace(batch=pa.RecordBatch.from_pydict(columns))
