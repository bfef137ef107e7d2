"""Saved rankers: a folder with a JSON manifest and a safetensors file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from monocal.core.errors import ArtefactError
from monocal.core.files import atomic_folder
from monocal.core.fingerprint import fingerprint_file
from monocal.core.tensor_files import read_tensors, write_tensors
from monocal.lab.rankers.base import Ranker

MANIFEST = "ranker.json"
STATE = "state.safetensors"
FORMAT = "monocal ranker"
SCHEMA_VERSION = 1


def save_ranker(ranker: Ranker, folder: Path) -> None:
    """Writes a fitted ranker, whole or not at all."""
    arrays, values = ranker._state()
    with atomic_folder(folder) as temporary:
        write_tensors(temporary / STATE, arrays)
        manifest = {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "class": type(ranker).__name__,
            "parameters": ranker.get_params(),
            "tasks": list(ranker.tasks_),
            "field_names": list(ranker.field_names_),
            "field_sizes": list(ranker.field_sizes_),
            "fingerprint": ranker.fingerprint_,
            "notes": list(ranker.notes_),
            "valid_log_loss": getattr(ranker, "valid_log_loss_", None),
            "values": values,
            "checksum": fingerprint_file(temporary / STATE),
        }
        (temporary / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False), encoding="utf-8")


def load_ranker(folder: str | Path) -> Ranker:
    """Reads a saved ranker of any class.

    A damaged, tampered or newer folder is refused with `ArtefactError` and nothing is loaded.
    """
    import monocal.lab.rankers as catalogue

    folder = Path(folder)
    path = folder / MANIFEST
    if not path.is_file():
        raise ArtefactError(f"{folder} is not a saved ranker: it has no {MANIFEST}")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT:
            raise ArtefactError(f"{folder} is not a saved ranker: its format is {manifest['format']!r}")
        if manifest["schema_version"] != SCHEMA_VERSION:
            raise ArtefactError(
                f"{folder} has schema_version {manifest['schema_version']}; this version reads {SCHEMA_VERSION}"
            )
        classes = {kind.__name__: kind for kind in catalogue.RANKERS.values()}
        if manifest["class"] not in classes:
            raise ArtefactError(f"{folder} holds a {manifest['class']!r}, which this version does not know")
        if not (folder / STATE).is_file() or fingerprint_file(folder / STATE) != manifest["checksum"]:
            raise ArtefactError(f"{folder / STATE} is missing or not what was saved; nothing was loaded")
        parameters = {k: tuple(v) if isinstance(v, list) else v for k, v in manifest["parameters"].items()}
        ranker = classes[manifest["class"]](**_present_spelling(parameters))
        ranker.tasks_ = tuple(manifest["tasks"])
        ranker.field_names_ = tuple(manifest["field_names"])
        ranker.field_sizes_ = tuple(manifest["field_sizes"])
        ranker.fingerprint_ = manifest["fingerprint"]
        ranker.notes_ = tuple(manifest["notes"])
        if manifest["valid_log_loss"] is not None:
            ranker.valid_log_loss_ = manifest["valid_log_loss"]
        ranker._restore(read_tensors(folder / STATE), manifest["values"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtefactError(f"{path} is damaged ({error!r}); nothing was loaded") from error
    return ranker


def _present_spelling(parameters: dict[str, Any]) -> dict[str, Any]:
    """Turns parameters as version 0.1.0 spelled them into ours: its `variant` stood for hidden widths."""
    found = dict(parameters)
    variant = found.pop("variant", None)
    if variant is not None and found["hidden"] is None:
        found["hidden"] = {"paper": (512, 256, 128), "authors": (512, 256, 128, 64)}[variant]
    return found
