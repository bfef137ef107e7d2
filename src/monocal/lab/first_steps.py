"""The two verbs that a newcomer starts with, `monocal demo` and `monocal simulate`."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from monocal.cli.options import Names, Natural, Range
from monocal.cli.output import print_json, print_table, remark
from monocal.core.errors import InvalidInput

EXAMPLES = {
    "demo": """
monocal demo
monocal demo --out runs/demo --rows 500000 --seed 1
""",
    "simulate": """
monocal simulate log.parquet
monocal simulate big.parquet --rows 10_000_000 --world large
monocal simulate videos.parquet --world multitask
monocal simulate search.parquet --world search
monocal simulate --list
""",
}


def demo(
    *, out: str = "runs/demo", rows: Annotated[int, Range(5000)] = 150_000, seed: Natural = 0, as_json: bool = False
) -> None:
    """Goes all the way once, on a simulated log.

    A click log is simulated, ranked and calibrated with many methods; a model is saved. The oldest 60 % of
    the rows train the ranker; then the page changes and the ranker does not. The next 20 % fit calibrators, the
    newest 20 % judge them.

    Arguments:
        out (FOLDER): What to write.
        rows: Rows of the simulated log.
    """
    from monocal.lab.demo import LEFT_OUT, SAVED_METHOD, run_demo

    found = run_demo(out, n_rows=rows, seed=seed)
    remark(found.comparison.holdout.explanation)
    if as_json:
        print_json(
            found.comparison.as_dict()
            | {
                "errors_to_truth": found.errors,
                "lead": None if found.lead is None else asdict(found.lead),
                "model": str(found.model_folder),
                "report": str(found.report),
            }
        )
        return
    from monocal.cli.tables import print_comparison

    print_comparison(found.comparison)
    if found.lead is not None:
        typer.echo(f"\n{found.lead}")
    typer.echo("\nMean absolute error to the true probability, which only a simulator knows:")
    for method, error in sorted(found.errors.items(), key=lambda item: item[1]):
        typer.echo(f"  {method:<14} {error:.5f}")
    typer.echo(f"\nmodel   {found.model_folder}\nscores  {found.scored_log}\nreport  {found.report}")
    calibrated = found.test_log.with_name("calibrated.parquet")
    started = Path(sys.argv[0])
    command = f"{shlex.quote(sys.executable)} -m monocal" if started.suffix == ".py" else shlex.quote(str(started))
    typer.echo(
        f"\nTry next:\n  {command} inspect {found.model_folder}"
        f"\n  {command} apply {found.model_folder} {found.test_log} --out {calibrated}"
        f"\nand {LEFT_OUT}, which takes longer than all methods above together, on the same rows:"
        f"\n  {command} compare {found.scored_log} --methods {SAVED_METHOD},{LEFT_OUT} --score pctr --label click "
        f"--fields {','.join(found.fields)} --time timestamp --group user_id --holdout 0.5"
    )


def simulate(
    path: str | None = None,
    *,
    rows: str = "100_000",
    world: str = "default",
    tasks: Names = None,
    seed: Natural = 0,
    list_worlds: Annotated[bool, typer.Option("--list", help="List the worlds and stop.")] = False,
    as_json: bool = False,
) -> None:
    """Writes a click log whose true probabilities are known.

    Columns: timestamp, user_id, one per field, then for each task a score (pctr, pev, plv), a label (click, …) and
    the truth (true_p, …).

    Arguments:
        path (PATH): The Parquet file to write.
        rows (NUMBER): How many impressions.
        world (NAME): Which kind of log; see --list.
        tasks (NAMES): click, effective_view, long_view.
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
    write_simulated_log(path, n_rows, seed=seed, world=world, tasks=tuple(tasks or ()) or None)
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
