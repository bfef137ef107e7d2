"""Exchanging the model under traffic: load, verify, switch, drain."""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from monocal.core.errors import ArtefactError, MonocalError
from monocal.serving.engine.engine import Engine
from monocal.serving.engine.request import MissingFields
from monocal.serving.logs import log_event, log_failure
from monocal.serving.runtime.snapshots import Signature, Snapshots, signature


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

    Switching is one assignment between two requests. A request keeps the engine it began with until its answer is
    built, so no answer mixes two models; the old engine is freed when the last such request is done.

    Arguments:
        name: The model's name in logs.
        folder: Where models are published. Nothing a client sends ever becomes part of a path.
        snapshots: Where private copies go.
        missing_fields: As for `Engine`.
        on_switch: Called with every engine that begins to serve.
        on_load: Called with the outcome of every attempt.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        snapshots: Snapshots,
        *,
        missing_fields: MissingFields,
        on_switch: Callable[[Engine], None] = lambda engine: None,
        on_load: Callable[[str], None] = lambda outcome: None,
    ) -> None:
        self.name = name
        self.folder = folder
        self.last_refusal = ""
        self._snapshots = snapshots
        self._missing_fields = missing_fields
        self._on_switch = on_switch
        self._on_load = on_load
        self._engine: Engine | None = None
        self._loading = asyncio.Lock()
        self._tried: Signature = ()

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            raise ArtefactError(f"model {self.name!r}: none is loaded yet")
        return self._engine

    @property
    def is_ready(self) -> bool:
        return self._engine is not None

    def start(self) -> None:
        """Loads the first model: the folder's, or, if that is refused, the one other workers serve."""
        try:
            self._switch(self._prepare(self.folder))
        except MonocalError as error:
            self._note_refusal(error)
            for good in self._snapshots.good():
                try:
                    self._switch(self._prepare(good))
                    return
                except MonocalError as other:
                    self._note_refusal(other)
            raise

    async def load(self) -> Load:
        """Loads what the folder holds, in a thread beside the traffic, and switches to it if it proves itself."""
        async with self._loading:
            try:
                engine = await asyncio.to_thread(self._prepare, self.folder)
                if engine.version == self.engine.version:
                    load = Load("unchanged", engine.version)
                else:
                    _check_same_requests(self.engine, engine)
                    self._switch(engine)
                    load = Load("switched", engine.version)
            except MonocalError as error:
                self._note_refusal(error)
                load = Load("refused", self.engine.version, self.last_refusal)
            except Exception as error:
                log_failure("model load failed", error, model=self.name)
                self.last_refusal = f"it could not be read ({type(error).__name__})"
                load = Load("refused", self.engine.version, self.last_refusal)
            self._on_load(load.outcome)
            return load

    async def watch(self, every_seconds: float) -> None:
        """Loads whenever the folder has changed and then stayed the same for one look, for ever."""
        before = self._tried
        while True:
            await asyncio.sleep(every_seconds)
            now = await asyncio.to_thread(signature, self.folder)
            if now and now == before and now != self._tried:
                await self.load()
            before = now

    def _prepare(self, folder: Path) -> Engine:
        tried = signature(folder)
        try:
            with self._snapshots.copy_of(folder) as copy:
                try:
                    engine = Engine.load(copy, missing_fields=self._missing_fields)
                except MonocalError as error:
                    # clients learn what was wrong, not where this machine keeps its files
                    raise ArtefactError(str(error).replace(str(copy), self.name)) from error
                self._snapshots.keep(copy, engine.version)
                return engine
        finally:
            self._tried = tried

    def _switch(self, engine: Engine) -> None:
        old, self._engine = self._engine, engine
        self.last_refusal = ""
        self._on_switch(engine)
        log_event("model switched", model=self.name, version=engine.version, was=old.version if old else None)
        if old is not None:
            weakref.finalize(old, _log_drained, self.name, old.version, time.monotonic()).atexit = False

    def _note_refusal(self, error: MonocalError) -> None:
        self.last_refusal = str(error)
        log_event("model refused", level=logging.ERROR, model=self.name, reason=self.last_refusal)


def _check_same_requests(old: Engine, new: Engine) -> None:
    """Refuses a model for which requests that are right today would be wrong."""
    wishes = [
        ("fields", sorted(old.field_names), sorted(new.field_names)),
        ("score space", old.scores_are, new.scores_are),
        ("sampling rate column", _rate_column(old), _rate_column(new)),
        ("tasks", list(old.task_names), [name for name in old.task_names if name in new.task_names]),
        ("fusion rule", old.fusion is not None, new.fusion is not None),
    ]
    for what, before, after in wishes:
        if before != after and not (what == "fusion rule" and after):
            raise ArtefactError(
                f"the new model asks for other requests than the one serving: {what} {after} instead of {before}. "
                "Way out: start a service of its own for it"
            )


def _rate_column(engine: Engine) -> bool:
    return isinstance(engine.sampling_rate, str)


def _log_drained(name: str, version: str, since: float) -> None:
    log_event("model drained", model=name, version=version, seconds=round(time.monotonic() - since, 6))
