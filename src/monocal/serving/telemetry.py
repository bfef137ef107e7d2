"""What a service says about itself: structured logs, and numbers at `/metrics` in Prometheus' text form.

A line of the log is one JSON object and never holds a feature value.

Several workers share one port, so a scrape reaches one of them by chance. prometheus-client's multiprocess mode (a
folder of memory-mapped files, named by `PROMETHEUS_MULTIPROC_DIR`) lets that one answer for all: counters add up over
workers and survive a worker's death, and running sums add up over the living ones. What is a ratio of sums, such as
PCOC or the share of unseen values, is left to Prometheus; the drift of scores is worked out here at scrape time.
"""

from __future__ import annotations

import json
import logging
import os
import traceback
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, final

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from monocal.core.scores import Floats
from monocal.metrics.drift import stability_index
from monocal.serving.engine import Answer, Engine

LOGGER = logging.getLogger("monocal.serving")

METRICS_FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Where prometheus-client looks for the folder in which workers add up their metrics."""

WINDOW_ROWS = 100_000
"""About how many recent rows the running numbers look back on."""

LATENCY_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_ROWS_AT_ONCE = 2048
"""Rows that wait at most until they are counted: a few megabytes."""

DIFFERENCES = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1)
"""Thresholds on |active − shadow| that are counted."""


@final
class JsonLines(logging.Formatter):
    """Writes time, level, process and event, then the facts handed over with `log_event`.

    Of an exception only its type and place are written: its message may quote what a client sent.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "process": record.process,
            "event": record.getMessage(),
        }
        line.update(getattr(record, "facts", {}))
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
            place = traceback.extract_tb(record.exc_info[2])[-1]
            line["where"] = f"{place.name}:{place.lineno}"
        return json.dumps(line, default=str)


_TO_STANDARD_ERROR = {"handlers": ["stderr"], "level": "INFO", "propagate": False}

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": JsonLines}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "loggers": {"monocal.serving": _TO_STANDARD_ERROR, "uvicorn.error": _TO_STANDARD_ERROR},
}
"""What the server gives to `logging.config.dictConfig` in every process."""


def log_event(event: str, /, *, level: int = logging.INFO, **facts: Any) -> None:
    """Logs an event with facts about it."""
    LOGGER.log(level, event, extra={"facts": facts})


def log_failure(event: str, error: BaseException, /, **facts: Any) -> None:
    """Logs an unexpected error by type and place."""
    LOGGER.error(event, exc_info=error, extra={"facts": facts})


