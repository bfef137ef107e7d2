"""monocal rollback."""

from __future__ import annotations

from typing import Annotated

import typer

from monocal.cli.options import Debug, Json, RegistryFolder
from monocal.cli.output import print_json, remark

EXAMPLES = """
monocal rollback --registry registry/
monocal rollback --registry registry/ --from 7
"""


def rollback(
    registry: RegistryFolder,
    generation: Annotated[
        int | None,
        typer.Option(
            "--from",
            min=1,
            metavar="GENERATION",
            help="Only if this generation is in force, so that a repeated call goes back once.",
        ),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Returns to the model in force before.

    That is the one that was in force when the current generation was promoted; it is checked first. A generation that
    was rolled back is not returned to.
    """
    from monocal.monitoring.registry import rollback as roll_back

    done = roll_back(registry, generation=generation)
    if as_json:
        print_json(done.facts())
        return
    remark(f"generation {done.current.generation} is in force since {done.current.at}: {done.model_folder}")
