"""Tables and output folders of a Spark session: what is wrong with them is told in one line."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

from monocal.core.errors import InvalidInput

_NO_PARQUET = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_UNUSABLE = {
    "PATH_NOT_FOUND": "which is not there",
    "TABLE_OR_VIEW_NOT_FOUND": "which is not there",
    "UNABLE_TO_INFER_SCHEMA": "where no Parquet is",
    "CANNOT_READ_FILE_FOOTER": "which is no Parquet",
    "is not a Parquet file": "which is no Parquet",
}
"""What Spark says of a table that cannot be read, and what that means."""


def spark_table(table: str | list[str], master: str | None, conf: list[str] | None) -> Any:
    """Opens Parquet paths, or a table of the session's catalogue, with the running session or a new one.

    What can be refused without a session is refused before one starts.

    Arguments:
        table: Paths, or the name of a table.
        master: The cluster, for a session that starts.
        conf: Settings as `key=value`.
    """
    if isinstance(table, str) and table.lower().endswith(_NO_PARQUET):
        raise InvalidInput.of("TABLE", repr(table), "Parquet or a table's name", "store the log as Parquet first")
    session = _session(master, dict(map(_setting, conf or ())))
    try:
        found = _opened(session, table)
        found.columns  # noqa: B018 (Connect looks for the table when its columns are asked for)
    except Exception as error:
        what = next((meaning for said, meaning in _UNUSABLE.items() if said in str(error)), None)
        if what is None:
            raise
        wish = "Parquet, or the name of a table that the Spark session knows"
        raise InvalidInput.of("TABLE", f"{table!r}, {what}", wish, "check its name") from error
    return found


def check_new_folder(df: Any, out: str) -> None:
    """Refuses a folder that is there, before the table is looked at.

    Spark Connect shows no file system: there Spark refuses the folder when it is written.
    """
    context = getattr(df.sparkSession, "_sc", None)
    if context is None:
        return
    path = context._jvm.org.apache.hadoop.fs.Path(out)
    if path.getFileSystem(context._jsc.hadoopConfiguration()).exists(path):
        raise folder_is_there(out)


def folder_is_there(out: str) -> InvalidInput:
    """Returns the error for an output that exists."""
    return InvalidInput.of("--out", f"{out!r}, which is there", "a folder that is not there yet", "choose another name")


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise InvalidInput.of("--conf", repr(text), "KEY=VALUE", "write --conf spark.executor.memory=4g")
    return key, value


def _opened(session: Any, table: str | list[str]) -> Any:
    if not isinstance(table, str):
        return session.read.parquet(*table)
    if "/" not in table and _is_known(session, table):
        return session.table(table)
    return session.read.parquet(table)


def _is_known(session: Any, name: str) -> bool:
    from pyspark.errors import AnalysisException

    try:
        return bool(session.catalog.tableExists(name))
    except AnalysisException:  # what no table can be called, such as log.2024.05.parquet
        return False


def _session(master: str | None, settings: dict[str, str]) -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise InvalidInput.of(
            "--engine", "spark without pyspark", "an installed pyspark", "pip install 'monocal[spark]'"
        ) from None
    builder = SparkSession.builder.appName("monocal")
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            # workers run here, and the python3 of the PATH need not be the one that has monocal
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            # what fails here comes back as an error, which is told in a line and not in pages of Java
            settings = {"spark.log.level": "FATAL", **settings}
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        if "JAVA_GATEWAY_EXITED" not in str(error):
            raise
        if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
            raise InvalidInput.of(
                "--engine", "spark without java", "java 17 or newer", "install it, or set JAVA_HOME"
            ) from None
        raise InvalidInput.of(
            "--engine",
            "spark, which did not start",
            "a --master and --conf that Spark takes",
            "look at what it says above, first of all",
        ) from None
