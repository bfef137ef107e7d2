"""What is in a folder, for people and for programs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from monocal.core.errors import ArtefactError


@final
@dataclass(frozen=True)
class Inspection:
    """The contents of a folder: `text` for people, `facts` for programs."""

    text: str
    facts: dict[str, Any]


def inspect_folder(folder: str | Path) -> Inspection:
    """Describes a saved model or a prepared log; a damaged one is refused.

    Example:
        >>> inspect_folder("nowhere")
        Traceback (most recent call last):
        ...
        monocal.core.errors.ArtefactError: nowhere: not a folder with a manifest.json; wanted a saved model or ...
    """
    path = Path(folder)
    return _of_log(path) if _kind(path) == "monocal encoded log" else _of_model(path)


def _kind(folder: Path) -> Any:
    manifest = folder / "manifest.json"
    if not manifest.is_file():
        raise ArtefactError(f"{folder}: not a folder with a manifest.json; wanted a saved model or a prepared log")
    try:
        found = json.loads(manifest.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ArtefactError(f"{manifest}: not a whole JSON file ({error})") from error
    return found.get("format") if isinstance(found, dict) else None


def _of_model(folder: Path) -> Inspection:
    from monocal.models.artefact import load_model, read_manifest

    model = load_model(folder)
    manifest = read_manifest(folder)
    n_bytes = sum(facts["n_bytes"] for facts in manifest["files"].values())
    text = "\n".join(
        [
            model.describe(),
            f"  written by: {manifest['written_by']}, schema version {manifest['schema_version']}",
            f"  size: {n_bytes / 1e6:,.1f} MB",
            f"  fingerprint: {manifest['fingerprint']}",
        ]
    )
    return Inspection(text, manifest)


def _of_log(folder: Path) -> Inspection:
    from monocal.data.encoded_log import EncodedLog

    log = EncodedLog.open(folder)
    parts = {name: part.n_rows for name, part in log.parts.items()}
    fields = dict(zip(log.field_names, log.field_sizes, strict=True))
    facts = {
        "format": "monocal encoded log",
        "n_rows": log.n_rows,
        "tasks": list(log.tasks),
        "scores": list(log.scores),
        "fields": fields,
        "parts": parts,
        "fingerprint": log.fingerprint,
    }
    lines = [
        f"monocal log with {log.n_rows:,} rows",
        f"  tasks: {', '.join(log.tasks)}",
        f"  scores: {', '.join(log.scores) or 'none yet'}",
        f"  fields: {', '.join(f'{name} ({size - 1:,})' for name, size in fields.items()) or 'none'}",
        f"  parts: {', '.join(f'{name} {n:,} rows' for name, n in parts.items()) or 'none'}",
        f"  fingerprint: {log.fingerprint}",
    ]
    return Inspection("\n".join(lines), facts)
