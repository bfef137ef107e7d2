"""The state of a watch on disk: one checked folder, replaced in one step after every run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import ArtefactError
from monocal.core.manifest import FolderFormat
from monocal.core.tensor_files import read_tensors, write_tensors
from monocal.operations.watching.ledger import Chart, Ledger, Scope

STATE_FOLDER = FolderFormat(
    "monocal watch state",
    1,
    "watch.json",
    called="the state of a watch",
    remedy="restore this folder from a copy, or begin a new watch with another state=",
    known=("wealth.safetensors", "values.json"),
)
"""How the state of a watch lies on disk."""

_PARTS = ("wealth", "since", "totals")


def write_state(ledger: Ledger, folder: Path) -> None:
    """Replaces the state in one step."""
    arrays: dict[str, NDArray[Any]] = {}
    values: list[list[str]] = []
    entries: list[dict[str, Any]] = []
    for task, scopes in ledger.scopes.items():
        for name, scope in scopes.items():
            for chart, sums in scope.charts.items():
                arrays |= {f"{len(entries)}.{chart}.{part}": getattr(sums, part) for part in _PARTS}
            entries.append({"task": task, "scope": name, "share": scope.share, "n_first": scope.n_first})
            values.append(list(scope.places))
    with STATE_FOLDER.writing(folder) as temporary:
        write_tensors(temporary / "wealth.safetensors", arrays)
        (temporary / "values.json").write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")
        STATE_FOLDER.seal(temporary, {"settings": ledger.settings, "periods": ledger.periods, "scopes": entries})


def read_state(folder: Path) -> Ledger:
    """Reads the state and checks that it is whole."""
    manifest = STATE_FOLDER.read(folder)
    STATE_FOLDER.verify(folder, manifest)
    try:
        arrays = read_tensors(folder / "wealth.safetensors")
        values = json.loads((folder / "values.json").read_text(encoding="utf-8"))
        scopes: dict[str, dict[str, Scope]] = {}
        for at, entry in enumerate(manifest["scopes"]):
            charts = {
                chart: Chart(*(np.array(arrays[f"{at}.{chart}.{part}"]) for part in _PARTS))
                for chart in ("pcoc", "log_loss")
            }
            places = {value: place for place, value in enumerate(values[at])}
            scope = Scope(entry["share"], entry["n_first"], places, charts)
            scopes.setdefault(entry["task"], {})[entry["scope"]] = scope
        return Ledger(manifest["settings"], list(manifest["periods"]), scopes)
    except ArtefactError:
        raise
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise STATE_FOLDER.damaged(folder, error) from error
