"""KuaiRand-Pure as one prepared Parquet file: users and videos already joined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import final

import numpy as np
import pyarrow as pa

from monocal.lab.prepare.source import Source, find_file
from monocal.lab.sources.kuairand import FIELDS, NOTICE, derived_columns, kuairand_schema
from monocal.tables.problems import RawRows, RowProblems
from monocal.tables.roles import Roles
from monocal.tables.source import open_table

_NUMBERS = ("time_ms", "play_time_ms", "duration_ms")
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
            wanted = [*_NUMBERS, *_OTHERS, *FIELDS]
            for rows in open_table(path).placed_batches(wanted, dictionary_columns=FIELDS, problems=problems):
                kept = rows.keep(np.asarray(rows.batch.column("is_dup").to_numpy() == 0))
                time_ms, play_ms, duration_ms = (kept.batch.column(name).to_numpy() for name in _NUMBERS)
                columns = {name: kept.batch.column(name) for name in ("is_click", "long_view", *FIELDS)}
                columns |= derived_columns(time_ms, play_ms, duration_ms)
                yield kept._replace(batch=pa.RecordBatch.from_pydict(columns))
