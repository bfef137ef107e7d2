"""What a service says about itself at `/metrics`, in Prometheus' text form.

Several workers share one port, so a scrape reaches one of them by chance. prometheus-client's multiprocess mode (a
folder of memory-mapped files, named by `PROMETHEUS_MULTIPROC_DIR`) lets that one answer for all: counters add up over
workers and survive a worker's death, and running sums add up over the living ones. Ratios such as drift and PCOC are
worked out from the added sums at scrape time, never averaged.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
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
        self.field_values = counter("monocal_field_values", "Values, by field.", ["field"])
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
        text = "Requests in which another candidate comes first."
        self.shadow_first = counter("monocal_shadow_first_changed", text, ["task"])
        self._engine: Engine | None = None
        self._waiting: list[Answer] = []
        self._n_waiting_rows = 0
        self._of_requests: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._unseen: np.ndarray[Any, np.dtype[np.int64]] = np.zeros(0, dtype=np.int64)
        self._n_rows = 0
        self._edges: dict[str, Floats] = {}
        self._bins: dict[str, RecentSums] = {}
        self._feedback: dict[str, RecentSums] = {}

    def follow(self, engine: Engine) -> None:
        """Starts to compare with another model's fit; what was counted against the former is dropped."""
        self.flush()
        for task, sums in self._bins.items():
            for place in range(sums.values.size):
                self.score_rows.labels(task, str(place)).set(0.0)
        self._engine = engine
        self._unseen = np.zeros(len(engine.field_names), dtype=np.int64)
        self._edges = {
            task: np.asarray(facts["score_edges_logit"], dtype=np.float64) for task, facts in _fit_facts(engine).items()
        }
        self._bins = {task: RecentSums(edges.size + 1) for task, edges in self._edges.items()}

    def observe(self, answer: Answer) -> None:
        """Counts what one request brought."""
        if self._engine is None or answer.version != self._engine.version:
            return
        self._waiting.append(answer)
        self._n_waiting_rows += answer.n_rows
        if self._n_waiting_rows >= _ROWS_AT_ONCE:
            self._add_up()

    def observe_request(self, endpoint: str, status: int, seconds: float) -> None:
        """Counts one request by its outcome and its duration."""
        key = endpoint, status
        if key not in self._of_requests:
            self._of_requests[key] = self.requests.labels(endpoint, str(status)), self.seconds.labels(endpoint)
        n_requests, durations = self._of_requests[key]
        n_requests.inc()
        durations.observe(seconds)

    def _add_up(self) -> None:
        """Counts the answers that wait."""
        answers, self._waiting = self._waiting, []
        self._n_rows += self._n_waiting_rows
        self._n_waiting_rows = 0
        if not answers:
            return
        self._unseen += np.count_nonzero(np.concatenate([answer.ids for answer in answers]) == 0, axis=0)
        for task, edges in self._edges.items():
            parts = [answer.logits[task] for answer in answers if task in answer.logits]
            if parts:
                bins = self._bins[task]
                places = np.searchsorted(edges, np.concatenate(parts))
                bins.add(np.bincount(places, minlength=bins.values.size).astype(np.float64), places.size)

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
        if active.argmax() != shadow.argmax():
            self.shadow_first.labels(task).inc()

    def flush(self) -> None:
        """Hands what was added up to Prometheus."""
        if self._engine is None:
            return
        self._add_up()
        if self._n_rows:
            self.rows.inc(self._n_rows)
            for field, n_unseen in zip(self._engine.field_names, self._unseen.tolist(), strict=True):
                self.field_values.labels(field).inc(self._n_rows)
                self.field_unseen.labels(field).inc(n_unseen)
            self._n_rows = 0
            self._unseen[:] = 0
        for task, sums in self._bins.items():
            for place, value in enumerate(sums.values.tolist()):
                self.score_rows.labels(task, str(place)).set(value)

    def exposition(self, versions: Mapping[str, str]) -> bytes:
        """Returns the text of a scrape.

        Arguments:
            versions: Model names and the fingerprints now serving.
        """
        self.flush()
        folder = os.environ.get(METRICS_FOLDER_VARIABLE)
        source = self.registry if folder is None else MultiProcessCollector(None, folder)  # type: ignore[no-untyped-call]
        found = [*source.collect()]
        metrics = [*found, *self._derived(found), _info(versions)]
        return generate_latest(SimpleNamespace(collect=lambda: metrics))

    def _derived(self, found: Iterable[Metric]) -> list[Metric]:
        sums = {_key(sample.name, **sample.labels): sample.value for metric in found for sample in metric.samples}
        labels_of: dict[str, list[dict[str, str]]] = {}
        for name, labels in sums:
            labels_of.setdefault(name, []).append(dict(labels))
        unseen = GaugeMetricFamily("monocal_field_unseen_share", "Share of values without an id.", labels=["field"])
        values = "monocal_field_values_total"
        for label in labels_of.get(values, []):
            total = sums[_key(values, **label)]
            if total > 0.0:
                n_unseen = sums.get(_key("monocal_field_unseen_total", **label), 0.0)
                unseen.add_metric([label["field"]], n_unseen / total)
        pcoc = GaugeMetricFamily("monocal_pcoc", "Recent predictions over recent labels.", labels=["task"])
        for task in {label["task"] for label in labels_of.get("monocal_feedback_window_sum", [])}:
            predicted, positives = (
                sums.get(_key("monocal_feedback_window_sum", task=task, of=of), 0.0) for of in ("predictions", "labels")
            )
            pcoc.add_metric([task], predicted / positives if positives > 0.0 else math.nan)
        return [unseen, pcoc, *self._drift(sums)]

    def _drift(self, sums: Mapping[tuple[str, Any], float]) -> list[Metric]:
        psi = GaugeMetricFamily(
            "monocal_score_drift_psi", "Population stability of recent scores against fit time.", labels=["task"]
        )
        noise = GaugeMetricFamily(
            "monocal_score_drift_noise", "The index to expect from chance alone.", labels=["task"]
        )
        for task, facts in _fit_facts(self._engine).items():
            shares = np.asarray(facts["score_shares"], dtype=np.float64)
            keys = [_key("monocal_score_window_rows", task=task, bin=str(place)) for place in range(shares.size)]
            counts = np.array([sums.get(key, 0.0) for key in keys])
            found = stability_index(shares * facts["n_rows"], counts)
            psi.add_metric([task], found.value)
            noise.add_metric([task], found.noise)
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


def _key(name: str, **labels: str) -> tuple[str, Any]:
    return name, tuple(sorted(labels.items()))


def _fit_facts(engine: Engine | None) -> dict[str, Any]:
    if engine is None:
        return {}
    return {task: facts for task, facts in engine.info.get("tasks", {}).items() if "score_edges_logit" in facts}


def _info(versions: Mapping[str, str]) -> Metric:
    info = GaugeMetricFamily("monocal_model_info", "Models and their fingerprints.", labels=["model", "version"])
    for name, version in versions.items():
        info.add_metric([name, version], 1.0)
    return info
