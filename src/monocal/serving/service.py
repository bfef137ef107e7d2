"""What a worker keeps between requests: its models and how they are exchanged under traffic, metrics, a shadow."""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import multiprocessing
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import final

import numpy as np
from prometheus_client import Counter

from monocal.core.errors import ArtefactError, MonocalError
from monocal.core.files import read_unchanged
from monocal.models.artefact import MODEL_FOLDER
from monocal.monitoring.registry import REGISTRY, is_registry, read_registry
from monocal.serving.engine import Answer, Engine, MissingFields, Request
from monocal.serving.settings import SHADOW_NAME, Settings
from monocal.serving.telemetry import LiveMetrics, forget_dead_workers, log_event, log_failure

_TICK_SECONDS = 1.0
Signature = tuple[tuple[str, int, int, int], ...]


@final
class ModelStore:
    """The model that answers now, and the only way to put another in its place.

    A new model is copied, and the copy has to prove itself: what was checked is what is served, whatever happens to the
    published folder meanwhile. Then the worker that loaded it writes its version into the file `active` beside the
    copies; every other worker looks there within `watch_seconds`, and a worker that is started later begins there.

    Switching is one assignment between two requests. A request keeps the engine it began with until its answer is
    built, so no answer mixes two models; the old engine is freed when the last such request is done.

    Arguments:
        name: The model's name in logs.
        folder: Where models are published, or the registry whose pointer is followed. Nothing a client sends ever
            becomes part of a path.
        home: A folder for copies, the same for all workers.
        missing_fields: As for `Engine`.
        loads: Counts attempts by name and outcome.
    """

    def __init__(self, name: str, folder: Path, home: Path, missing_fields: MissingFields, loads: Counter) -> None:
        self.name = name
        self.folder = folder
        self.last_refusal = ""
        self._home = home
        self._missing_fields = missing_fields
        self._loads = loads
        self._engine: Engine | None = None
        self._loading = asyncio.Lock()
        self._last_publication: Signature = ()
        home.mkdir(parents=True, exist_ok=True)

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            raise ArtefactError(f"model {self.name!r}: none is loaded yet")
        return self._engine

    @property
    def active_version(self) -> str:
        """The version that all workers serve, or are about to; empty before the first is loaded."""
        try:
            return (self._home / "active").read_text()
        except FileNotFoundError:
            return ""

    def start(self) -> None:
        """Loads the active version, or raises if there is nothing sound to serve."""
        try:
            self._switch(self._from_active())
        except MonocalError as error:
            self._refuse(error)
            raise ArtefactError(self.last_refusal) from error

    async def load(self) -> str:
        """Loads what the folder holds, in a thread beside the traffic, and makes it active if it proves itself.

        Returns `switched`, `unchanged` (the folder holds what is served already) or `refused`, which `last_refusal`
        explains.
        """
        return await self._exchange(self._from_folder)

    async def follow(self, every_seconds: float, *, watch: bool) -> None:
        """Loads what becomes active and, if `watch`, what is published in the folder, for ever.

        A folder that is not a registry is loaded after it has stayed the same for one look: it may be written file by
        file.
        """
        before = self._last_publication
        while True:
            await asyncio.sleep(every_seconds)
            if self.active_version != self.engine.version:
                await self._exchange(self._from_active)
            elif watch:
                now = await asyncio.to_thread(_publication, self.folder)
                if now and now != self._last_publication and (now == before or is_registry(self.folder)):
                    await self.load()
                before = now

    async def _exchange(self, prepare: Callable[[], Engine]) -> str:
        async with self._loading:
            try:
                engine = await asyncio.to_thread(prepare)
                outcome = "unchanged" if engine.version == self.engine.version else "switched"
                if outcome == "switched":
                    self._switch(engine)
            except Exception as error:
                self._refuse(error)
                outcome = "refused"
            self._loads.labels(self.name, outcome).inc()
            return outcome

    def _from_folder(self) -> Engine:
        """Returns the folder's model from a copy that is kept, and makes it active."""
        self._last_publication = _publication(self.folder)
        copy = None
        try:
            folder, expected = _published(self.folder)
            copy = Path(tempfile.mkdtemp(prefix="new-", dir=self._home))
            MODEL_FOLDER.read(folder)
            read_unchanged(folder, lambda: MODEL_FOLDER.copy(folder, copy))
            engine = self._proved(copy)
            if expected not in ("", engine.version):
                raise ArtefactError(
                    f"the registry's folder of {expected} holds {engine.version}, which was not promoted. "
                    "Hint: promote the right model again"
                )
            if self._engine is not None:
                _check_same_requests(self._engine, engine)
            self._activate(copy, engine.version)
            return engine
        except OSError as error:
            raise ArtefactError(f"the model folder cannot be copied: {error.strerror}; nothing was loaded") from error
        finally:
            if copy is not None:
                shutil.rmtree(copy, ignore_errors=True)

    def _from_active(self) -> Engine:
        """Returns the active version; without one, or if its copy is lost, what the folder holds."""
        version = self.active_version
        if self._engine is not None and self._engine.version == version:
            return self._engine
        if version:
            with suppress(MonocalError):
                return self._proved(self._home / version)
        return self._from_folder()

    def _activate(self, copy: Path, version: str) -> None:
        """Keeps a copy under its version, makes that the active one, and forgets all but the one before."""
        before = self.active_version
        with suppress(OSError):  # another worker may have kept the same one already
            copy.rename(self._home / version)
        new = copy.with_suffix(".active")
        new.write_text(version)
        new.replace(self._home / "active")
        for old in self._home.iterdir():
            if old.is_dir() and old.name not in (version, before) and not old.name.startswith("new-"):
                shutil.rmtree(old, ignore_errors=True)

    def _proved(self, folder: Path) -> Engine:
        return Engine.load(folder, missing_fields=self._missing_fields)

    def _switch(self, engine: Engine) -> None:
        was = None if self._engine is None else self._engine.version
        self._engine = engine
        self.last_refusal = ""
        log_event("model switched", model=self.name, version=engine.version, was=was)

    def _refuse(self, error: Exception) -> None:
        """Says what was wrong, but not where this machine has its files: clients learn what they need, and no more."""
        if isinstance(error, MonocalError):
            reason = re.sub(rf"{re.escape(str(self._home))}/[\w-]+", self.name, str(error))
            self.last_refusal = reason.replace(str(self.folder), self.name)
        else:
            log_failure("model load failed", error, model=self.name)
            self.last_refusal = f"it could not be read ({type(error).__name__})"
        log_event("model refused", level=logging.ERROR, model=self.name, reason=self.last_refusal)