@final
class LiveMetrics:
    """Counts requests, rows, unseen values, scores per fit-time bin, feedback and shadow differences.

    Answers wait until there are enough rows for arrays to pay, are added up at once, and handed to Prometheus once a
    second and at each scrape: 21 labelled counters per request would cost more than the calibration.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        sums = partial(Gauge, registry=self.registry, multiprocess_mode="livesum")
        self.requests = counter("monocal_requests", "Requests by outcome.", ["endpoint", "status"])
        self.seconds = Histogram(
            "monocal_request_seconds",
            "From the last header to the answer's first byte.",
            ["endpoint"],
            buckets=LATENCY_BUCKETS,
            registry=self.registry,
        )
        self.rows = counter("monocal_rows", "Candidates calibrated.")
        self.in_flight = sums("monocal_in_flight", "Requests in hand.")
        self.field_unseen = counter("monocal_field_unseen", "Values without an id, by field.", ["field"])
        self.score_rows = sums("monocal_score_window_rows", "Recent scores per fit-time bin.", ["task", "bin"])
        self.feedback = counter("monocal_feedback_rows", "Labels that were sent back.", ["task"])
        text = "Recent sums of predictions and of labels."
        self.feedback_sums = sums("monocal_feedback_window_sum", text, ["task", "of"])
        self.loads = counter("monocal_model_loads", "Loads by outcome.", ["model", "outcome"])
        self.shadow_requests = counter("monocal_shadow_requests", "Requests by outcome.", ["outcome"])
        self.shadow_rows = counter("monocal_shadow_rows", "Candidates scored by both models.", ["task"])
        self.shadow_sums = counter("monocal_shadow_probability", "Sum of probabilities.", ["task", "model"])
        text = "Candidates whose answers differ by more."
        self.shadow_beyond = counter("monocal_shadow_rows_beyond", text, ["task", "difference"])
        self._engine: Engine | None = None
        self._waiting: list[Answer] = []
        self._n_waiting_rows = 0
        self._bins: dict[str, RecentSums] = {}
        self._feedback: dict[str, RecentSums] = {}

    def follow(self, engine: Engine) -> None:
        """Compares with the fit of this model from now on; what was counted against another one is dropped."""
        if engine is self._engine:
            return
        self.flush()
        for task, sums in self._bins.items():
            for place in range(sums.values.size):
                self.score_rows.labels(task, str(place)).set(0.0)
        self._engine = engine
        self._bins = {task: RecentSums(len(facts["score_shares"])) for task, facts in _fit_facts(engine).items()}

    def observe(self, answer: Answer, engine: Engine) -> None:
        """Counts what one request brought that an engine answered."""
        self.follow(engine)
        self._waiting.append(answer)
        self._n_waiting_rows += answer.n_rows
        if self._n_waiting_rows >= _ROWS_AT_ONCE:
            self.flush()

    def observe_request(self, endpoint: str, status: int, seconds: float) -> None:
        """Counts one request by its outcome and its duration."""
        self.requests.labels(endpoint, str(status)).inc()
        self.seconds.labels(endpoint).observe(seconds)

    def flush(self) -> None:
        """Adds up the answers that wait and hands the sums to Prometheus."""
        answers, self._waiting = self._waiting, []
        n_rows, self._n_waiting_rows = self._n_waiting_rows, 0
        if self._engine is None or not answers:
            return
        self.rows.inc(n_rows)
        n_unseen = np.count_nonzero(np.concatenate([answer.ids for answer in answers]) == 0, axis=0)
        for field, n in zip(self._engine.field_names, n_unseen.tolist(), strict=True):
            self.field_unseen.labels(field).inc(n)
        for task, facts in _fit_facts(self._engine).items():
            if parts := [answer.logits[task] for answer in answers if task in answer.logits]:
                places = np.searchsorted(facts["score_edges_logit"], np.concatenate(parts))
                sums = self._bins[task]
                sums.add(np.bincount(places, minlength=sums.values.size).astype(np.float64), places.size)
                for place, value in enumerate(sums.values.tolist()):
                    self.score_rows.labels(task, str(place)).set(value)

    def observe_feedback(self, task: str, probabilities: Floats, labels: Floats) -> None:
        """Counts labels that were sent back with the probabilities they belong to."""
        if not labels.size:
            return
        self.feedback.labels(task).inc(labels.size)
        sums = self._feedback.setdefault(task, RecentSums(2))
        sums.add(np.array([probabilities.sum(), labels.sum()]), labels.size)
        for name, value in zip(("predictions", "labels"), sums.values, strict=True):
            self.feedback_sums.labels(task, name).set(float(value))

    def observe_difference(self, task: str, active: Floats, shadow: Floats) -> None:
        """Counts how far a shadow model's answers are from those that were sent."""
        self.shadow_rows.labels(task).inc(active.size)
        self.shadow_sums.labels(task, "active").inc(float(active.sum()))
        self.shadow_sums.labels(task, "shadow").inc(float(shadow.sum()))
        differences = np.abs(active - shadow)
        for threshold in DIFFERENCES:
            if n_beyond := int(np.count_nonzero(differences > threshold)):
                self.shadow_beyond.labels(task, f"{threshold:g}").inc(n_beyond)

    def exposition(self, versions: Mapping[str, str]) -> bytes:
        """Returns the text of a scrape.

        Arguments:
            versions: Model names and the fingerprints now serving.
        """
        self.flush()
        folder = os.environ.get(METRICS_FOLDER_VARIABLE)
        source = self.registry if folder is None else MultiProcessCollector(None, folder)  # type: ignore[no-untyped-call]
        found = [*source.collect()]
        metrics = [*found, *self._drift(found), _info(versions)]
        return generate_latest(SimpleNamespace(collect=lambda: metrics))

    def _drift(self, found: Iterable[Metric]) -> list[Metric]:
        """Returns how far the scores of all workers together are from those of the fit."""
        text = "Population stability of recent scores against fit time."
        psi = GaugeMetricFamily("monocal_score_drift_psi", text, labels=["task"])
        text = "The index to expect from chance alone."
        noise = GaugeMetricFamily("monocal_score_drift_noise", text, labels=["task"])
        samples = [sample for metric in found for sample in metric.samples]
        counts = {
            (sample.labels["task"], int(sample.labels["bin"])): sample.value
            for sample in samples
            if sample.name == "monocal_score_window_rows"
        }
        for task, facts in _fit_facts(self._engine).items():
            shares = np.asarray(facts["score_shares"], dtype=np.float64)
            recent = np.array([counts.get((task, place), 0.0) for place in range(shares.size)])
            drift = stability_index(shares * facts["n_rows"], recent)
            psi.add_metric([task], drift.value)
            noise.add_metric([task], drift.noise)
        return [psi, noise]


@final
class RecentSums:
    """Sums over about the last `WINDOW_ROWS` rows: whenever they cover twice as many, everything is halved.

    Halving keeps ratios as they are, needs no memory of single rows, and lets the sums of several workers be added.

    Example:
        >>> sums = RecentSums(2, window_rows=100)
        >>> for _ in range(1000):
        ...     sums.add(np.array([1.0, 0.5]), 1)
        >>> total, half = sums.values.tolist()
        >>> 100 <= total <= 200, half / total
        (True, 0.5)
    """

    def __init__(self, n_sums: int, window_rows: float = WINDOW_ROWS) -> None:
        self.values: Floats = np.zeros(n_sums)
        self.window_rows = window_rows
        self._n_rows = 0.0

    def add(self, values: Floats, n_rows: int) -> None:
        self.values += values
        self._n_rows += n_rows
        while self._n_rows > 2 * self.window_rows:
            self.values *= 0.5
            self._n_rows *= 0.5


def forget_dead_workers() -> None:
    """Removes the gauges of workers that are gone, which would be added to those of the living ones."""
    folder = os.environ.get(METRICS_FOLDER_VARIABLE)
    for path in Path(folder).glob("gauge_live*_*.db") if folder else ():
        process_id = int(path.stem.rpartition("_")[2])
        try:
            os.kill(process_id, 0)
        except ProcessLookupError:
            mark_process_dead(process_id)  # type: ignore[no-untyped-call]


def _fit_facts(engine: Engine | None) -> dict[str, Any]:
    if engine is None:
        return {}
    return {task: facts for task, facts in engine.model.info.get("tasks", {}).items() if "score_edges_logit" in facts}


def _info(versions: Mapping[str, str]) -> Metric:
    info = GaugeMetricFamily("monocal_model_info", "Models and their fingerprints.", labels=["model", "version"])
    for name, version in versions.items():
        info.add_metric([name, version], 1.0)
    return info
