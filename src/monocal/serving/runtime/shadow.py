"""A second model scores the same traffic; differences are counted and nothing is returned."""

from __future__ import annotations

from dataclasses import replace
from typing import final

import numpy as np

from monocal.core.errors import MonocalError
from monocal.core.spaces import Floats
from monocal.serving.engine import Answer, Engine, Request
from monocal.serving.logs import log_failure
from monocal.serving.runtime.live_metrics import DIFFERENCES, LiveMetrics
from monocal.serving.runtime.model_store import ModelStore


@final
class Shadow:
    """Compares the shadow model's answers with those that were sent.

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
            self._count(task, answer.probabilities[task], other.probabilities[task])
        return "compared"

    def _count(self, task: str, active: Floats, shadow: Floats) -> None:
        metrics = self._metrics
        metrics.shadow_rows.labels(task).inc(active.size)
        metrics.shadow_sums.labels(task, "active").inc(float(active.sum()))
        metrics.shadow_sums.labels(task, "shadow").inc(float(shadow.sum()))
        if np.array_equal(active, shadow):
            return
        differences = np.abs(active - shadow)
        for threshold in DIFFERENCES:
            n_beyond = int(np.count_nonzero(differences > threshold))
            if not n_beyond:
                break
            metrics.shadow_beyond.labels(task, f"{threshold:g}").inc(n_beyond)
        if active.argmax() != shadow.argmax():
            metrics.shadow_first.labels(task).inc()