@final
class Service:
    """Everything a worker serves with.

    Attributes:
        settings: The service's settings.
        metrics: What `/metrics` tells.
        stores: The models by the names that calls know them by: the one that answers and, if there is one, its shadow.

    Arguments:
        settings: The service's settings.
        home: A folder for copies of models, the same for all workers.
    """

    def __init__(self, settings: Settings, home: Path) -> None:
        self.settings = settings
        forget_dead_workers()
        self.metrics = LiveMetrics()
        loads = self.metrics.loads
        self._store = ModelStore(settings.name, settings.model, home / "model", settings.missing_fields, loads)
        self.stores = {settings.name: self._store}
        if settings.shadow is not None:
            shadow = ModelStore(SHADOW_NAME, settings.shadow, home / SHADOW_NAME, "unseen", loads)
            self.stores[SHADOW_NAME] = shadow

    @property
    def engine(self) -> Engine:
        """The model that answers."""
        return self._store.engine

    def calibrate(self, request: Request, engine: Engine) -> Answer:
        """Returns a whole answer or raises, and counts it."""
        answer = engine.calibrate(request)
        for column in answer.probabilities.values():
            if not np.isfinite(column).all():
                raise ArithmeticError("a model gave an answer that is not a number")
        self.metrics.observe(answer, engine)
        return answer

    async def compare_with_shadow(self, request: Request, answer: Answer, active: Engine) -> None:
        """Has the shadow score a request that was answered and counts the differences.

        It runs after the answer has gone out, in the request's own turn, so it delays no answer it belongs to and
        cannot pile up. Whatever goes wrong in it is counted and never seen by a client.

        Arguments:
            request: What was asked.
            answer: What was answered.
            active: The engine that answered.
        """
        try:
            outcome = self._compare(request, answer, active, self.stores[SHADOW_NAME].engine)
        except MonocalError:
            outcome = "refused"
        except Exception as error:
            log_failure("shadow failed", error)
            outcome = "failed"
        self.metrics.shadow_requests.labels(outcome).inc()

    def _compare(self, request: Request, answer: Answer, active: Engine, shadow: Engine) -> str:
        tasks = [task for task in answer.probabilities if task in shadow.task_names]
        has_other_ids = request.ids is not None and (
            shadow.model.vocabulary.fingerprint != active.model.vocabulary.fingerprint
        )
        if not tasks or shadow.scores_are != active.scores_are or has_other_ids:
            return "incomparable"
        known = set(shadow.field_names)
        asked = Request(
            scores={task: request.scores[task] for task in tasks},
            fields={name: column for name, column in request.fields.items() if name in known},
            shared={name: value for name, value in request.shared.items() if name in known},
            ids=request.ids,
            sampling_rate=request.sampling_rate,
        )
        other = shadow.calibrate(asked).probabilities
        for task in tasks:
            self.metrics.observe_difference(task, answer.probabilities[task], other[task])
        return "compared"

    def start(self) -> None:
        """Loads the models; raises if there is nothing sound to serve, and says so in the log."""
        for store in self.stores.values():
            store.start()

    async def run(self) -> None:
        """Follows the models' folders and hands over metrics, until it is cancelled."""
        settings = self.settings
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._tick())
                for store in self.stores.values():
                    watch = settings.watch or is_registry(store.folder)
                    group.create_task(store.follow(settings.watch_seconds, watch=watch))
        finally:
            faulthandler.cancel_dump_traceback_later()
            self.metrics.flush()

    async def _tick(self) -> None:
        """Hands metrics over once a second, and has this worker end when it is stuck or its supervisor is gone."""
        supervisor = multiprocessing.parent_process()
        while True:
            if supervisor is not None:
                # uvicorn asks a thread whether the process lives; this timer runs out if the event loop does not turn
                faulthandler.dump_traceback_later(self.settings.hang_seconds + _TICK_SECONDS, exit=True)
                if not supervisor.is_alive():
                    os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(_TICK_SECONDS)
            self.metrics.flush()


