"""Tables that lie elsewhere: in object stores and on the web, in partitioned folders, on standard input."""

from __future__ import annotations

import atexit
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from monocal.core.errors import InvalidInput
from monocal.core.uris import is_uri

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


def is_partitioned(folder: Path) -> bool:
    """Whether the folders inside are named `column=value`, as Hive and Spark write them."""
    return folder.is_dir() and any("=" in inner.name and inner.is_dir() for inner in folder.iterdir())


def find_dataset(place: str | Path) -> Any:
    """Opens a URI, or a local folder partitioned by `column=value`, as an Arrow dataset; nothing is read yet.

    Raises:
        InvalidInput: If there is nothing to read.
    """
    from pyarrow import dataset, fs

    system, path = open_place(place, "table") if is_uri(place) else (fs.LocalFileSystem(), str(Path(place).resolve()))
    try:
        (info,) = system.get_file_info([path])
        names = [path]
        if info.type == fs.FileType.Directory:
            inside = system.get_file_info(fs.FileSelector(path, recursive=True))
            names = [
                entry.path for entry in inside if entry.type == fs.FileType.File and not _is_hidden(entry.path, path)
            ]
        kind: Any = "parquet"
        if names and re.search(r"\.[ct]sv(\.\w+)?$", names[0].lower()):
            delimiter = "\t" if ".tsv" in names[0].lower() else ","
            kind = dataset.CsvFileFormat(parse_options=pa_csv.ParseOptions(delimiter=delimiter))
        if not names or info.type == fs.FileType.NotFound:
            raise InvalidInput.of("table", repr(str(place)), "a place with Parquet or CSV files", "check the path")
        names.sort()
        # a base folder, so that `=` in the name of a bucket or of the folder itself is no column
        return dataset.dataset(names, filesystem=system, format=kind, partitioning="hive", partition_base_dir=path)
    except (pa.ArrowException, OSError) as error:
        raise InvalidInput.of(
            "table", f"{str(place)!r}, which cannot be read ({error})", "readable Parquet or CSV", "check the place"
        ) from error


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


def _is_hidden(path: str, root: str) -> bool:
    return any(part.startswith((".", "_")) and "=" not in part for part in path[len(root) :].split("/") if part)
