"""Any user's table as a source: Parquet or CSV files, or a table in memory, with a schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from monocal.core.roles import Roles
from monocal.logs.log_identity import identify_table
from monocal.logs.log_rows import number_columns
from monocal.logs.source import Source, SourceStream
from monocal.tables.csv_rows import CsvFormat, csv_header, csv_rows
from monocal.tables.row_problems import OnError, RawRows, RowProblems
from monocal.tables.stream import Table, TableStream, find_files, is_parquet, open_table


@final
class TableSource(Source):
    """Reads any table with a schema.

    Arguments:
        schema: Which column plays which part; a missing column is refused with the nearest one that exists.

    Example:
        >>> source = TableSource(Roles(labels="click", fields=["site"]))
        >>> stream = source.open_table({"click": [0, 1], "site": ["a", "b"], "other": [1.5, 2.5]})
        >>> next(stream.batches()).to_pydict()
        {'click': [0, 1], 'site': ['a', 'b']}
    """

    name = "table"

    def __init__(self, schema: Roles) -> None:
        self._given = schema

    def open_table(self, table: Table, *, on_error: OnError = "raise") -> SourceStream:
        """Returns the rows of anything that counts as a table as a stream; `on_error` as in `open`."""
        if isinstance(table, str | Path):
            return self.open(table, on_error=on_error)
        stream = open_table(table)
        self._given.check_columns(stream.column_names)
        return SourceStream(
            self.name,
            self._given,
            stream.paths,
            lambda problems: table_rows(stream, self._given.columns, self._given.fields, problems),
            self._settings() | _contents(stream, self._given.columns),
            on_error,
        )

    def _schema(self) -> Roles:
        return self._given

    def _settings(self) -> dict[str, Any]:
        return {"schema": self._given.to_dict()}

    def _files(self, raw_dir: Path) -> Sequence[Path]:
        files = find_files(str(raw_dir))
        for path in files:
            names = open_table(path).column_names if is_parquet(path) else csv_header(path, _format(path))
            self._given.check_columns(names)
        if all(is_parquet(path) for path in files):
            open_table(str(raw_dir)).check_types(self._given.columns, self._given.category_columns)
        return files

    def _rows(self, files: Sequence[Path], problems: RowProblems) -> Iterator[RawRows]:
        columns = self._given.columns
        plain = [column for name, column in number_columns(self._given).items() if not name.startswith("label:")]
        for path in files:
            if is_parquet(path):
                yield from table_rows(open_table(path), columns, self._given.fields, problems)
            else:
                yield from csv_rows(path, _format(path), problems, columns, plain)


def table_rows(
    stream: TableStream, columns: Sequence[str], coded: Sequence[str] = (), problems: RowProblems | None = None
) -> Iterator[RawRows]:
    """Yields the rows of a Parquet file or a table in memory; rows are numbered from 0 over all files.

    Arguments:
        stream: The table.
        columns: Which columns.
        coded: Text columns to read dictionary-encoded.
        problems: Told how much of the files was read, in proportion to the rows.
    """
    n_bytes = sum(path.stat().st_size for path in stream.paths)
    start = 0
    for batch in stream.batches(columns, dictionary_columns=coded):
        yield RawRows(batch, stream.source, np.arange(start, start + batch.num_rows), "row")
        start += batch.num_rows
        if problems is not None and stream.n_rows:
            problems.on_bytes(n_bytes * batch.num_rows // stream.n_rows)


def _contents(stream: TableStream, columns: Sequence[str]) -> dict[str, Any]:
    return {} if stream.in_memory is None else {"contents": identify_table(stream.in_memory.select(list(columns)))}


def _format(path: Path) -> CsvFormat:
    return CsvFormat(delimiter="\t" if ".tsv" in path.name else ",")
