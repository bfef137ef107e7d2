"""monocal promote."""

from __future__ import annotations

from monocal.cli.options import Debug, Json, ModelArgument, RegistryFolder
from monocal.cli.output import print_json, remark

EXAMPLES = """
monocal promote new/ --registry registry/
monocal promote new/ --registry registry/ --json | jq -r .folder
"""


def promote(
    model: ModelArgument,
    registry: RegistryFolder,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Puts a model in force in a registry.

    The model is checked and copied; then one file is replaced, which says what generation is in force. Promoting the
    model in force again changes nothing. Nothing is ever removed from the registry.
    """
    from monocal.monitoring.registry import promote as promote_model

    done = promote_model(model, registry)
    if as_json:
        print_json(done.facts())
        return
    remark(f"generation {done.current.generation} is in force since {done.current.at}: {done.model_folder}")
