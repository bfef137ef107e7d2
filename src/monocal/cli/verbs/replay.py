"""monocal replay."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from monocal.cli.options import Debug, Json
from monocal.cli.output import print_json

EXAMPLES = """
monocal replay level/
monocal replay level/ --json
"""


def replay(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The service's level_folder.", show_default=False)],
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Works out the online level again from the log of labels.

    Every line is learned in the order in which it was written, so the numbers are those of the service to the last bit.
    """
    from monocal.operations.online_level import replay as replay_log

    version, level = replay_log(folder)
    if as_json:
        print_json({"version": version, "tasks": level.summary(), "level": level.to_json()})
        return
    typer.echo(f"model {version}")
    for task, facts in level.summary().items():
        typer.echo(
            f"{task}: level {facts['level']:+.4f} logit after {facts['n_steps']} steps, drift rate "
            f"{facts['drift_rate']:.3f}, {facts['rows_waiting']} rows wait for the next step"
        )
        for field, largest in facts["largest_by_field"].items():
            typer.echo(f"  {field}: largest shift of a value {largest:.4f}")
