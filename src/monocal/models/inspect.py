"""What is in a folder, for people and for programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from monocal.core.errors import ArtefactError, MissingFolder
from monocal.tables.encoded import ENCODED_LOG, SCORED_LOG, is_encoded, open_encoded
from monocal.tables.vocabulary import NumericField

if TYPE_CHECKING:
    from monocal.models.model import Model

_MONOTONE = {"strict": "strictly monotone", "weak": "monotone with ties", "none": "not monotone"}


@final
@dataclass(frozen=True)
class Inspection:
    """The contents of a folder: `text` for people, `facts` for programs."""

    text: str
    facts: dict[str, Any]


def describe_model(model: Model) -> str:
    """Returns what a model calibrates, with what, and what its fit knew, in lines for people."""
    lines = [f"monocal model with {len(model.tasks)} task{'s' if len(model.tasks) > 1 else ''}"]
    for task in model.tasks:
        tags = task.calibrator.tags
        lines.append(
            f"  {task.name}: {task.score} ({model.scores_are}) -> {task.calibrator.name}, fitted on {task.label}; "
            f"{_MONOTONE[tags.monotone]}{' for fixed features' if tags.uses_features else ''}"
        )
        if task.calibrator.fell_back_:
            lines.append("    fell back to the uncalibrated score: the fit was worse on its own recent rows")
        lines += [f"    {line}" for line in model.carried(task.name)]
    sizes = ", ".join(f"{name} ({model.vocabulary[name].size - 1:,})" for name in model.vocabulary.category_names)
    lines.append(f"  fields: {sizes or 'none'}")
    for known in model.vocabulary.fields:
        if isinstance(known, NumericField):
            span = f", {known.knots[0]:g} to {known.knots[-1]:g}" if known.knots else ""
            lines.append(f"  numeric field: {known.name} ({known.n_knots} knots{span})")
    if model.sampling_rate is not None:
        lines.append(f"  sampling rate: {model.sampling_rate}")
    if model.fusion is not None:
        lines.append(f"  fusion: {model.fusion.as_dict()}")
    for key, value in model.info.items():
        if isinstance(value, int | float | str):
            lines.append(f"  {key.replace('_', ' ')}: {f'{value:,}' if isinstance(value, int) else value}")
    return "\n".join(lines)


def inspect_folder(folder: str | Path) -> Inspection:
    """Describes a saved model or a prepared log; a damaged one is refused.

    Example:
        >>> inspect_folder("nowhere")
        Traceback (most recent call last):
        ...
        monocal.core.errors.MissingFolder: nowhere: there is no such folder; expected a saved model or ...
    """
    path = Path(folder)
    if is_encoded(path):
        return _of_log(path)
    if not (path / "manifest.json").is_file():
        if not path.exists():
            raise MissingFolder(
                f"{folder}: there is no such folder; expected a saved model or a prepared log. Hint: check the path"
            )
        raise ArtefactError(f"{folder}: not a folder with a manifest.json; expected a saved model or a prepared log")
    return _of_model(path)


def inspect_history(folder: str | Path) -> Inspection:
    """Describes the generations of a saved model: where it came from, and what each refresh moved."""
    from monocal.models.artefact import load_model

    info = load_model(folder).info
    first = info.get("learned_from", [{}])[0]
    rows = f"{first['n_rows']:,} rows" if "n_rows" in first else "rows that it does not remember"
    text = "\n".join([f"generation 1: fitted on {rows}", *history_lines(info)])
    return Inspection(text, {"generation": info.get("generation", 1), "history": list(info.get("history", ()))})


def history_lines(info: Mapping[str, Any]) -> list[str]:
    """Returns one line per refresh: its rows and what moved, the level as a change of the odds.

    Example:
        >>> site = {"moved": 0.02, "largest": "a", "largest_move": 0.3}
        >>> moved = {"level": {"moved": 0.0953}, "fields": {"site": site}}
        >>> entry = {"generation": 2, "parent": "0123456789abcdef", "n_rows": 1000, "new_values": {"site": 0}}
        >>> print(history_lines({"history": [{**entry, "tasks": {"click": moved}}]})[0])
        generation 2: 1,000 rows after 01234567; click: level +10.0 %, site ±0.020 (most: a +0.300)
    """
    lines = []
    for entry in info.get("history", ()):
        parts = [f"generation {entry['generation']}: {entry['n_rows']:,} rows after {entry['parent'][:8]}"]
        for task, moved in entry["tasks"].items():
            said = [f"level {math.expm1(moved['level']['moved']):+.1%}".replace("%", " %")]
            said += [f"{name} {moved[name]['moved']:+.3f}" for name in ("slope", "network") if name in moved]
            said += [
                f"{name} ±{moves['moved']:.3f} (most: {moves['largest']} {moves['largest_move']:+.3f})"
                for name, moves in moved["fields"].items()
            ]
            parts.append(f"{task}: {', '.join(said)}")
        new = [f"{n:,} new values of {name}" for name, n in entry["new_values"].items() if n]
        lines.append("; ".join([*parts, *new]))
    return lines


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
    found = open_encoded(folder)
    parts = {name: stop - start for name, (start, stop) in found.parts.items()}
    fields = dict(zip(found.field_names, found.encoding[1].sizes, strict=True))
    facts = {
        "format": (SCORED_LOG if (folder / SCORED_LOG.manifest).is_file() else ENCODED_LOG).name,
        "n_rows": found.n_rows,
        "tasks": list(found.labels),
        "scores": list(found.scores),
        "fields": fields,
        "parts": parts,
        "fingerprint": found.identity,
    }
    lines = [
        f"{facts['format']} with {found.n_rows:,} rows",
        f"  tasks: {', '.join(found.labels)}",
        f"  scores: {', '.join(found.scores) or 'none yet'}",
        f"  fields: {', '.join(f'{name} ({size - 1:,})' for name, size in fields.items()) or 'none'}",
        f"  parts: {', '.join(f'{name} {n:,} rows' for name, n in parts.items()) or 'none'}",
        f"  fingerprint: {found.identity}",
    ]
    return Inspection("\n".join(lines), facts)
