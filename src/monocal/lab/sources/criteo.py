"""Criteo Display Advertising Challenge: the raw tab-separated file `train.txt`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import final

import numpy as np
import pyarrow as pa

from monocal.lab.prepare.source import Source, find_file
from monocal.tables.categories import distinct_text
from monocal.tables.csv import CsvFormat, csv_rows
from monocal.tables.problems import RawRows, RowProblems
from monocal.tables.roles import Roles

INTEGERS = tuple(f"I{index}" for index in range(1, 14))
CATEGORIES = tuple(f"C{index}" for index in range(1, 27))
COLUMNS = ("label", *INTEGERS, *CATEGORIES)


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
        return Roles(labels={"click": "label"}, fields=(*INTEGERS, *CATEGORIES))

    def _files(self, raw_dir: Path) -> Sequence[Path]:
        return [find_file(raw_dir, ("train.txt", "train.tsv", "train.csv"), "Criteo")]

    def _rows(self, files: Sequence[Path], problems: RowProblems) -> Iterator[RawRows]:
        form = CsvFormat(delimiter="\t", quote=None, names=COLUMNS)
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
        rows = problems.drop(rows, bad, shown, f"an integer or nothing in column {name!r}")
    return rows
