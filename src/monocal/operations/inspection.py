"""What is in a registry, for people and for programs."""

from __future__ import annotations

from pathlib import Path

from monocal.core.errors import ArtefactError
from monocal.models.inspect import Inspection
from monocal.operations.registry import REGISTRY, Registry, read_registry


def inspect_registry(folder: str | Path) -> Inspection:
    """Describes a registry: the model in force and every step that led there.

    A damaged history is refused; a damaged model in force is told, since the history is what one needs then.
    """
    found = read_registry(folder)
    state = _state(found)
    current = found.current
    lines = [
        f"{REGISTRY.name}: generation {current.generation} is in force",
        f"  folder: {found.model_folder}",
        f"  model: {state}",
        "  history:",
        *(
            f"    {step.at}  {step.action:<8}  generation {step.generation}  {step.fingerprint}"
            for step in found.history
        ),
    ]
    return Inspection("\n".join(lines), {**found.facts(), "model": state})


def _state(found: Registry) -> str:
    try:
        found.load()
    except ArtefactError as error:
        return str(error)
    return "whole"
