"""A registry: a folder of saved models, and one file that says which of them is active.

    registry.json                 every promotion and rollback so far; the last one says what is active
    models/<fingerprint>/         the models, one folder each, named by their contents

`registry.json` is the only thing that ever changes, and it is replaced in one step: a reader finds the state before a
promotion or the state after it. Models are only added, so that every generation can be returned to.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, final

from monocal.core.errors import ArtefactError, InvalidInput
from monocal.core.files import atomic_file, leftovers, local_path, naming_disk_full, output_folder, sync, turn_in
from monocal.core.folder import FolderFormat
from monocal.models.artefact import MODEL_FOLDER, load_model
from monocal.models.inspect import Inspection
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
_N_SHOWN = 5


@final
@dataclass(frozen=True)
class Step:
    """One line of a registry's history.

    Arguments:
        action: Whether a model was promoted, or an earlier one returned to.
        generation: The number of the promotion whose model is active after this step; the first has number 1.
        fingerprint: That of the model.
        at: When, in ISO 8601.
    """

    action: Literal["promote", "rollback"]
    generation: int
    fingerprint: str
    at: str

    def __post_init__(self) -> None:
        is_known = self.action in ("promote", "rollback") and type(self.generation) is int and isinstance(self.at, str)
        # the fingerprint becomes the name of a folder
        if not is_known or not isinstance(self.fingerprint, str) or not _FINGERPRINT.fullmatch(self.fingerprint):
            raise ValueError(self)


@final
@dataclass(frozen=True)
class Registry:
    """The state of a registry when it was read.

    Arguments:
        folder: Where it is.
        history: Every step so far, oldest first; there is at least one.
    """

    folder: Path
    history: tuple[Step, ...]

    @property
    def current(self) -> Step:
        """The last step: its generation is active."""
        return self.history[-1]

    @property
    def previous(self) -> Step | None:
        """The promotion to which a rollback returns: what was active when the current generation was promoted."""
        standing = standing_promotions(self.history)
        return standing[-2] if len(standing) > 1 else None

    @property
    def model_folder(self) -> Path:
        """Where the active model is saved."""
        return self.folder / MODELS / self.current.fingerprint

    def facts(self) -> dict[str, Any]:
        """Returns everything for programs, in plain values."""
        return {
            "format": REGISTRY.name,
            "generation": self.current.generation,
            "fingerprint": self.current.fingerprint,
            "folder": str(self.model_folder),
            "history": [asdict(step) for step in self.history],
        }

    def load(self, step: Step | None = None) -> Model:
        """Returns the active model, checked as `monocal.load` does, and that it is the one that was promoted.

        Arguments:
            step: Another step of the history, whose model is wanted.
        """
        step = step or self.current
        place = self.folder / MODELS / step.fingerprint
        model = load_model(place)
        if model.fingerprint != step.fingerprint:
            raise ArtefactError(
                f"{place}: holds the model {model.fingerprint}, not the one that was promoted as generation "
                f"{step.generation}; nothing was loaded. Hint: promote the right model again"
            )
        return model


def is_registry(folder: str | Path) -> bool:
    """Says whether a folder has the file of a registry, whole or not."""
    return (Path(folder) / REGISTRY.manifest).is_file()


def read_registry(folder: str | Path) -> Registry:
    """Reads which model of a registry is active and how that came about; models themselves are not read.

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
        keys = ("action", "generation", "fingerprint", "at")
        history = tuple(Step(*(facts[key] for key in keys)) for facts in manifest["history"])
        standing_promotions(history)
        if manifest["current"] != _current(history):
            raise ValueError("current is not the last step of the history")
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise REGISTRY.damaged(folder, error) from error
    return Registry(folder, history)


def promote(model: str | Path, registry: str | Path) -> Registry:
    """Copies a saved model into a registry and makes it active as the next generation.

    The model is checked as `monocal.load` does, and so is the copy; the pointer moves only after the copy is whole and
    on the disk. A process that is killed at any moment leaves the generation before active, or the new one. Promoting
    the active model changes nothing, so a job may be repeated. Nothing in the registry is ever removed.

    Arguments:
        model: The folder of a saved model; it stays as it is.
        registry: The folder of the registry; a new or empty one becomes a registry.

    Example:
        >>> import tempfile, monocal
        >>> log = {"pctr": [0.1, 0.3, 0.2, 0.4] * 50, "click": [0, 1, 0, 0] * 50}
        >>> with tempfile.TemporaryDirectory() as place:
        ...     for method in ("platt", "isotonic"):
        ...         saved = monocal.fit(log, method=method, score="pctr", label="click").save(f"{place}/{method}")
        ...         registry = promote(saved, f"{place}/registry")
        ...     print(registry.current.generation, registry.load().tasks[0].calibrator.name)
        ...     registry = rollback(f"{place}/registry")
        ...     print(registry.current.generation, registry.load().tasks[0].calibrator.name)
        2 isotonic
        1 platt
    """
    source, place = Path(model), output_folder(registry, "registry")
    fingerprint = load_model(source).fingerprint
    _check_place(place, source)
    _history(place)  # a damaged registry is refused before anything is copied
    with naming_disk_full(place):
        (place / MODELS).mkdir(parents=True, exist_ok=True)
        sync(place)
        sync(place.resolve().parent)
    _keep(source, fingerprint, place / MODELS / fingerprint)
    with turn_in(place):
        history = _history(place)
        if history and history[-1].fingerprint == fingerprint:
            return Registry(place, history)
        generation = 1 + max((step.generation for step in history), default=0)
        return write_history(place, (*history, Step("promote", generation, fingerprint, _now())))


