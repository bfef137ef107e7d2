"""What is in a folder, for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from monocal.core.errors import ArtefactError
from monocal.logs.log_folders import is_any_log_folder, open_log
from monocal.logs.scored_log import ScoredLog


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
        monocal.core.errors.ArtefactError: nowhere: there is no such folder; wanted a saved model or ...
    """
    path = Path(folder)
    if is_any_log_folder(path):
        return _of_log(path)
    if not (path / "manifest.json").is_file():
        problem = "not a folder with a manifest.json" if path.exists() else "there is no such folder"
        raise ArtefactError(f"{folder}: {problem}; wanted a saved model or a prepared log")
    return _of_model(path)


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
    found = open_log(folder)
    log = found.log if isinstance(found, ScoredLog) else found
    scores = list(found.logits if isinstance(found, ScoredLog) else log.scores)
    parts = {name: part.n_rows for name, part in log.parts.items()}
    fields = dict(zip(log.field_names, log.field_sizes, strict=True))
    facts = {
        "format": "monocal scored log" if isinstance(found, ScoredLog) else "monocal encoded log",
        "n_rows": log.n_rows,
        "tasks": list(log.tasks),
        "scores": scores,
        "fields": fields,
        "parts": parts,
        "fingerprint": found.fingerprint,
    }
    lines = [
        f"{facts['format']} with {log.n_rows:,} rows",
        f"  tasks: {', '.join(log.tasks)}",
        f"  scores: {', '.join(scores) or 'none yet'}",
        f"  fields: {', '.join(f'{name} ({size - 1:,})' for name, size in fields.items()) or 'none'}",
        f"  parts: {', '.join(f'{name} {n:,} rows' for name, n in parts.items()) or 'none'}",
        f"  fingerprint: {found.fingerprint}",
    ]
    return Inspection("\n".join(lines), facts)
