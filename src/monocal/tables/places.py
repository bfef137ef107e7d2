"""Where a table lies: paths, folders, globs, partitioned folders, object stores."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from monocal.core.errors import InvalidInput

CSV_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zst", ".tsv.zst")
PARQUET_ENDINGS = (".parquet", ".pq")
_LONGEST_LINE = 1 << 28


class DataFile(NamedTuple):
    """A file of a table, wherever it lies.

    Attributes:
        path: Its place in the file system.
        system: An Arrow file system; None is this machine's.
        parts: Columns that the folder says, as in `day=1`, and their value.
    """

    path: str
    system: Any = None
    parts: Mapping[str, pa.Scalar] = {}

    @property
    def name(self) -> str:
        """What errors call it."""
        return Path(self.path).name

    @property
    def is_local(self) -> bool:
        """Whether it lies on this machine."""
        return self.system is None or getattr(self.system, "type_name", "") == "local"

    def schema_with_parts(self, schema: pa.Schema) -> pa.Schema:
        """Returns the columns of the file with those that its folder says beside them."""
        said = [pa.field(name, value.type) for name, value in self.parts.items() if name not in schema.names]
        return pa.schema([*schema, *said], schema.metadata)

    def with_parts(self, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        """Returns the named columns of rows of the file, those that its folder says among them."""
        for name, value in self.parts.items():
            if name in names and name not in batch.schema.names:
                batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
        return batch.select(names)

    def open(self) -> Any:
        return pa.OSFile(self.path, "rb") if self.is_local else self.system.open_input_file(self.path)


def blocks_of_lines(
    file: DataFile, n_bytes: int, longest: int = _LONGEST_LINE, on_bytes: Callable[[int], None] | None = None
) -> Iterator[tuple[bytes, bool]]:
    """Yields blocks of whole lines, the last of them perhaps empty; says how far the file, packed or not, was read."""
    open_line: list[bytes] = []  # pieces, because joining them with every block would cost the square of their length
    n_reported, n_open, has_returns = 0, 0, None
    with reading(file.name, "text rows"), file.open() as opened, _unpacked(opened, file.path) as stream:
        while chunk := stream.read(n_bytes):
            if has_returns is None:
                chunk += stream.read(1) if chunk.endswith(b"\r") else b""
                has_returns = _ends_in_returns(chunk)
            if has_returns:
                chunk = chunk.replace(b"\r", b"\n")
            position = opened.tell()
            if on_bytes is not None:
                on_bytes(position - n_reported)
            n_reported = position
            cut = chunk.rfind(b"\n") + 1
            if cut:
                yield b"".join([*open_line, chunk[:cut]]), False
                open_line, n_open = [], 0
            open_line.append(chunk[cut:])
            n_open += len(chunk) - cut
            if n_open > longest:
                got = f"{file.name}, with a line of more than {longest >> 20} MiB"
                raise InvalidInput.of("table", got, "lines", "check the file")
    yield b"".join([*open_line, b"\n"]) if n_open else b"", True


def _ends_in_returns(text: bytes) -> bool | None:
    r"""Whether lines end with carriage returns alone, as the first end of a line tells; None if there is none yet.

    Example:
        >>> [_ends_in_returns(text) for text in (b"a,b\r1,2\r", b"a,b\r\n1,2", b"a,b\n", b"a,")]
        [True, False, False, None]
    """
    first = re.search(rb"\r\n?|\n", text)
    return None if first is None else first[0] == b"\r"


def _unpacked(file: pa.NativeFile, path: str) -> AbstractContextManager[Any]:
    for ending, codec in ((".gz", "gzip"), (".zst", "zstd"), (".bz2", "bz2")):
        if path.lower().endswith(ending):
            packed: AbstractContextManager[Any] = pa.CompressedInputStream(file, codec)
            return packed
    return nullcontext(file)


def not_readable(name: str, kind: str, error: object) -> InvalidInput:
    """Returns the refusal of a file, or a place with several, that cannot be read."""
    return InvalidInput.of(
        "table", f"{name}, which does not read as {kind} ({error})", "a whole file", "check it, or write it again"
    )


@contextmanager
def reading(name: str, kind: str = "a table") -> Iterator[None]:
    """Refuses what Arrow or the system cannot read, by its name."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise not_readable(name, kind, error) from error


def find_files(pattern: str) -> list[Path]:
    """Returns the files behind a path, a folder or a glob, sorted by name; refuses a pattern without any."""
    path = Path(pattern)
    if path.is_file():
        return [path]
    if path.is_dir():
        files, expected = _files_below(path), "a folder with Parquet or CSV files"
    else:
        found = [Path(p) for p in sorted(glob.glob(pattern, recursive=True))]
        files = [path for path in found if path.is_file()] or [file for path in found for file in _files_below(path)]
        expected = "an existing file, folder or glob"
    if not files:
        raise InvalidInput.of("table", repr(pattern), expected, "check the path")
    return files


