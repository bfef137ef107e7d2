"""Clean rows from wherever they are: straight from a table, or from a spool of a source that is slow to read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, final

from monocal.core.progress import progress
from monocal.core.roles import Roles
from monocal.logs.log_rows import LogRows, clean_rows, number_columns, number_types
from monocal.logs.source import SourceStream
from monocal.logs.spool import Spool
from monocal.logs.table_source import table_rows
from monocal.tables.moments import Kind, check_one_kind, kinds_of_moments
from monocal.tables.row_problems import RawRows, RowProblems
from monocal.tables.stream import TableStream


class LogReader(Protocol):
    """A log that can be read several times, always with the same rows in the same order."""

    @property
    def n_rows(self) -> int: ...

    def read(
        self, *, fields: bool = False, group: bool = False, numbers: tuple[str, ...] = ()
    ) -> Iterator[LogRows]: ...


@final
class TableReader:
    """Reads a Parquet file or a table in memory; a malformed row stops the reading with its number."""

    def __init__(self, stream: TableStream, schema: Roles) -> None:
        self._stream, self._schema = stream, schema

    @property
    def n_rows(self) -> int:
        return int(self._stream.n_rows or 0)

    def read(self, *, fields: bool = False, group: bool = False, numbers: tuple[str, ...] = ()) -> Iterator[LogRows]:
        """Yields clean rows with the columns asked for; other columns are not read."""
        schema = self._schema
        sources = number_columns(schema)
        texts = [*(schema.fields if fields else ()), *([schema.group] if group and schema.group else [])]
        columns = dict.fromkeys([*texts, *(sources[name] for name in numbers if name in sources)])
        problems = RowProblems("raise")
        raws = table_rows(self._stream, schema, columns=list(columns))
        for raw in _with_one_kind_of_time(raws, schema.time) if "time" in numbers else raws:
            yield clean_rows(raw, schema, problems, fields=fields, group=group, numbers=numbers)


def spool_source(stream: SourceStream, path: Path, show_progress: bool | None) -> Spool:
    """Reads a source once and keeps its clean rows in a file; a finished file of earlier work is taken as it is."""
    spool = Spool(path)
    if spool.is_finished:
        return spool
    numbers = tuple(number_types(stream.schema))
    n_bytes = sum(path.stat().st_size for path in stream.paths)
    with progress(f"reading {stream.name}", n_bytes or None, unit="bytes", show=show_progress) as bar:
        problems = RowProblems(stream.on_error, on_bytes=bar.advance)

        def rows() -> Iterator[LogRows]:
            n_rows = 0
            for raw in _with_one_kind_of_time(stream.read(problems), stream.schema.time):
                clean = clean_rows(raw, stream.schema, problems, fields=True, group=True, numbers=numbers)
                yield clean
                n_rows += clean.n_rows
                bar.note(f"{n_rows:,} rows")

        n_rows = spool.write(rows())
    spool.finish({"n_rows": n_rows, "skipped": problems.summary()})
    return spool


def _with_one_kind_of_time(raws: Iterator[RawRows], time: str | None) -> Iterator[RawRows]:
    """Yields the same rows; refuses a log whose times cannot be compared, wherever in it they are."""
    kinds: set[Kind] = set()
    for raw in raws:
        if time is not None:
            kinds |= kinds_of_moments(raw.batch.column(time))
            check_one_kind(kinds, time)
        yield raw
