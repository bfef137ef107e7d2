"""Avazu click log (Kaggle avazu-ctr-prediction): the raw file `train`, plain or gzip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import final

import numpy as np
import pyarrow as pa

from monocal.core.errors import InvalidInput
from monocal.lab.prepare.source import Source, find_file
from monocal.tables.csv import CsvFormat, csv_header, csv_rows
from monocal.tables.problems import RawRows, RowProblems
from monocal.tables.roles import Roles

COLUMNS = (
    *("id", "click", "hour", "C1", "banner_pos", "site_id", "site_domain", "site_category", "app_id", "app_domain"),
    *("app_category", "device_id", "device_ip", "device_model", "device_type", "device_conn_type"),
    *("C14", "C15", "C16", "C17", "C18", "C19", "C20", "C21"),
)
FIELDS = COLUMNS[3:]


@final
class Avazu(Source):
    """Ten days of mobile advertisements, 40,428,967 impressions in time order, 17 % clicks.

    The 21 fields are those between `C1` and `C21` in file order; `id` is dropped and `hour` (YYMMDDHH) becomes the
    time. Metrics within groups use `site_id`.

    Example:
        >>> Avazu().schema.fields[:4]
        ('C1', 'banner_pos', 'site_id', 'site_domain')
    """

    name = "avazu"

    def _schema(self) -> Roles:
        return Roles(labels="click", fields=FIELDS, time="time", group="site_id")

    def _files(self, raw_dir: Path) -> Sequence[Path]:
        return [find_file(raw_dir, ("train", "train.csv"), "Avazu")]

    def _rows(self, files: Sequence[Path], problems: RowProblems) -> Iterator[RawRows]:
        form = CsvFormat(quote=None)
        for path in files:
            _check_header(path, csv_header(path, form))
            for rows in csv_rows(path, form, problems, ["click", "hour", *FIELDS]):
                yield _with_time(rows, problems)


def _check_header(path: Path, names: list[str]) -> None:
    for place, (found, expected) in enumerate(zip(names, COLUMNS, strict=False), start=1):
        if found != expected:
            raise InvalidInput.of(
                f"{path.name}, line 1",
                f"column {place} named {found!r}",
                f"{expected!r}",
                "use the raw file `train` of the competition",
            )
    if len(names) != len(COLUMNS):
        raise InvalidInput.of(f"{path.name}, line 1", f"{len(names)} columns", f"{len(COLUMNS)}", "use the raw file")


def _with_time(rows: RawRows, problems: RowProblems) -> RawRows:
    hours = rows.batch.column("hour")
    moments, bad = _moments(hours.dictionary)
    codes = hours.indices.to_numpy()
    kept = problems.drop(rows, bad[codes], hours, "an hour as YYMMDDHH in column 'hour'")
    codes = kept.batch.column("hour").indices.to_numpy()
    columns = {name: kept.batch.column(name) for name in ("click", *FIELDS)}
    columns["time"] = pa.array(moments[codes], pa.timestamp("s"))
    return kept._replace(batch=pa.RecordBatch.from_pydict(columns))


def _moments(
    hours: pa.Array,
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Seconds since 1970 of texts like 14102100, and which are no such text."""
    moments, bad = np.zeros(len(hours), dtype=np.int64), np.zeros(len(hours), dtype=bool)
    for place, text in enumerate(hours.to_pylist()):
        try:
            if len(text) != 8 or not text.isdigit():
                raise ValueError
            stamp = f"20{text[:2]}-{text[2:4]}-{text[4:6]}T{text[6:]}"
            moments[place] = np.datetime64(stamp, "s").astype(np.int64)
        except ValueError:
            bad[place] = True
    return moments, bad
