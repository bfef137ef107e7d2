"""Any user's table as a source: Parquet or CSV files, or a table in memory, with its roles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

from monocal.core.roles import Roles
from monocal.logs.log_identity import identify_table
from monocal.logs.source import Source, SourceStream
from monocal.tables.row_problems import OnError, RawRows, RowProblems
from monocal.tables.stream import Table, TableStream, find_files, is_parquet, open_table


@final
class TableSource(Source):
    """Reads any table with roles.

    Arguments:
        roles: Which column plays which part; a missing column is refused with the nearest one that exists.

    Example:
        >>> source = TableSource(Roles(labels="click", fields=["site"]))
        >>> stream = source.open_table({"click": [0, 1], "site": ["a", "b"], "other": [1.5, 2.5]})
        >>> next(stream.batches()).to_pydict()
        {'click': [0, 1], 'site': ['a', 'b']}
    """

    name = "table"

    def __init__(self, roles: Roles) -> None:
        self._given = roles

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
            lambda problems: table_rows(stream, self._given, problems),
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
            self._given.check_columns(open_table(path).column_names)
        if all(is_parquet(path) for path in files):
            open_table(str(raw_dir)).check_types(self._given.columns, self._given.category_columns)
        return files

    def _rows(self, files: Sequence[Path], problems: RowProblems) -> Iterator[RawRows]:
        for path in files:
            yield from table_rows(open_table(path), self._given, problems)


def table_rows(
    stream: TableStream, schema: Roles, problems: RowProblems | None = None, columns: Sequence[str] | None = None
) -> Iterator[RawRows]:
    """Yields the rows of a table with their places; fields and groups come dictionary-encoded.

    Arguments:
        stream: The table.
        schema: Which column plays which part.
        problems: Receives malformed lines of text files, and how far the files were read.
        columns: Which columns; by default those of the schema.
    """
    wanted = list(schema.columns if columns is None else columns)
    groups = [schema.group] if schema.group and schema.group not in schema.fields else []
    coded = [name for name in (*schema.fields, *groups) if name in wanted]
    yield from stream.placed_batches(wanted, dictionary_columns=coded, slices=groups, problems=problems)


def _contents(stream: TableStream, columns: Sequence[str]) -> dict[str, Any]:
    return {} if stream.in_memory is None else {"contents": identify_table(stream.in_memory.select(list(columns)))}
