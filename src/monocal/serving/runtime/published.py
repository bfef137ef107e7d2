"""Where the model to serve lies: in a folder of its own, or in the registry that says which one is in force."""

from __future__ import annotations

from pathlib import Path

from monocal.core.errors import ArtefactError
from monocal.monitoring.registry import REGISTRY, is_registry, read_registry
from monocal.serving.runtime.snapshots import Signature, signature


def published(folder: Path) -> tuple[Path, str]:
    """Returns the folder of the model to serve, and the fingerprint it must have (empty if any will do).

    A registry's pointer is read anew at every call, without a lock: what is returned was in force at one moment.
    """
    if not is_registry(folder):
        return folder, ""
    try:
        registry = read_registry(folder)
    except ArtefactError as error:
        # clients learn what was wrong, not where this machine keeps its files
        raise ArtefactError(str(error).replace(str(folder), "the registry")) from error
    return registry.model_folder, registry.current.fingerprint


def publication(folder: Path) -> Signature:
    """Returns what changes when another model is published: a registry's pointer, or any file of a model's folder."""
    found = signature(folder)
    return tuple(entry for entry in found if entry[0] == REGISTRY.manifest) or found
