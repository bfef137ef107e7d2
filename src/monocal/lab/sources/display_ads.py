"""Two click logs of display advertising as published: Avazu and Criteo."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import final

import numpy as np
import pyarrow as pa

from monocal.core.errors import InvalidInput
from monocal.lab.prepare.source import Source, drop_malformed, find_file
from monocal.tables.categories import distinct_text
from monocal.tables.columns import RawRows
from monocal.tables.csv import CsvFormat, RowProblems, csv_header, csv_rows
from monocal.tables.roles import Roles

AVAZU_COLUMNS = (
    *("id", "click", "hour", "C1", "banner_pos", "site_id", "site_domain", "site_category", "app_id", "app_domain"),
    *("app_category", "device_id", "device_ip", "device_model", "device_type", "device_conn_type"),
    *("C14", "C15", "C16", "C17", "C18", "C19", "C20", "C21"),
)
FIELDS = AVAZU_COLUMNS[3:]


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
        return Roles(label="click", fields=FIELDS, time="time", group="site_id")

    def _files(self, raw_dir: Path) -> Sequence[Path]:
        return [find_file(raw_dir, ("train", "train.csv"), "Avazu")]

    def _rows(self, files: Sequence[Path], problems: RowProblems) -> Iterator[RawRows]:
        form = CsvFormat(quote=None)
        for path in files:
            _check_header(path, csv_header(path, form))
            for rows in csv_rows(path, form, problems, ["click", "hour", *FIELDS]):
                yield _with_time(rows, problems)


def _check_header(path: Path, names: list[str]) -> None:
    for place, (found, expected) in enumerate(zip(names, AVAZU_COLUMNS, strict=False), start=1):
        if found != expected:
            raise InvalidInput.of(
                f"{path.name}, line 1",
                f"column {place} named {found!r}",
                f"{expected!r}",
                "use the raw file `train` of the competition",
            )
    if len(names) != len(AVAZU_COLUMNS):
        raise InvalidInput.of(
            f"{path.name}, line 1", f"{len(names)} columns", f"{len(AVAZU_COLUMNS)}", "use the raw file"
        )


def _with_time(rows: RawRows, problems: RowProblems) -> RawRows:
    hours = rows.batch.column("hour")
    moments, bad = _moments(hours.dictionary)
    codes = hours.indices.to_numpy()
    kept = drop_malformed(problems, rows, bad[codes], hours, "an hour as YYMMDDHH in column 'hour'")
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


INTEGERS = tuple(f"I{index}" for index in range(1, 14))
CATEGORIES = tuple(f"C{index}" for index in range(1, 27))
CRITEO_COLUMNS = ("label", *INTEGERS, *CATEGORIES)


@final
class Criteo(Source):
    r"""A week of display advertisements, 45,840,617 impressions in time order, 26 % clicks, without a time column.

    The 13 integers become classes: a value v > 2 falls into bucket :math:`\lfloor \ln^2 v \rfloor`, written with a
    leading b so that bucket 1 is not the value 1; smaller values stand for themselves. Missing values are a class
    of their own.

    Example:
        >>> [bucket(text) for text in ("", "-1", "2", "3", "1000")]
        ['', '-1', '2', 'b1', 'b47']
    """

    name = "criteo"

    def _schema(self) -> Roles:
        return Roles(tasks={"click": "label"}, fields=(*INTEGERS, *CATEGORIES))

    def _files(self, raw_dir: Path) -> Sequence[Path]:
        return [find_file(raw_dir, ("train.txt", "train.tsv", "train.csv"), "Criteo")]

    def _rows(self, files: Sequence[Path], problems: RowProblems) -> Iterator[RawRows]:
        form = CsvFormat(delimiter="\t", quote=None, names=CRITEO_COLUMNS)
        for path in files:
            for rows in csv_rows(path, form, problems):
                yield _with_buckets(rows, problems)


def bucket(text: str) -> str | None:
    """Returns the class of an integer's text, or None if it is not an integer."""
    if text == "":
        return ""
    try:
        value = int(text)
    except ValueError:
        return None
    return f"b{math.floor(math.log(value) ** 2)}" if value > 2 else str(value)


def _with_buckets(rows: RawRows, problems: RowProblems) -> RawRows:
    for name in INTEGERS:
        values, _, which = distinct_text(rows.batch.column(name), name)
        classes = [bucket(text) for text in values.to_pylist()]
        bad = np.array([label is None for label in classes], dtype=bool)[which]
        coded = pa.DictionaryArray.from_arrays(pa.array(which.astype(np.int32)), pa.array(classes, pa.string()))
        shown = rows.batch.column(name)
        place = rows.batch.schema.get_field_index(name)
        rows = rows._replace(batch=rows.batch.set_column(place, name, coded))
        rows = drop_malformed(problems, rows, bad, shown, f"an integer or nothing in column {name!r}")
    return rows
