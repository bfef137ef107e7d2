"""A registry: a folder of saved models, and one file that says which of them is in force.

    registry.json                 every promotion and rollback so far; the last one says what is in force
    models/<fingerprint>/         the models, one folder each, named by their contents

`registry.json` is the only thing that ever changes, and it is replaced in one step: a reader finds the state before a
promotion or the state after it. Models are only added, so that every generation can be returned to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, final

from monocal.core.errors import ArtefactError
from monocal.core.files import atomic_file
from monocal.core.manifest import FolderFormat
from monocal.core.outputs import local_path
from monocal.models.artefact import load_model
from monocal.models.model import Model

MODELS = "models"
"""The folder of a registry in which the models are."""

REGISTRY = FolderFormat(
    "monocal registry",
    1,
    "registry.json",
    called="a registry",
    remedy="restore this file from a copy, or promote into a new folder",
)
"""How a registry lies on disk."""

_FINGERPRINT = re.compile(r"[0-9a-f]{32}")


@final
@dataclass(frozen=True)
class Step:
    """One line of a registry's history.

    Arguments:
        action: Whether a model was promoted, or an earlier one returned to.
        generation: The number of the promotion whose model is in force after this step; the first has number 1.
        fingerprint: That of the model.
        at: When, in ISO 8601.
    """

    action: Literal["promote", "rollback"]
    generation: int
    fingerprint: str
    at: str


@final
@dataclass(frozen=True)
class Registry:
    """What a registry said when it was read.

    Arguments:
        folder: Where it is.
        history: Every step so far, oldest first; there is at least one.
    """

    folder: Path
    history: tuple[Step, ...]

    @property
    def current(self) -> Step:
        """The last step: its generation is in force."""
        return self.history[-1]

    @property
    def previous(self) -> Step | None:
        """The promotion to which a rollback returns: what was in force when the current generation was promoted."""
        standing = standing_promotions(self.history)
        return standing[-2] if len(standing) > 1 else None

    @property
    def model_folder(self) -> Path:
        """Where the model in force is saved."""
        return model_place(self.folder, self.current.fingerprint)

    def facts(self) -> dict[str, Any]:
        """Returns everything for programs, in plain values."""
        return {
            "format": REGISTRY.name,
            "generation": self.current.generation,
            "fingerprint": self.current.fingerprint,
            "folder": str(self.model_folder),
            "history": [asdict(step) for step in self.history],
        }

    def load(self) -> Model:
        """Returns the model in force, checked as `monocal.load` does, and that it is the one that was promoted."""
        return load_promoted(self.folder, self.current)


def is_registry(folder: str | Path) -> bool:
    """Says whether a folder has the file of a registry, whole or not."""
    return (Path(folder) / REGISTRY.manifest).is_file()


def read_registry(folder: str | Path) -> Registry:
    """Reads which model of a registry is in force and how that came about; models themselves are not read.

    No lock is taken: whoever promotes or rolls back meanwhile, what is returned was true at one moment.

    Example:
        >>> read_registry("nowhere")
        Traceback (most recent call last):
        ...
        monocal.core.errors.MissingFolder: nowhere: there is no such folder; a registry is a folder with ...
    """
    folder = local_path(folder, "registry")
    manifest = REGISTRY.read(folder)
    try:
        history = tuple(_step(facts) for facts in manifest["history"])
        _check(history)
        if manifest["current"] != _current(history):
            raise ValueError("current is not the last step of the history")
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise REGISTRY.damaged(folder, error) from error
    return Registry(folder, history)


def write_history(folder: Path, history: Sequence[Step]) -> Registry:
    """Replaces the file of a registry in one step; to be called alone in the folder."""
    entries = {"current": _current(history), "history": [asdict(step) for step in history]}
    text = json.dumps(REGISTRY.entries(entries, {}), indent=1, allow_nan=False) + "\n"
    with atomic_file(folder / REGISTRY.manifest) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return Registry(folder, tuple(history))


def model_place(folder: Path, fingerprint: str) -> Path:
    """Returns where a registry has the model with this fingerprint."""
    return folder / MODELS / fingerprint


def load_promoted(folder: Path, step: Step) -> Model:
    """Loads the model of a step; one that is damaged, or another one in its place, is refused."""
    place = model_place(folder, step.fingerprint)
    model = load_model(place)
    if model.fingerprint != step.fingerprint:
        raise ArtefactError(
            f"{place}: holds the model {model.fingerprint}, not the one that was promoted as generation "
            f"{step.generation}; nothing was loaded. Hint: promote the right model again"
        )
    return model


def standing_promotions(history: Sequence[Step]) -> list[Step]:
    """Returns the promotions that were not rolled back, oldest first; the last one is in force.

    Example:
        >>> steps = [("promote", 1), ("promote", 2), ("rollback", 1), ("promote", 3)]
        >>> [step.generation for step in standing_promotions([Step(act, n, "", "") for act, n in steps])]
        [1, 3]
    """
    standing: list[Step] = []
    for step in history:
        if step.action == "promote":
            standing.append(step)
        else:
            standing.pop()
    return standing


def _step(facts: Mapping[str, Any]) -> Step:
    step = Step(facts["action"], facts["generation"], facts["fingerprint"], facts["at"])
    if step.action not in ("promote", "rollback") or type(step.generation) is not int or not isinstance(step.at, str):
        raise ValueError(step)
    # the fingerprint becomes the name of a folder
    if not isinstance(step.fingerprint, str) or not _FINGERPRINT.fullmatch(step.fingerprint):
        raise ValueError(step)
    return step


def _check(history: Sequence[Step]) -> None:
    """Refuses a history that promotions and rollbacks cannot have written."""
    standing: list[Step] = []
    n_promotions = 0
    for step in history:
        if step.action == "promote":
            standing.append(step)
            n_promotions += 1
            is_next = step.generation == n_promotions
        else:
            standing.pop()
            is_next = (step.generation, step.fingerprint) == (standing[-1].generation, standing[-1].fingerprint)
        if not is_next:
            raise ValueError(step)


def _current(history: Sequence[Step]) -> dict[str, Any]:
    last = history[-1]
    return {
        "generation": last.generation,
        "fingerprint": last.fingerprint,
        "folder": f"{MODELS}/{last.fingerprint}",
    }
