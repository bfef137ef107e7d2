"""Saved rankers: a folder with a JSON manifest and a safetensors file."""

from __future__ import annotations

from pathlib import Path

from monocal.core.errors import ArtefactError
from monocal.core.manifest import FolderFormat
from monocal.core.tensor_files import read_tensors, write_tensors
from monocal.lab.rankers.base import Ranker

STATE = "state.safetensors"


RANKER_FOLDER = FolderFormat(
    "monocal ranker",
    3,
    "ranker.json",
    called="a saved ranker",
    remedy="save the ranker again",
    anew="fit the ranker again with this version",
    known=(STATE,),
)
"""How a ranker lies on disk."""


def save_ranker(ranker: Ranker, folder: Path) -> None:
    """Writes a fitted ranker, whole or not at all."""
    arrays, values = ranker._state()
    with RANKER_FOLDER.writing(folder) as temporary:
        write_tensors(temporary / STATE, arrays)
        entries = {
            "class": type(ranker).__name__,
            "parameters": ranker.get_params(),
            "tasks": list(ranker.tasks_),
            "field_names": list(ranker.field_names_),
            "field_sizes": list(ranker.field_sizes_),
            "identity": ranker.fingerprint_,
            "notes": list(ranker.notes_),
            "valid_log_loss": getattr(ranker, "valid_log_loss_", None),
            "values": values,
        }
        RANKER_FOLDER.seal(temporary, entries)


def load_ranker(folder: str | Path) -> Ranker:
    """Reads a saved ranker of any class.

    A damaged, tampered or newer folder is refused with `ArtefactError` and nothing is loaded.
    """
    import monocal.lab.rankers as catalogue

    folder = Path(folder)
    manifest = RANKER_FOLDER.read(folder)
    RANKER_FOLDER.verify(folder, manifest)
    try:
        classes = {kind.__name__: kind for kind in catalogue.RANKERS.values()}
        if manifest["class"] not in classes:
            raise ArtefactError(f"{folder} holds a {manifest['class']!r}, which this version does not know")
        parameters = {k: tuple(v) if isinstance(v, list) else v for k, v in manifest["parameters"].items()}
        ranker = classes[manifest["class"]](**parameters)
        ranker.tasks_ = tuple(manifest["tasks"])
        ranker.field_names_ = tuple(manifest["field_names"])
        ranker.field_sizes_ = tuple(manifest["field_sizes"])
        ranker.fingerprint_ = manifest["identity"]
        ranker.notes_ = tuple(manifest["notes"])
        if manifest["valid_log_loss"] is not None:
            ranker.valid_log_loss_ = manifest["valid_log_loss"]
        ranker._restore(read_tensors(folder / STATE), manifest["values"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RANKER_FOLDER.damaged(folder, error) from error
    return ranker
