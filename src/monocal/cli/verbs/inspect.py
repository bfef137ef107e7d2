"""monocal inspect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from monocal.cli.options import Debug, Json
from monocal.cli.output import print_json, print_lines
from monocal.cli.prose import folded
from monocal.cli.spelling import carry_as_option

EXAMPLES = """
monocal inspect model/
monocal inspect model/ --json | jq .tasks
monocal inspect model/ --history
monocal inspect registry/
"""


def inspect(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A saved model, a prepared log, or a registry.")],
    history: Annotated[
        bool, typer.Option("--history", help="The generations of a model: where it came from and what moved.")
    ] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Says what is in a model, a log or a registry."""
    from monocal.models.inspect import inspect_folder, inspect_history
    from monocal.monitoring.registry import inspect_registry, is_registry

    if history and not is_registry(folder):
        found = inspect_history(folder)
    else:
        found = inspect_registry(folder) if is_registry(folder) else inspect_folder(folder)
    if as_json:
        print_json(found.facts)
    else:
        print_lines(folded(carry_as_option(found.text)))