def _published(folder: Path) -> tuple[Path, str]:
    """Returns the folder of the model to serve, and the fingerprint it must have (empty if any will do).

    A registry's pointer is read anew at every call, without a lock: what is returned was active at one moment.
    """
    if not is_registry(folder):
        return folder, ""
    registry = read_registry(folder)
    return registry.model_folder, registry.current.fingerprint


def _publication(folder: Path) -> Signature:
    """Returns what changes when another model is published: a registry's pointer, or any file of a model's folder."""
    found = []
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            facts = path.stat()
            found.append((path.name, facts.st_size, facts.st_mtime_ns, facts.st_ino))
    return tuple(entry for entry in found if entry[0] == REGISTRY.manifest) or tuple(found)


def _check_same_requests(old: Engine, new: Engine) -> None:
    """Refuses a model for which requests that are right today would be wrong."""
    compared = [
        ("fields", sorted(old.field_names), sorted(new.field_names)),
        ("numeric fields", *(sorted(engine.model.vocabulary.numeric_names) for engine in (old, new))),
        ("score space", old.scores_are, new.scores_are),
        ("sampling rate column", *(isinstance(engine.sampling_rate, str) for engine in (old, new))),
        ("tasks", list(old.task_names), [name for name in old.task_names if name in new.task_names]),
        ("fusion rule", old.fusion is not None, new.fusion is not None),
    ]
    for what, before, after in compared:
        if before != after and not (what == "fusion rule" and after):
            raise ArtefactError(
                f"the new model asks for other requests than the one serving: {what} {after} instead of {before}. "
                "Hint: start a service of its own for it"
            )