def _files_below(folder: Path) -> list[Path]:
    """The files of a folder and of those in it; in folders of values, as Hive writes them, also without an ending."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    visible = [path for path in found if not is_hidden(path.relative_to(folder).as_posix())]
    of_values = [path for path in visible if "=" in path.parent.name]
    return [path for path in visible if is_known(path.name)] or of_values


def is_hidden(path: str) -> bool:
    """Whether a file, or a folder on the way to it, is one that Spark and others write beside a table.

    Example:
        >>> is_hidden("_temporary/0/part.parquet"), is_hidden("_day=1/part.parquet"), is_hidden("day=1/.part.crc")
        (True, False, True)
    """
    return any(part.startswith((".", "_")) and "=" not in part for part in path.split("/") if part)


def base_of(place: str) -> str:
    """Returns the folder below which folders may say columns: the place itself, or what a glob begins with."""
    path = Path(os.path.abspath(place))
    if path.exists():
        return str(path if path.is_dir() else path.parent)
    at = next(at for at, part in enumerate(path.parts) if glob.has_magic(part))
    return str(Path(*path.parts[:at]))


def with_parts(names: list[str], base: str, system: Any, source: str) -> list[DataFile]:
    """Returns files with the columns that folders below `base` say, as `day=1`; what folders above say is no column."""
    below = names if system is not None else [os.path.abspath(name) for name in names]
    if not any("=" in part for name in below for part in name[len(base) :].split("/")[:-1]):
        return [DataFile(name, system) for name in names]
    from pyarrow import dataset

    kind = "csv" if is_text(names[0]) else "parquet"
    with reading(source):
        found = dataset.dataset(
            sorted(below), filesystem=system, format=kind, partitioning="hive", partition_base_dir=base
        )
    return [data_file(fragment, found.schema) for fragment in found.get_fragments()]


def data_file(fragment: Any, schema: pa.Schema) -> DataFile:
    """Returns the file of a fragment of an Arrow dataset."""
    from pyarrow.dataset import get_partition_keys

    keys = get_partition_keys(fragment.partition_expression)
    parts = {name: pa.scalar(value, schema.field(name).type) for name, value in keys.items()}
    return DataFile(fragment.path, fragment.filesystem, parts)


def files_at(uri: str) -> tuple[list[str], str, Any]:
    """Returns the files behind a URI, the path that they are below, and their file system."""
    from pyarrow import fs

    system, path = open_place(uri, "table")
    with reading(uri):
        (info,) = system.get_file_info([path])
        names = [path]
        if info.type == fs.FileType.Directory:
            inside = system.get_file_info(fs.FileSelector(path, recursive=True))
            names = [entry.path for entry in inside if entry.type == fs.FileType.File]
            names = sorted(name for name in names if not is_hidden(name[len(path) :]))
    if not names or info.type == fs.FileType.NotFound:
        raise InvalidInput.of("table", repr(uri), "a place with Parquet or CSV files", "check the path")
    return names, path, system


def open_place(uri: str, argument: str) -> tuple[Any, str]:
    """Returns the file system of a URI and the path in it: Arrow's own, else one of fsspec.

    Arguments:
        uri: Such as `s3://bucket/log/`, `gs://bucket/log.parquet`, `https://example.org/log.parquet`.
        argument: What errors call it.

    Example:
        >>> open_place("file:///tmp/log.parquet", "table")[1]
        '/tmp/log.parquet'
    """
    from pyarrow import fs

    # Hadoop's names of the same store
    known = re.sub(r"^s3[an]://", "s3://", uri)
    scheme = known.partition("://")[0].lower()
    try:
        system, path = fs.FileSystem.from_uri(known)
    except (pa.ArrowException, OSError, ValueError) as error:
        if "Unrecognized filesystem type" not in str(error):
            raise InvalidInput.of(
                argument,
                f"{uri!r}, which cannot be opened ({error})",
                "a URI that pyarrow.fs knows",
                "check the URI and the credentials, or copy it to a local folder",
            ) from error
        try:
            import fsspec

            system = fsspec.filesystem(scheme)
        except (ImportError, ValueError) as missing:
            raise InvalidInput.of(
                argument,
                f"{uri!r}, and nothing here opens {scheme}:// ({missing})",
                "a scheme of pyarrow.fs (s3, gs, hdfs, abfs, file) or of an fsspec that is installed",
                "pip install 'monocal[remote]', or copy it to a local folder",
            ) from missing
        return fs.PyFileSystem(fs.FSSpecHandler(system)), str(system._strip_protocol(known))
    return system, str(path)


def is_parquet(name: str) -> bool:
    """Whether the ending of a file's name says Parquet."""
    return name.lower().endswith(PARQUET_ENDINGS)


def is_text(name: str) -> bool:
    """Whether the ending of a file's name says delimited text, packed or not."""
    return name.lower().endswith(CSV_ENDINGS)


def is_known(name: str) -> bool:
    """Whether the ending of a file's name says what is in it."""
    return is_parquet(name) or is_text(name)
