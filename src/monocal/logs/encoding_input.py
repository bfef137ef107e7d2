"""What is to be encoded, how it is recognised again, and how its rows are read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from monocal.core.errors import InvalidInput
from monocal.core.roles import Roles
from monocal.logs.log_identity import identify_files
from monocal.logs.log_readers import LogReader, TableReader, spool_source
from monocal.logs.source import SourceStream
from monocal.logs.table_source import TableSource
from monocal.tables.row_problems import OnError
from monocal.tables.stream import Table, TableStream, is_parquet, open_table


@final
@dataclass(frozen=True)
class EncodingInput:
    """A log about to be encoded.

    Attributes:
        stream: Its rows.
        identity: Plain values that change when the files change; a table in memory is among the stream's settings.
        direct: The table, if reading it twice is cheaper than keeping a copy of its rows.
    """

    stream: SourceStream
    identity: Any
    direct: TableStream | None

    @classmethod
    def of(cls, log: Table | SourceStream, roles: Roles | None, on_error: OnError | None) -> EncodingInput:
        """Accepts a source's stream, or a table together with its roles."""
        if isinstance(log, SourceStream):
            if roles is not None and roles != log.schema:
                raise InvalidInput.of("roles", "others than the source's", "None", "leave the roles to the source")
            return cls(replace(log, on_error=on_error or log.on_error), identify_files(log.paths), None)
        if roles is None:
            raise InvalidInput.of("roles", None, "the parts of the columns", "pass a Roles with the table")
        if roles.numeric:
            raise InvalidInput.of(
                "numeric",
                list(roles.numeric),
                "no numeric fields in a prepared log, which holds categories",
                "fit the table itself with numeric=, or leave them out",
            )
        stream = TableSource(roles).open_table(log, on_error=on_error or "raise")
        is_text = not all(is_parquet(path) for path in stream.paths)
        table = None if is_text or stream.on_error != "raise" else open_table(log)
        # the rows of a dataset of text are not counted before they are read
        direct = None if table is None or table.n_rows is None else table
        return cls(stream, identify_files(stream.paths), direct)

    @property
    def roles(self) -> Roles:
        return self.stream.schema

    def reader(self, stage: Path, show_progress: bool | None) -> tuple[LogReader, dict[str, Any]]:
        """Returns a reader of the clean rows and a summary of the malformed ones."""
        if self.direct is not None:
            return TableReader(self.direct, self.roles), {"n_rows": 0, "examples": []}
        spool = spool_source(self.stream, stage / "rows.arrow", show_progress)
        return spool, spool.notes()["skipped"]
