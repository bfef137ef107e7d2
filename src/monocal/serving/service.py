"""What a worker keeps between requests: its models and how they are exchanged under traffic, metrics, a shadow."""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import final

import numpy as np

from monocal.core.errors import ArtefactError, MonocalError
from monocal.core.files import read_unchanged
from monocal.models.artefact import MODEL_FOLDER
from monocal.monitoring.registry import REGISTRY, is_registry, read_registry
from monocal.serving.engine import Answer, Engine, MissingFields, Request
from monocal.serving.limits import FeedbackRate
from monocal.serving.logs import log_event, log_failure
from monocal.serving.metrics import LiveMetrics, forget_dead_workers
from monocal.serving.settings import SHADOW_NAME, Settings

_TICK_SECONDS = 1.0
Signature = tuple[tuple[str, int, int, int], ...]


@final
@dataclass(frozen=True)
class Load:
    """How an attempt to load went.

    Attributes:
        outcome: `switched`, `unchanged` (the folder holds what is served already) or `refused`.
        version: Fingerprint of the model serving after the attempt.
        reason: Why it was refused.
    """

    outcome: str
    version: str
    reason: str = ""


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
        on_switch: Called with every engine that begins to serve.
        on_load: Called with the outcome of every attempt.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        home: Path,
        *,
        missing_fields: MissingFields,
        on_switch: Callable[[Engine], None] = lambda _engine: None,
        on_load: Callable[[str], None] = lambda _outcome: None,
    ) -> None:
        self.name = name
        self.folder = folder
        self.last_refusal = ""
        self._home = home
        self._missing_fields = missing_fields
        self._on_switch = on_switch
        self._on_load = on_load
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
            raise

    async def load(self) -> Load:
        """Loads what the folder holds, in a thread beside the traffic, and makes it active if it proves itself."""
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

    async def _exchange(self, prepare: Callable[[], Engine]) -> Load:
        async with self._loading:
            try:
                engine = await asyncio.to_thread(prepare)
                outcome = "unchanged" if engine.version == self.engine.version else "switched"
                if outcome == "switched":
                    self._switch(engine)
                load = Load(outcome, engine.version)
            except MonocalError as error:
                self._refuse(error)
                load = Load("refused", self.engine.version, self.last_refusal)
            except Exception as error:
                log_failure("model load failed", error, model=self.name)
                self.last_refusal = f"it could not be read ({type(error).__name__})"
                load = Load("refused", self.engine.version, self.last_refusal)
            self._on_load(load.outcome)
            return load

    def _from_folder(self) -> Engine:
        """Returns the folder's model from a copy that is kept, and makes it active."""
        publication = _publication(self.folder)
        copy = None
        try:
            with self._unnamed(self.folder):
                folder, expected = _published(self.folder)
            copy = Path(tempfile.mkdtemp(prefix="new-", dir=self._home))
            with self._unnamed(folder, copy):
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
            self._last_publication = publication
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
        with self._unnamed(folder):
            return Engine.load(folder, missing_fields=self._missing_fields)

    @contextmanager
    def _unnamed(self, *folders: Path) -> Iterator[None]:
        """Keeps from errors where this machine has its files: clients learn what was wrong, and no more."""
        try:
            yield
        except MonocalError as error:
            message = str(error)
            for folder in folders:
                message = message.replace(str(folder), self.name)
            raise ArtefactError(message) from error

    def _switch(self, engine: Engine) -> None:
        old, self._engine = self._engine, engine
        self.last_refusal = ""
        self._on_switch(engine)
        log_event("model switched", model=self.name, version=engine.version, was=old.version if old else None)
        if old is not None:
            weakref.finalize(old, _log_drained, self.name, old.version, time.monotonic()).atexit = False

    def _refuse(self, error: MonocalError) -> None:
        self.last_refusal = str(error)
        log_event("model refused", level=logging.ERROR, model=self.name, reason=self.last_refusal)


