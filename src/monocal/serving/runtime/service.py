"""One worker's parts, and the steps that every way of asking shares."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import final

import numpy as np

from monocal.monitoring.registry import is_registry
from monocal.serving.engine import Answer, Engine, Request
from monocal.serving.runtime.feedback_rate import FeedbackRate
from monocal.serving.runtime.live_metrics import LiveMetrics
from monocal.serving.runtime.model_store import Load, ModelStore
from monocal.serving.runtime.shadow import Shadow
from monocal.serving.runtime.snapshots import Snapshots
from monocal.serving.runtime.worker_board import WorkerBoard
from monocal.serving.settings import SHADOW_NAME, Settings

ACTIVE, SHADOW = 0, 1
"""Numbers of the models in the board's file."""

_LOOK_SECONDS = 0.2
_FLUSH_SECONDS = 1.0
_LOAD_SECONDS = 60.0
_TRY_AGAIN_SECONDS = 5.0


@final
@dataclass
class Service:
    """Everything a worker serves with.

    Attributes:
        settings: The service's settings.
        metrics: What `/metrics` tells.
        store: The model that answers.
        shadow: The model that only compares, if there is one.
        board: What this worker tells the others.
        feedback_rate: Bounds labels that come without a token.
    """

    settings: Settings
    metrics: LiveMetrics
    store: ModelStore
    shadow: Shadow | None
    board: WorkerBoard
    feedback_rate: FeedbackRate
    _seen: dict[int, int] = field(default_factory=dict)

    @classmethod
    def build(cls, settings: Settings, home: Path, board: WorkerBoard) -> Service:
        """Puts a worker's parts together; `start` brings them to life.

        Arguments:
            settings: The service's settings.
            home: A folder for private copies of models, the same for all workers.
            board: What this worker tells the others.
        """
        metrics = LiveMetrics(settings.workers)
        store = ModelStore(
            settings.name,
            settings.model_folder,
            Snapshots(home / "active"),
            board,
            ACTIVE,
            missing_fields=settings.missing_fields,
            on_switch=metrics.follow,
            on_load=lambda outcome: metrics.loads.labels(settings.name, outcome).inc(),
        )
        shadow = None
        if settings.shadow_folder is not None:
            beside = ModelStore(
                SHADOW_NAME,
                settings.shadow_folder,
                Snapshots(home / "shadow"),
                board,
                SHADOW,
                missing_fields="unseen",
                on_load=lambda outcome: metrics.loads.labels(SHADOW_NAME, outcome).inc(),
            )
            shadow = Shadow(beside, metrics)
        rate = FeedbackRate(settings.feedback_rows_per_second)
        return cls(settings, metrics, store, shadow, board, rate)

    @property
    def engine(self) -> Engine:
        return self.store.engine

    @property
    def is_ready(self) -> bool:
        return self.store.is_ready

    @property
    def stores(self) -> dict[int, ModelStore]:
        """The models by their numbers in the board's file."""
        found = {ACTIVE: self.store}
        if self.shadow is not None:
            found[SHADOW] = self.shadow.store
        return found

    def calibrate(self, request: Request, engine: Engine) -> Answer:
        """Returns a whole answer or raises."""
        answer = engine.calibrate(request)
        for column in answer.probabilities.values():
            if not np.isfinite(column).all():
                raise ArithmeticError("a model gave an answer that is not a number")
        return answer

    def after_answer(self, request: Request, answer: Answer) -> Callable[[], Awaitable[None]] | None:
        """Counts a request; returns what is left to do once its answer has gone out."""
        self.metrics.observe(answer)
        if self.shadow is None or not self.shadow.store.is_ready:
            return None
        return partial(self.shadow.compare, request, answer, self.engine)

    def start(self) -> None:
        """Loads the models; raises if there is nothing sound to serve."""
        for model, store in self.stores.items():
            store.start()
            self._report(model, Load("switched", store.engine.version))
        self.board.beat()
        self.board.report_ready()

    async def load(self, model: int) -> tuple[Load, dict[str, int]]:
        """Loads a model here and, if that went well, in every other worker.

        Returns how it went here, and how many workers have done what by the time all have, or patience is over.
        """
        load = await self.stores[model].load()
        if load.outcome == "refused":
            return load, {}
        number = self._report(model, load)
        deadline = time.monotonic() + _LOAD_SECONDS
        while (outcomes := self.board.outcomes(model, number))["pending"] and time.monotonic() < deadline:
            await asyncio.sleep(_LOOK_SECONDS / 4)
        return load, outcomes

    async def run(self) -> None:
        """Follows the board and the folders and hands over metrics, until it is cancelled."""
        jobs = [self._beat(), self._follow_board(), self._flush_metrics()]
        for store in self.stores.values():
            if self.settings.watch or is_registry(store.folder):
                jobs.append(store.watch(self.settings.watch_seconds))
        tasks = [asyncio.create_task(job) for job in jobs]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _follow_board(self) -> None:
        again = dict.fromkeys(self.stores, 0.0)
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for model, store in self.stores.items():
                is_new = self.board.wanted(model) > self._seen.get(model, 0)
                is_behind = store.engine.version != store.version_in_force
                if is_new or (is_behind and time.monotonic() >= again[model]):
                    self._report(model, await store.follow())
                    again[model] = time.monotonic() + _TRY_AGAIN_SECONDS

    def _report(self, model: int, load: Load) -> int:
        """Tells the other workers how the last load wanted went here, and returns its number."""
        number = self.board.wanted(model)
        if load.version == self.stores[model].version_in_force or load.outcome == "refused":
            self._seen[model] = number
            self.board.report(model, number, load.outcome)
        return number

    async def _beat(self) -> None:
        # a task of its own: a load may take longer than a worker may be silent
        while True:
            self.board.beat()
            await asyncio.sleep(_LOOK_SECONDS)

    async def _flush_metrics(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            self.metrics.flush()
