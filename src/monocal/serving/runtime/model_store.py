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
from monocal.serving.engine import Engine, MissingFields
from monocal.serving.logs import log_event, log_failure
from monocal.serving.runtime.published import publication, published
from monocal.serving.runtime.snapshots import Signature, Snapshots
from monocal.serving.runtime.worker_board import WorkerBoard


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

    A version is put in force on the board by the worker that has checked it; from then on every worker, and every
    worker started later, serves the private copy of that version and never what merely lies in the folder.

    Arguments:
        name: The model's name in logs.
        folder: Where models are published, or the registry whose pointer is followed. Nothing a client sends ever
            becomes part of a path.
        snapshots: Where private copies go.
        board: Where the version in force stands.
        number: The model's number on the board.
        missing_fields: As for `Engine`.
        on_switch: Called with every engine that begins to serve.
        on_load: Called with the outcome of every attempt.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        snapshots: Snapshots,
        board: WorkerBoard,
        number: int = 0,
        *,
        missing_fields: MissingFields,
        on_switch: Callable[[Engine], None] = lambda _engine: None,
        on_load: Callable[[str], None] = lambda _outcome: None,
    ) -> None:
        self.name = name
        self.folder = folder
        self.last_refusal = ""
        self._snapshots = snapshots
        self._board = board
        self._number = number
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

    @property
    def version_in_force(self) -> str:
        return self._board.version_in_force(self._number)

    def start(self) -> None:
        """Loads the version in force; the first worker of a service puts the folder's in force."""
        try:
            engine = None if self.version_in_force else self._from_folder(is_first=True)
            # another worker may have been first with another version
            if engine is None or engine.version != self.version_in_force:
                engine = self._from_copy(self.version_in_force)
        except MonocalError as error:
            self._note_refusal(error)
            raise
        self._switch(engine)

    async def load(self) -> Load:
        """Loads what the folder holds, in a thread beside the traffic, and puts it in force if it proves itself."""
        return await self._exchange(self._from_folder)

    async def follow(self) -> Load:
        """Loads the version in force, if this worker does not serve it yet."""
        return await self._exchange(lambda: self._from_copy(self.version_in_force))

    async def watch(self, every_seconds: float) -> None:
        """Loads whenever the folder has changed and then stayed the same for one look, for ever."""
        before = self._tried
        while True:
            await asyncio.sleep(every_seconds)
            now = await asyncio.to_thread(publication, self.folder)
            if now and now == before and now != self._tried:
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
                self._note_refusal(error)
                load = Load("refused", self.engine.version, self.last_refusal)
            except Exception as error:
                log_failure("model load failed", error, model=self.name)
                self.last_refusal = f"it could not be read ({type(error).__name__})"
                load = Load("refused", self.engine.version, self.last_refusal)
            self._on_load(load.outcome)
            return load

    def _from_folder(self, *, is_first: bool = False) -> Engine:
        """Returns the folder's model and puts it in force; the first model of a service gives way to an earlier one."""
        tried = publication(self.folder)
        try:
            folder, wanted = published(self.folder)
            with self._snapshots.copy_of(folder) as copy:
                engine = self._proved(copy)
                if wanted not in ("", engine.version):
                    raise ArtefactError(
                        f"the registry's folder of {wanted} holds {engine.version}, which was not promoted. "
                        "Hint: promote the right model again"
                    )
                if self._engine is not None:
                    _check_same_requests(self._engine, engine)
                with self._board.exclusive():
                    before = self.version_in_force
                    if not (is_first and before):
                        self._snapshots.keep(copy, engine.version, besides=before)
                        self._board.put_in_force(self._number, engine.version)
                return engine
        finally:
            self._tried = tried

    def _from_copy(self, version: str) -> Engine:
        """Returns a version that is in force, from its private copy or, if that is lost, from the folder."""
        if self._engine is not None and self._engine.version == version:
            return self._engine
        try:
            engine = self._proved(self._snapshots.kept(version))
        except MonocalError as lost:
            with self._snapshots.copy_of(published(self.folder)[0]) as copy:
                engine = self._proved(copy)
            if engine.version != version:
                raise ArtefactError(
                    f"the copy of the version in force, {version}, cannot be read ({lost}) and the model folder holds "
                    f"another one, {engine.version}. Hint: load a model again, or restart the service"
                ) from lost
        return engine

    def _proved(self, folder: Path) -> Engine:
        try:
            return Engine.load(folder, missing_fields=self._missing_fields)
        except MonocalError as error:
            # clients learn what was wrong, not where this machine keeps its files
            raise ArtefactError(str(error).replace(str(folder), self.name)) from error

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
        ("numeric fields", sorted(old.numeric_names), sorted(new.numeric_names)),
        ("score space", old.scores_are, new.scores_are),
        ("sampling rate column", _rate_column(old), _rate_column(new)),
        ("tasks", list(old.task_names), [name for name in old.task_names if name in new.task_names]),
        ("fusion rule", old.fusion is not None, new.fusion is not None),
    ]
    for what, before, after in wishes:
        if before != after and not (what == "fusion rule" and after):
            raise ArtefactError(
                f"the new model asks for other requests than the one serving: {what} {after} instead of {before}. "
                "Hint: start a service of its own for it"
            )


def _rate_column(engine: Engine) -> bool:
    return isinstance(engine.sampling_rate, str)


def _log_drained(name: str, version: str, since: float) -> None:
    log_event("model drained", model=name, version=version, seconds=round(time.monotonic() - since, 6))