def rollback(registry: str | Path, *, generation: int | None = None) -> Registry:
    """Returns to the model that was active before the current generation was promoted.

    A generation that was rolled back is not returned to: after promotions 1, 2, a rollback and promotion 3, a rollback
    leads to 1. The earlier model is checked first; if it is damaged, nothing changes.

    Arguments:
        registry: The folder of the registry.
        generation: Roll back only if this generation is active, so that two callers, or one that repeats itself, go
            back once; by default, whichever is.
    """
    place = local_path(registry, "registry")
    read_registry(place)
    with turn_in(place):
        found = read_registry(place)
        active, earlier = found.current.generation, found.previous
        if generation is not None and generation != active:
            raise InvalidInput.of(
                "generation",
                generation,
                f"the active one, which is {active}",
                "look at the history with monocal inspect, then name the active generation or none",
            )
        if earlier is None:
            raise InvalidInput.of(
                "registry",
                f"{str(place)!r}, in which generation {active} is active and none was before it",
                "a registry with an earlier generation to return to",
                "promote another model",
            )
        try:
            found.load(earlier)
        except ArtefactError as error:
            raise ArtefactError(f"{error}. Generation {active} stays active; promote a whole model instead") from error
        return write_history(place, (*found.history, Step("rollback", earlier.generation, earlier.fingerprint, _now())))


def inspect_registry(folder: str | Path) -> Inspection:
    """Describes a registry: the active model and every step that led there.

    A damaged history is refused; of a damaged active model it is said, since the history is what one needs then.
    """
    found = read_registry(folder)
    try:
        found.load()
        state = "whole"
    except ArtefactError as error:
        state = str(error)
    lines = [
        f"{REGISTRY.name}: generation {found.current.generation} is active",
        f"  folder: {found.model_folder}",
        f"  model: {state}",
        "  history:",
        *(
            f"    {step.at}  {step.action:<8}  generation {step.generation}  {step.fingerprint}"
            for step in found.history
        ),
    ]
    return Inspection("\n".join(lines), {**found.facts(), "model": state})


def standing_promotions(history: Sequence[Step]) -> list[Step]:
    """Returns the promotions that were not rolled back, oldest first; the last one is active.

    A history that promotions and rollbacks cannot have written is a ValueError or an IndexError.

    Example:
        >>> steps = [("promote", 1), ("promote", 2), ("rollback", 1), ("promote", 3)]
        >>> [step.generation for step in standing_promotions([Step(act, n, "0" * 32, "") for act, n in steps])]
        [1, 3]
    """
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
    return standing


def _history(place: Path) -> tuple[Step, ...]:
    return read_registry(place).history if is_registry(place) else ()


def write_history(folder: Path, history: Sequence[Step]) -> Registry:
    """Replaces the file of a registry in one step; to be called alone in the folder."""
    entries = {"current": _current(history), "history": [asdict(step) for step in history]}
    text = json.dumps(REGISTRY.entries(entries, {}), indent=1, allow_nan=False) + "\n"
    with atomic_file(folder / REGISTRY.manifest) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return Registry(folder, tuple(history))


def _current(history: Sequence[Step]) -> dict[str, Any]:
    last = history[-1]
    return {"generation": last.generation, "fingerprint": last.fingerprint, "folder": f"{MODELS}/{last.fingerprint}"}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _check_place(place: Path, source: Path) -> None:
    """Refuses a folder that something else uses; what lies beside the files of a registry later is left alone."""
    problem = ""
    if os.path.lexists(place) and not place.is_dir():
        problem = "which is not a folder"
    elif source.resolve() in (place.resolve(), *place.resolve().parents):
        problem = "which is the model or lies in it"
    elif place.is_dir() and not is_registry(place):
        # what a promotion that was killed, or another one at this moment, has written before the first pointer
        begun = {path.name for path in leftovers(place / REGISTRY.manifest, ".part.json")} | {MODELS, REGISTRY.manifest}
        foreign = sorted(name for name in os.listdir(place) if name not in begun)
        more = f" and {len(foreign) - _N_SHOWN} more" if len(foreign) > _N_SHOWN else ""
        problem = f"which holds {', '.join(foreign[:_N_SHOWN])}{more}" if foreign else ""
    if not problem and os.path.lexists(place / MODELS) and not (place / MODELS).is_dir():
        problem = f"in which {MODELS} is not a folder"
    if problem:
        expected = "a new or empty folder, or a registry"
        raise InvalidInput.of("registry", f"{str(place)!r}, {problem}", expected, "choose another folder")


def _keep(source: Path, fingerprint: str, target: Path) -> None:
    """Makes sure that the registry has a whole copy of a model; what is published is what was checked."""
    if _has(target, fingerprint):
        return
    with MODEL_FOLDER.writing(target) as temporary:
        try:
            MODEL_FOLDER.copy(source, temporary)
            is_same = load_model(temporary).fingerprint == fingerprint
        except (ArtefactError, FileNotFoundError):
            is_same = False
        if not is_same:
            what = f"{source}: changed while it was copied; nothing was promoted"
            raise ArtefactError(f"{what}. Hint: promote it again when it is written")


def _has(target: Path, fingerprint: str) -> bool:
    try:
        return load_model(target).fingerprint == fingerprint
    except ArtefactError:
        return False
