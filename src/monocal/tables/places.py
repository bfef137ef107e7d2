"""Tables that lie elsewhere: in object stores and on the web, in partitioned folders, on standard input."""

from __future__ import annotations

import atexit
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from monocal.core.errors import InvalidInput

_PARQUET_START = b"PAR1"


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


def find_dataset(uri: str) -> Any:
    """Opens a URI as an Arrow dataset, with what its folders say; nothing is read yet.

    Raises:
        InvalidInput: If there is nothing to read.
    """
    from pyarrow import fs

    system, path = open_place(uri, "table")
    try:
        (info,) = system.get_file_info([path])
        names = [path]
        if info.type == fs.FileType.Directory:
            inside = system.get_file_info(fs.FileSelector(path, recursive=True))
            names = [entry.path for entry in inside if entry.type == fs.FileType.File]
            names = [name for name in names if not is_hidden(name[len(path) :])]
    except (pa.ArrowException, OSError) as error:
        raise _not_read(uri, error) from error
    if not names or info.type == fs.FileType.NotFound:
        raise InvalidInput.of("table", repr(uri), "a place with Parquet or CSV files", "check the path")
    return as_dataset(names, path, uri, system)


def as_dataset(names: Sequence[str], base: str, source: str, system: Any = None) -> Any:
    """Opens files as an Arrow dataset whose columns are also those that folders below `base` say, as `day=1`.

    Arguments:
        names: The files.
        base: A folder of all of them; what it and the folders above are called is no column.
        source: What errors call the table.
        system: An Arrow file system; None is this machine's.
    """
    from pyarrow import dataset

    kind: Any = "parquet"
    if re.search(r"\.[ct]sv(\.\w+)?$", names[0].lower()):
        delimiter = "\t" if ".tsv" in names[0].lower() else ","
        kind = dataset.CsvFileFormat(parse_options=pa_csv.ParseOptions(delimiter=delimiter))
    try:
        return dataset.dataset(
            sorted(names), filesystem=system, format=kind, partitioning="hive", partition_base_dir=base
        )
    except (pa.ArrowException, OSError) as error:
        raise _not_read(source, error) from error


def is_hidden(path: str) -> bool:
    """Whether a file, or a folder on the way to it, is one that Spark and others write beside a table.

    Example:
        >>> is_hidden("_temporary/0/part.parquet"), is_hidden("_day=1/part.parquet"), is_hidden("day=1/.part.crc")
        (True, False, True)
    """
    return any(part.startswith((".", "_")) and "=" not in part for part in path.split("/") if part)


def _not_read(source: str, error: Exception) -> InvalidInput:
    return InvalidInput.of(
        "table", f"{source!r}, which cannot be read ({error})", "readable Parquet or CSV", "check the place"
    )


def spool_standard_input() -> Path:
    """Copies standard input to a file that lasts as long as this process, and returns its path.

    It is Parquet by its first bytes, else CSV, or TSV if its first line has a tab. A file can be read more than once.
    """
    content = sys.stdin.buffer
    start = content.peek(4)[:4] if hasattr(content, "peek") else b""
    first = b"" if start == _PARQUET_START else content.readline()
    ending = ".parquet" if start == _PARQUET_START else ".tsv" if b"\t" in first else ".csv"
    folder = tempfile.TemporaryDirectory(prefix="monocal-")
    atexit.register(folder.cleanup)
    target = Path(folder.name) / f"standard_input{ending}"
    with target.open("wb") as write:
        write.write(first)
        shutil.copyfileobj(content, write)
    if not target.stat().st_size:
        raise InvalidInput.of("table", "empty standard input", "Parquet or CSV", "pipe a table into the command")
    return target
