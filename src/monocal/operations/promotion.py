"""Putting a model in force, and returning to the one before."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from monocal.core.disk_full import naming_disk_full
from monocal.core.errors import ArtefactError, InvalidInput
from monocal.core.files import leftovers, sync
from monocal.core.locks import alone_in
from monocal.core.outputs import local_path, output_folder
from monocal.models.artefact import MODEL_FOLDER, load_model
from monocal.operations.registry import (
    MODELS,
    REGISTRY,
    Registry,
    Step,
    is_registry,
    load_promoted,
    model_place,
    read_registry,
    write_history,
)

_N_SHOWN = 5


def promote(model: str | Path, registry: str | Path, *, at: datetime | None = None) -> Registry:
    """Copies a saved model into a registry and puts it in force as the next generation.

    The model is checked as `monocal.load` does, and so is the copy; the pointer moves only after the copy is whole and
    on the disk. A process that is killed at any moment leaves the generation before in force, or the new one. Promoting
    the model that is in force changes nothing, so a job may be repeated. Nothing in the registry is ever removed.

    Arguments:
        model: The folder of a saved model; it stays as it is.
        registry: The folder of the registry; a new or empty one becomes a registry.
        at: The time that the history states, with a time zone; now if not given.

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
    source, place, stated = Path(model), output_folder(registry, "registry"), _stated(at)
    fingerprint = load_model(source).fingerprint
    _check_place(place, source)
    _history(place)  # a damaged registry is refused before anything is copied
    with naming_disk_full(place):
        _make_folders(place)
    _keep(source, fingerprint, model_place(place, fingerprint))
    with alone_in(place):
        history = _history(place)
        if history and history[-1].fingerprint == fingerprint:
            return Registry(place, history)
        generation = 1 + max((step.generation for step in history), default=0)
        return write_history(place, (*history, Step("promote", generation, fingerprint, stated)))


def rollback(registry: str | Path, *, generation: int | None = None, at: datetime | None = None) -> Registry:
    """Returns to the model that was in force before the current generation was promoted.

    A generation that was rolled back is not returned to: after promotions 1, 2, a rollback and promotion 3, a rollback
    leads to 1. The earlier model is checked first; if it is damaged, nothing changes.

    Arguments:
        registry: The folder of the registry.
        generation: Roll back only if this generation is in force, so that two callers, or one that repeats itself, go
            back once; by default, whichever is.
        at: The time that the history states, with a time zone; now if not given.
    """
    place, stated = local_path(registry, "registry"), _stated(at)
    read_registry(place)
    with alone_in(place):
        found = read_registry(place)
        if generation is not None and generation != found.current.generation:
            raise InvalidInput.of(
                "generation",
                generation,
                f"the one in force, which is {found.current.generation}",
                "look at the history with monocal inspect, then name the generation in force or none",
            )
        earlier = found.previous
        if earlier is None:
            raise InvalidInput.of(
                "registry",
                f"{str(place)!r}, in which generation {found.current.generation} is in force and none was before it",
                "a registry with an earlier generation to return to",
                "promote another model",
            )
        try:
            load_promoted(place, earlier)
        except ArtefactError as error:
            raise ArtefactError(
                f"{error}. Generation {found.current.generation} stays in force; promote a whole model instead"
            ) from error
        step = Step("rollback", earlier.generation, earlier.fingerprint, stated)
        return write_history(place, (*found.history, step))


def _history(place: Path) -> tuple[Step, ...]:
    return read_registry(place).history if is_registry(place) else ()


def _stated(at: datetime | None) -> str:
    if at is None:
        at = datetime.now(UTC)
    if at.tzinfo is None:
        raise InvalidInput.of("at", at, "a time with a time zone", "datetime.now(UTC), for example")
    return at.astimezone(UTC).isoformat(timespec="seconds")


def _check_place(place: Path, source: Path) -> None:
    """Refuses a folder that something else uses; what lies beside the files of a registry later is left alone."""
    wish, hint = "a new or empty folder, or a registry", "choose another folder"
    shown = repr(str(place))
    if os.path.lexists(place) and not place.is_dir():
        raise InvalidInput.of("registry", f"{shown}, which is not a folder", wish, hint)
    if source.resolve() in (place.resolve(), *place.resolve().parents):
        raise InvalidInput.of("registry", f"{shown}, which is the model or lies in it", wish, hint)
    if place.is_dir() and not is_registry(place):
        # what a promotion that was killed, or another one at this moment, has written before the first pointer
        begun = {path.name for path in leftovers(place, REGISTRY.manifest, ".part.json")} | {MODELS}
        foreign = sorted(name for name in os.listdir(place) if name not in begun | {REGISTRY.manifest})
        if foreign:
            more = f" and {len(foreign) - _N_SHOWN} more" if len(foreign) > _N_SHOWN else ""
            raise InvalidInput.of("registry", f"{shown}, which holds {', '.join(foreign[:_N_SHOWN])}{more}", wish, hint)
    models = place / MODELS
    if os.path.lexists(models) and not models.is_dir():
        raise InvalidInput.of("registry", f"{shown}, in which {MODELS} is not a folder", wish, hint)


def _make_folders(place: Path) -> None:
    (place / MODELS).mkdir(parents=True, exist_ok=True)
    sync(place)
    sync(place.resolve().parent)


def _keep(source: Path, fingerprint: str, target: Path) -> None:
    """Makes sure that the registry has a whole copy of a model; what is published is what was checked."""
    if _has(target, fingerprint):
        return
    with MODEL_FOLDER.writing(target) as temporary:
        try:
            MODEL_FOLDER.copy(source, temporary)
            copied = load_model(temporary).fingerprint
        except (ArtefactError, FileNotFoundError) as error:
            raise _changed(source) from error
        if copied != fingerprint:
            raise _changed(source)


def _has(target: Path, fingerprint: str) -> bool:
    try:
        return load_model(target).fingerprint == fingerprint
    except ArtefactError:
        return False


def _changed(source: Path) -> ArtefactError:
    return ArtefactError(
        f"{source}: changed while it was copied; nothing was promoted. Hint: promote it again when it is written"
    )
