"""What a data source is: a name, a schema, and raw files that become a stream of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, final

from monocal.core.errors import InvalidInput
from monocal.core.roles import Roles
from monocal.tables.row_problems import OnError, RawRows, RowProblems


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
    wish = " or ".join(names)
    raise InvalidInput.of(
        "raw_dir", repr(str(raw_dir)), f"a folder with {wish} (plain, .gz or .zst)", f"fetch the raw files of {source}"
    )
