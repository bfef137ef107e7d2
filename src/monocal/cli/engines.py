"""Where the work of a verb is done: here, on Spark, or by the processes of a launcher."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, final

import typer

from monocal.cli import arguments
from monocal.cli.spark_tables import spark_table
from monocal.core.errors import InvalidInput

if TYPE_CHECKING:
    from monocal.core.team import Team

ENGINES = ("local", "spark")
FIT_ENGINES = (*ENGINES, "torchrun")

Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="local|spark",
        help="Where the work is done. With spark, TABLE is a path or a table's name that the Spark session knows.",
    ),
]
TableEngine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="local|spark",
        help="With spark, TABLE is a path or a table's name of the Spark session; the columns needed are brought here.",
    ),
]
FitEngine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="local|spark|torchrun",
        help="Where the work is done: here, on Spark, or by the processes that torchrun started.",
    ),
]
NShards = Annotated[
    int | None,
    typer.Option(
        "--shards",
        min=1,
        help="Parts that a fit is summed up by, by default one per process; the same number gives the same bits.",
    ),
]
Workers = Annotated[
    int, typer.Option("--workers", min=1, help="With --engine spark: tasks that fit one model together, one slot each.")
]
Master = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="With --engine spark: the cluster, if no session is running yet."),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="With --engine spark: a setting of Spark; once per setting."),
]


def is_spark(
    engine: str,
    master: str | None,
    conf: list[str] | None,
    unsupported: dict[str, Any],
    engines: tuple[str, ...] = ENGINES,
) -> bool:
    """Says whether Spark is asked for; refuses options that belong to the other engine.

    Arguments:
        engine: As given.
        master: As given.
        conf: As given.
        unsupported: Options that have no meaning on Spark: name to value, which must be None or empty.
        engines: The engines that the verb has.
    """
    if engine not in engines:
        raise InvalidInput.of("--engine", repr(engine), " or ".join(engines), "leave it out to work on this machine")
    if engine != "spark":
        given = "--master" if master else "--conf" if conf else ""
        if given:
            value = master or ", ".join(conf or ())
            raise InvalidInput.of(given, value, "nothing without --engine spark", "add --engine spark")
        return False
    for name, value in unsupported.items():
        if value:
            given = ", ".join(value) if isinstance(value, list) else value
            raise InvalidInput.of(name, given, "nothing with --engine spark", "leave it out, or work on this machine")
    return True


@final
@dataclass(frozen=True)
class TablePlace:
    """Where a table is, for work that is done here."""

    engine: TableEngine = "local"
    master: Master = None
    conf: Conf = None

    def open(self, paths: list[str]) -> Any:
        """Returns the table that a verb was given, which with Spark is opened by its session."""
        table = arguments.table(paths)
        if not is_spark(self.engine, self.master, self.conf, {}):
            return table
        return spark_table(table, self.master, self.conf)


@contextmanager
def joined_team(engine: str, table: str | list[str]) -> Iterator[Team | None]:
    """Joins the processes of a launcher for a fit, and leaves them when it is done; None without a launcher.

    A process that ends without leaving may be aborted by threads of the team, upon which its launcher ends the others.
    """
    if engine != "torchrun":
        yield None
        return
    from monocal.logs.log_folders import is_any_log_folder
    from monocal.training.process_group import launched_team, leave_team

    team = launched_team()
    if not is_any_log_folder(table):
        raise InvalidInput.of(
            "TABLE", repr(table), "a prepared log, of which every process reads its part", "run monocal lab prepare"
        )
    yield team
    # not after an error: the others would hear of a lost connection before the launcher tells what was wrong
    leave_team()
