"""What a data source is (a name, roles, and raw files that become a stream of rows), and any table as one."""

from __future__ import annotations

import hashlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, MonocalWarning
from monocal.core.folder import fingerprint
from monocal.tables.columns import RawRows
from monocal.tables.csv import OnError, RowProblems
from monocal.tables.files import find_files, is_parquet
from monocal.tables.roles import Roles
from monocal.tables.source import TableLike, TableStream, open_table


@final
@dataclass(frozen=True)
class SourceStream:
    """The rows of a source, ready to be read (any number of times) or encoded.

    Attributes:
        name: What the source is called.
        schema: Which column plays which part.
        paths: The files behind it, in reading order; empty for a table in memory.
        settings: What else decides the rows, as plain values.
        read: Yields raw rows and reports malformed ones to what it is given.
        on_error: What happens to malformed rows.
    """

    name: str
    schema: Roles
    paths: tuple[Path, ...]
    read: Callable[[RowProblems], Iterator[RawRows]]
    settings: dict[str, Any]
    on_error: OnError = "raise"

    def batches(self) -> Iterator[Any]:
        """Yields Arrow record batches with the raw values; malformed rows are refused or left out."""
        for rows in self.read(RowProblems(self.on_error)):
            yield rows.batch


class Source(ABC):
    """A public or private data set in its raw format.

    A subclass gives `name` and `notice`, the schema, the files it reads and how it reads them. Rows come out in
    file order with one column per column of the schema.
    """

    name: ClassVar[str]
    """What commands and studies call it."""

    notice: ClassVar[str] = ""
    """Licence or attribution that must be shown with results; empty if there is none."""

    package: ClassVar[str] = ""
    """A package that brings the raw files in its folder `data`; empty if none does."""

    @property
    @final
    def schema(self) -> Roles:
        return self._schema()

    @final
    def open(self, raw_dir: str | Path, *, on_error: OnError = "raise") -> SourceStream:
        """Finds the raw files and returns their rows as a stream; nothing is read yet.

        Arguments:
            raw_dir: The folder with the raw files, or the one file if the source has only one.
            on_error: "raise" refuses the first malformed row; "skip" counts and leaves out malformed rows.
        """
        RowProblems(on_error)
        files = self._files(Path(raw_dir))
        return SourceStream(
            name=self.name,
            schema=self.schema,
            paths=tuple(files),
            read=lambda problems: self._rows(files, problems),
            settings={"source": self.name, **self._settings()},
            on_error=on_error,
        )

    @final
    def installed_folder(self) -> Path | None:
        """Returns where the installed package keeps the raw files; None if there is none. Nothing is imported."""
        found = find_spec(self.package) if self.package else None
        if found is None or not found.submodule_search_locations:
            return None
        return Path(next(iter(found.submodule_search_locations))) / "data"

    @abstractmethod
    def _schema(self) -> Roles:
        """Returns the meaning of the columns that `_rows` yields."""

    @abstractmethod
    def _files(self, raw_dir: Path) -> Sequence[Path]:
        """Returns the files to read, or explains which one is missing."""

    @abstractmethod
    def _rows(self, files: Sequence[Path], problems: RowProblems) -> Iterator[RawRows]:
        """Yields the rows of the files and reports malformed ones."""

    def _settings(self) -> dict[str, Any]:
        """Returns what else decides the rows, as plain values."""
        return {}


def find_file(raw_dir: Path, names: Sequence[str], source: str) -> Path:
    """Returns the first of several possible files in a folder, plain or compressed, or `raw_dir` if it is a file."""
    if raw_dir.is_file():
        return raw_dir
    for name in names:
        for ending in ("", ".gz", ".zst"):
            path = raw_dir / (name + ending)
            if path.is_file():
                return path
    expected = " or ".join(names)
    expected = f"a folder with {expected} (plain, .gz or .zst)"
    raise InvalidInput.of("raw_dir", repr(str(raw_dir)), expected, f"fetch the raw files of {source}")


@final
class TableSource(Source):
    """Reads any table with roles.

    Arguments:
        roles: Which column plays which part; a missing column is refused with the nearest one that exists.

    Example:
        >>> source = TableSource(Roles(label="click", fields=["site"]))
        >>> stream = source.open_table({"click": [0, 1], "site": ["a", "b"], "other": [1.5, 2.5]})
        >>> next(stream.batches()).to_pydict()
        {'click': [0, 1], 'site': ['a', 'b']}
    """

    name = "table"

    def __init__(self, roles: Roles) -> None:
        self._given = roles

    def open_table(self, table: TableLike, *, on_error: OnError = "raise") -> SourceStream:
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
        if all(is_parquet(path.name) for path in files):
            open_table(str(raw_dir)).check_types(self._given.columns, self._given.category_columns)
        return files

    def _rows(self, files: Sequence[Path], problems: RowProblems) -> Iterator[RawRows]:
        for path in files:
            yield from table_rows(open_table(path), self._given, problems)


def drop_malformed(problems: RowProblems, rows: RawRows, bad: NDArray[np.bool_], got: Any, expected: str) -> RawRows:
    """Reports the bad rows and returns the others.

    Arguments:
        problems: Receives them.
        rows: The rows.
        bad: Which of them are malformed.
        got: What each row holds, by position: anything that can be indexed.
        expected: What it should hold.
    """
    for position in np.flatnonzero(bad).tolist():
        problems.report(rows.file, rows.unit, int(rows.numbers[position]), _shown(got[position]), expected)
    return rows.keep(~bad)


def _shown(value: Any) -> str:
    plain = value.as_py() if isinstance(value, pa.Scalar) else value
    text = repr(plain)
    return text if len(text) <= 60 else text[:57] + "..."


def warn_about_skipped(summary: Mapping[str, Any], n_kept: int) -> None:
    """Warns once about the rows that were left out."""
    if summary["n_rows"]:
        shown = "; ".join(summary["examples"][:3])
        warnings.warn(
            f"left out {summary['n_rows']:,} malformed rows and kept {n_kept:,}. First: {shown}",
            MonocalWarning,
            stacklevel=3,
        )


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
    return {} if stream.in_memory is None else {"contents": _identify_table(stream.in_memory.select(list(columns)))}


def _identify_table(table: pa.Table) -> str:
    """Returns the fingerprint of a table in memory."""
    digest = hashlib.blake2b(digest_size=16)
    for batch in table.to_batches():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        digest.update(sink.getvalue())
    return fingerprint(table.num_rows, digest.hexdigest())
