"""Where the work of a verb is done: here, on Spark, or by the processes of a launcher."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from monocal.cli import arguments
from monocal.cli.options import ENGINE
from monocal.core.errors import InvalidInput

if TYPE_CHECKING:
    from monocal.core.reduce import Reducer

_NO_PARQUET = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_UNUSABLE = {
    "PATH_NOT_FOUND": "which is not there",
    "TABLE_OR_VIEW_NOT_FOUND": "which is not there",
    "UNABLE_TO_INFER_SCHEMA": "where no Parquet is",
    "CANNOT_READ_FILE_FOOTER": "which is no Parquet",
    "is not a Parquet file": "which is no Parquet",
}
"""What Spark says of a table that cannot be read, and what that means."""


class Engine(NamedTuple):
    """Where a verb works: here, on Spark or in a process group.

    Attributes:
        name: local, spark or torchrun.
        master: The cluster, for a session of Spark that starts.
        conf: Settings of Spark as `key=value`.
    """

    name: str
    master: str | None
    conf: list[str] | None

    @classmethod
    def out_of(cls, given: dict[str, Any]) -> Engine:
        """Takes the three out of the options of a verb, whose others are the library's."""
        return cls(*(given.pop(name) for name in ENGINE))

    def is_spark(self, unsupported: Mapping[str, Any] | None = None) -> bool:
        """Says whether Spark is asked for; refuses options that belong to the other engine.

        Arguments:
            unsupported: Options that have no meaning on Spark: name to value, which must be None or empty.
        """
        if self.name != "spark":
            for name, value in (("master", self.master), ("conf", ", ".join(self.conf or ()))):
                if value:
                    raise InvalidInput.of(name, value, "nothing without --engine spark", "add --engine spark")
            return False
        for name, value in (unsupported or {}).items():
            if value:
                shown = ", ".join(value) if isinstance(value, list) else value
                hint = "leave it out, or work on this machine"
                raise InvalidInput.of(name, shown, "nothing with --engine spark", hint)
        return True

    def table(self, paths: list[str]) -> Any:
        """Returns the table that a verb was given, which with Spark is opened by its session."""
        table = arguments.table(paths)
        return self.opened(table) if self.is_spark() else table

    def opened(self, table: str | list[str]) -> Any:
        """Opens Parquet paths, or a table of the session's catalogue, with the running session or a new one.

        What can be refused without a session is refused before one starts.

        Arguments:
            table: Paths, or the name of a table.
        """
        if isinstance(table, str) and table.lower().endswith(_NO_PARQUET):
            raise InvalidInput.of("TABLE", repr(table), "Parquet or a table's name", "store the log as Parquet first")
        session = _session(self.master, arguments.pairs_only("--conf", self.conf))
        try:
            found = _opened(session, table)
            found.columns  # noqa: B018 (Connect looks for the table when its columns are asked for)
        except Exception as error:
            what = next((meaning for text, meaning in _UNUSABLE.items() if text in str(error)), None)
            if what is None:
                raise
            expected = "Parquet, or the name of a table that the Spark session knows"
            raise InvalidInput.of("TABLE", f"{table!r}, {what}", expected, "check its name") from error
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
    return InvalidInput.of("out", f"{out!r}, which is there", "a folder that is not there yet", "choose another name")


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
            "engine", "spark without pyspark", "an installed pyspark", "pip install 'monocal[spark]'"
        ) from None
    builder = SparkSession.builder.appName("monocal")
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            # workers run here, and the python3 of the PATH need not be the one that has monocal
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            # what fails here is an error of one line, not as pages of Java
            settings = {"spark.log.level": "FATAL", **settings}
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        if "JAVA_GATEWAY_EXITED" not in str(error):
            raise
        got, expected = "spark, which did not start", "a --master and --conf that Spark takes"
        hint = "look at what it says above, first of all"
        if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
            got, expected, hint = "spark without java", "java 17 or newer", "install it, or set JAVA_HOME"
        raise InvalidInput.of("engine", got, expected, hint) from None


@contextmanager
def joined_team(engine: str, table: str | list[str]) -> Iterator[Reducer | None]:
    """Joins the processes of a launcher for a fit, and leaves them when it is done; None without a launcher.

    A process that ends without leaving may be aborted by threads of the team, upon which its launcher ends the others.
    """
    if engine != "torchrun":
        yield None
        return
    from monocal.core.process_group import join_from_environment, leave
    from monocal.tables.encoded import is_encoded

    team = join_from_environment()
    if not is_encoded(table):
        raise InvalidInput.of(
            "TABLE", repr(table), "a prepared log, of which every process reads its part", "run monocal lab prepare"
        )
    yield team
    # not after an error: the others would hear of a lost connection before the launcher tells what was wrong
    leave()