@final
class Shadow:
    """Compares a second model's answers with those that were sent.

    It runs after the answer has gone out, in the request's own turn, so it delays no answer it belongs to and cannot
    pile up. Whatever goes wrong in it is counted and never seen by a client.

    Arguments:
        store: Holds the shadow model.
        metrics: Where differences are counted.
    """

    def __init__(self, store: ModelStore, metrics: LiveMetrics) -> None:
        self.store = store
        self._metrics = metrics

    async def compare(self, request: Request, answer: Answer, active: Engine) -> None:
        """Scores a request that was answered and counts the differences."""
        try:
            outcome = self._compare(request, answer, active)
        except MonocalError:
            outcome = "refused"
        except Exception as error:
            log_failure("shadow failed", error)
            outcome = "failed"
        self._metrics.shadow_requests.labels(outcome).inc()

    def _compare(self, request: Request, answer: Answer, active: Engine) -> str:
        engine = self.store.engine
        tasks = [task for task in answer.probabilities if task in engine.task_names]
        if not tasks or engine.scores_are != active.scores_are:
            return "incomparable"
        if request.ids is not None and engine.vocabulary_fingerprint != active.vocabulary_fingerprint:
            return "incomparable"
        known = set(engine.field_names)
        other = engine.calibrate(
            replace(
                request,
                scores={task: request.scores[task] for task in tasks},
                fields={name: column for name, column in request.fields.items() if name in known},
                shared={name: value for name, value in request.shared.items() if name in known},
                fusion=None,
                other=None,
            )
        )
        for task in tasks:
            self._metrics.observe_difference(task, answer.probabilities[task], other.probabilities[task])
        return "compared"


@final
class Service:
    """Everything a worker serves with.

    Attributes:
        settings: The service's settings.
        metrics: What `/metrics` tells.
        store: The model that answers.
        shadow: The model that only compares, if there is one.
        feedback_rate: Bounds labels that come without a token.

    Arguments:
        settings: The service's settings.
        home: A folder for copies of models, the same for all workers.
    """

    def __init__(self, settings: Settings, home: Path) -> None:
        self.settings = settings
        forget_dead_workers()
        self.metrics = metrics = LiveMetrics()
        self.store = ModelStore(
            settings.name,
            settings.model,
            home / "model",
            missing_fields=settings.missing_fields,
            on_switch=metrics.follow,
            on_load=lambda outcome: metrics.loads.labels(settings.name, outcome).inc(),
        )
        self.shadow = None
        if settings.shadow is not None:
            beside = ModelStore(
                SHADOW_NAME,
                settings.shadow,
                home / SHADOW_NAME,
                missing_fields="unseen",
                on_load=lambda outcome: metrics.loads.labels(SHADOW_NAME, outcome).inc(),
            )
            self.shadow = Shadow(beside, metrics)
        self.feedback_rate = FeedbackRate(settings.feedback_rows_per_second)

    @property
    def engine(self) -> Engine:
        return self.store.engine

    @property
    def stores(self) -> dict[str, ModelStore]:
        """The models by the names that calls know them by."""
        found = {self.settings.name: self.store}
        if self.shadow is not None:
            found[SHADOW_NAME] = self.shadow.store
        return found

    def calibrate(self, request: Request, engine: Engine) -> Answer:
        """Returns a whole answer or raises, and counts it."""
        answer = engine.calibrate(request)
        for column in answer.probabilities.values():
            if not np.isfinite(column).all():
                raise ArithmeticError("a model gave an answer that is not a number")
        self.metrics.observe(answer)
        return answer

    def after_answer(self, request: Request, answer: Answer) -> Callable[[], Awaitable[None]] | None:
        """Returns what is left to do once an answer has gone out."""
        if self.shadow is None:
            return None
        return partial(self.shadow.compare, request, answer, self.engine)

    def start(self) -> None:
        """Loads the models; raises if there is nothing sound to serve, and says so in the log."""
        for store in self.stores.values():
            store.start()

    async def run(self) -> None:
        """Follows the models' folders and hands over metrics, until it is cancelled."""
        settings = self.settings
        jobs = [self._tick()]
        for store in self.stores.values():
            watch = settings.watch or is_registry(store.folder)
            jobs.append(store.follow(settings.watch_seconds, watch=watch))
        tasks = [asyncio.create_task(job) for job in jobs]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
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
        ("numeric fields", sorted(old.numeric_names), sorted(new.numeric_names)),
        ("score space", old.scores_are, new.scores_are),
        ("sampling rate column", _has_rate_column(old), _has_rate_column(new)),
        ("tasks", list(old.task_names), [name for name in old.task_names if name in new.task_names]),
        ("fusion rule", old.fusion is not None, new.fusion is not None),
    ]
    for what, before, after in compared:
        if before != after and not (what == "fusion rule" and after):
            raise ArtefactError(
                f"the new model asks for other requests than the one serving: {what} {after} instead of {before}. "
                "Hint: start a service of its own for it"
            )


def _has_rate_column(engine: Engine) -> bool:
    return isinstance(engine.sampling_rate, str)


def _log_drained(name: str, version: str, since: float) -> None:
    log_event("model drained", model=name, version=version, seconds=round(time.monotonic() - since, 6))
