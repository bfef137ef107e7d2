"""A model as a folder: JSON manifest, safetensors, Arrow vocabulary. Nothing in it is ever executed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators import CALIBRATORS, calibrator
from monocal.calibrators.state import CalibratorState, with_prefix, without_prefix
from monocal.core.errors import ArtefactError
from monocal.core.files import atomic_folder
from monocal.core.fingerprint import fingerprint, fingerprint_file
from monocal.core.version import __version__
from monocal.models.fusion import Fusion
from monocal.models.model import Model, TaskModel
from monocal.vocabulary.vocabulary import Vocabulary

SCHEMA_VERSION = 1
"""Raised whenever a folder written by this version could be misread by an older one."""

_FORMAT = "monocal model"
_MANIFEST, _STATE, _VOCABULARY = "manifest.json", "state.safetensors", "vocabulary.arrow"


def save_model(model: Model, folder: str | Path) -> Path:
    """Writes `manifest.json`, `state.safetensors` and `vocabulary.arrow`; the folder appears whole or not at all."""
    from safetensors.numpy import save_file

    arrays: dict[str, NDArray[Any]] = {}
    tasks = []
    for index, one in enumerate(model.tasks):
        state = one.calibrator.state()
        arrays.update(with_prefix(f"task{index}", state.arrays))
        tasks.append(
            {
                "name": one.name,
                "score": one.score,
                "label": one.label,
                "method": one.calibrator.name,
                "parameters": one.calibrator.get_params(deep=False),
                "values": state.values,
            }
        )
    arrays.update(with_prefix("canary", dict(model.canary)))
    manifest = {
        "format": _FORMAT,
        "schema_version": SCHEMA_VERSION,
        "written_by": f"monocal {__version__}",
        "tasks": tasks,
        "fields": list(model.field_names),
        "scores_are": model.scores_are,
        "sampling_rate": model.sampling_rate,
        "fusion": None if model.fusion is None else model.fusion.as_dict(),
        "info": _plain(model.info),
    }
    folder = Path(folder)
    with atomic_folder(folder) as temporary:
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, temporary / _STATE)
        model.vocabulary.save(temporary / _VOCABULARY)
        manifest["files"] = {
            name: {"n_bytes": (temporary / name).stat().st_size, "fingerprint": fingerprint_file(temporary / name)}
            for name in (_STATE, _VOCABULARY)
        }
        manifest["fingerprint"] = fingerprint(manifest)
        (temporary / _MANIFEST).write_text(json.dumps(manifest, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return folder


def load_model(folder: str | Path) -> Model:
    """Reads a model folder after checking it; anything damaged, altered or newer is refused and nothing is loaded."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    folder = Path(folder)
    manifest = read_manifest(folder)
    for name, facts in manifest["files"].items():
        _check_file(folder / name, facts)
    try:
        arrays = load_file(folder / _STATE)
    except SafetensorError as error:
        raise ArtefactError(f"{folder / _STATE}: not a whole safetensors file ({error}); nothing was loaded") from error
    vocabulary = Vocabulary.load(folder / _VOCABULARY)
    if list(vocabulary.names) != manifest["fields"]:
        raise ArtefactError(
            f"{folder}: the manifest names the fields {manifest['fields']}, the vocabulary {list(vocabulary.names)}; "
            "nothing was loaded"
        )
    tasks = tuple(_load_task(folder, index, facts, arrays) for index, facts in enumerate(manifest["tasks"]))
    fusion = manifest["fusion"]
    return Model(
        tasks=tasks,
        vocabulary=vocabulary,
        scores_are=manifest["scores_are"],
        sampling_rate=manifest["sampling_rate"],
        fusion=None if fusion is None else Fusion(**fusion),
        info=manifest["info"],
        canary=without_prefix("canary", arrays),
    )


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """Reads and checks a model's manifest alone: format, version, and its own fingerprint."""
    path = Path(folder) / _MANIFEST
    if not path.is_file():
        raise ArtefactError(f"{path}: there is no such file; a saved model is a folder with {_MANIFEST} in it")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ArtefactError(f"{path}: not a whole JSON file ({error}); nothing was loaded") from error
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise ArtefactError(f"{path}: not a monocal model; nothing was loaded")
    version = manifest.get("schema_version")
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise ArtefactError(
            f"{path}: schema version {version}, and this monocal {__version__} reads up to {SCHEMA_VERSION}; "
            "nothing was loaded. Way out: upgrade monocal, or save the model again with this version"
        )
    stated = manifest.pop("fingerprint", None)
    if stated != fingerprint(manifest):
        raise ArtefactError(f"{path}: the contents do not match their fingerprint; nothing was loaded")
    manifest["fingerprint"] = stated
    return manifest


def check_canary(model: Model, tolerance: float) -> float:
    """Scores the canary rows again and compares with the answers stored at fit time."""
    if not model.canary:
        return 0.0
    scores = {one.name: model.canary[f"score{index}"] for index, one in enumerate(model.tasks)}
    rates = model.canary.get("sampling_rate", model.sampling_rate)
    answers = model.predict_ids(model.canary["ids"], scores, rates)
    # numpy's maximum keeps a NaN of any task; python's would drop it behind a number
    worst = float(
        np.max([np.abs(answers[one.name] - model.canary[f"answer{i}"]).max() for i, one in enumerate(model.tasks)])
    )
    if not worst <= tolerance:
        raise ArtefactError(
            f"the stored canary rows differ by {worst:.2e} from their answers at fit time (allowed {tolerance:.0e})"
        )
    return worst


def _load_task(folder: Path, index: int, facts: Mapping[str, Any], arrays: dict[str, NDArray[Any]]) -> TaskModel:
    if facts["method"] not in CALIBRATORS:
        raise ArtefactError(
            f"{folder}: task {facts['name']!r} uses the method {facts['method']!r}, which this monocal {__version__} "
            "does not have; nothing was loaded"
        )
    fitted = calibrator(facts["method"], **facts["parameters"])
    fitted.restore(CalibratorState(without_prefix(f"task{index}", arrays), dict(facts["values"])))
    return TaskModel(facts["name"], facts["score"], facts["label"], fitted)


def _check_file(path: Path, facts: Mapping[str, Any]) -> None:
    if not path.is_file():
        raise ArtefactError(f"{path}: missing; nothing was loaded")
    size = path.stat().st_size
    if size != facts["n_bytes"]:
        raise ArtefactError(f"{path}: {size} bytes instead of {facts['n_bytes']}; nothing was loaded")
    if fingerprint_file(path) != facts["fingerprint"]:
        raise ArtefactError(f"{path}: the contents do not match the manifest's fingerprint; nothing was loaded")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
