"""monocal simulate."""

from __future__ import annotations

from typing import Annotated

import typer

from monocal.cli.arguments import names
from monocal.cli.options import Debug, Json, Seed
from monocal.cli.output import print_json, print_table, remark
from monocal.core.errors import InvalidInput

EXAMPLES = """
monocal simulate log.parquet
monocal simulate big.parquet --rows 10_000_000 --world large
monocal simulate videos.parquet --world multitask
monocal simulate search.parquet --world search
monocal simulate --list
"""


def simulate(
    path: Annotated[
        str | None, typer.Argument(metavar="PATH", help="The Parquet file to write.", show_default=False)
    ] = None,
    rows: Annotated[str, typer.Option("--rows", metavar="NUMBER", help="How many impressions.")] = "100_000",
    world: Annotated[str, typer.Option("--world", metavar="NAME", help="Which kind of log; see --list.")] = "default",
    tasks: Annotated[
        list[str] | None, typer.Option("--tasks", metavar="NAMES", help="click, effective_view, long_view.")
    ] = None,
    seed: Seed = 0,
    list_worlds: Annotated[bool, typer.Option("--list", help="List the worlds and stop.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Writes a click log whose true probabilities are known.

    Columns: timestamp, user_id, one per field, then for each task a score (pctr, pev, plv), a label (click, …) and
    the truth (true_p, …).
    """
    from monocal.lab.simulator import WORLDS, write_simulated_log
    from monocal.lab.simulator.search import FIELDS
    from monocal.lab.simulator.worlds import SEARCH, SEARCH_SUMMARY

    if list_worlds:
        if as_json:
            print_json({**{name: world.summary for name, world in WORLDS.items()}, SEARCH: SEARCH_SUMMARY})
        else:
            table = [(name, world.summary, str(len(world.fields))) for name, world in WORLDS.items()]
            table.append((SEARCH, SEARCH_SUMMARY, str(len(FIELDS))))
            print_table("Worlds", ["world", "what it is", "fields"], table, left=2)
        return
    if path is None or not path.endswith(".parquet"):
        given = None if path is None else repr(path)
        raise InvalidInput.of("PATH", given, "a file ending in .parquet", "write monocal simulate log.parquet")
    n_rows = _count(rows)
    write_simulated_log(path, n_rows, seed=seed, world=world, tasks=tuple(names(tasks)) or None)
    if as_json:
        print_json({"out": path, "n_rows": n_rows, "world": world, "seed": seed})
    else:
        remark(f"wrote {n_rows:,} rows of the world {world!r} to {path}")


def _count(text: str) -> int:
    try:
        number = float(text.replace("_", "").replace(",", ""))
    except ValueError:
        number = 0.5
    if number != int(number):
        raise InvalidInput.of("--rows", repr(text), "a whole number", "write 100_000 or 1e5")
    return int(number)
