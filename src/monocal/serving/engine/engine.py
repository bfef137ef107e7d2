"""Scores one request after another, in microseconds, without HTTP and without torch."""

from __future__ import annotations

import time
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any, Self, final, get_args

import numpy as np

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.row_intervals import check_level
from monocal.core.samples import Samples
from monocal.core.sampling import sampling_shift
from monocal.core.spaces import Floats, as_float_column
from monocal.models.artefact import load_model
from monocal.models.facts import verify
from monocal.models.model import Fusion, Model
from monocal.serving.engine.field_encoder import FieldEncoder
from monocal.serving.engine.quick_logits import joint_logits, quick_logits
from monocal.serving.engine.request import Answer, MissingFields, Request

_WARM_UP_CALLS = 20


@final
class Engine:
    """A model made ready for requests.

    It answers with the numbers of `model.predict` on the same rows, to the last bit, whatever the number of
    candidates and however the fields are given. One engine serves one thread at a time; nothing in it changes between
    requests, so an engine can be exchanged for another between any two.

    Arguments:
        model: The model.
        version: How answers name it; `Engine.load` takes the artefact's fingerprint.
        missing_fields: `"refuse"` or `"unseen"`.

    Example:
        >>> import monocal
        >>> log = {"pctr": [0.1, 0.3, 0.2, 0.4] * 50, "click": [0, 1, 0, 0] * 50, "site": ["a", "b"] * 100}
        >>> model = monocal.fit(log, method="wide_logistic", score="pctr", label="click", fields=["site"])
        >>> engine = Engine(model)
        >>> answer = engine.calibrate(Request(scores={"click": [0.1, 0.3]}, fields={"site": ["a", "never seen"]}))
        >>> bool((answer.probabilities["click"] == model.predict({"pctr": [0.1, 0.3], "site": ["a", "z"]})).all())
        True
    """

    def __init__(self, model: Model, *, version: str = "unsaved", missing_fields: MissingFields = "refuse") -> None:
        if missing_fields not in get_args(MissingFields):
            raise UnknownName.among("missing_fields", missing_fields, get_args(MissingFields))
        self.version = version
        self.missing_fields = missing_fields
        self.task_names = model.task_names
        self.field_names = model.field_names
        self.numeric_names = model.vocabulary.numeric_names
        self.field_sizes = model.vocabulary.sizes
        self.vocabulary_fingerprint = model.vocabulary.fingerprint
        self.scores_are = model.scores_are
        self.sampling_rate = model.sampling_rate
        self.fusion = model.fusion
        self.methods = {task.name: task.calibrator.name for task in model.tasks}
        self.info: Mapping[str, Any] = model.info
        self._calibrators = {task.name: task.calibrator for task in model.tasks}
        self._scorers = {task: calibrator.row_scorer() for task, calibrator in self._calibrators.items()}
        self._encoder = FieldEncoder(model.vocabulary, missing_fields)
        self._checks = self._encoder.checks
        self._model_shift: Floats | float | None = None
        if isinstance(model.sampling_rate, int | float):
            self._model_shift = sampling_shift(model.sampling_rate, 1)

    @classmethod
    def load(cls, folder: str | Path, *, missing_fields: MissingFields = "refuse") -> Self:
        """Reads a model folder, has it prove itself (fingerprints, canary rows, monotone sweep) and warms it up."""
        model = load_model(folder, verify=False)
        verify(model)
        engine = cls(model, version=model.fingerprint, missing_fields=missing_fields)
        engine.warm_up()
        return engine

    def calibrate(self, request: Request) -> Answer:
        """Returns the calibrated probabilities of every candidate, and the fused score if there is a rule.

        A request that cannot be answered whole raises `InvalidInput`; there are no partial answers.
        """
        scores = request.scores
        columns = None
        if len(scores) > 1 and scores.keys() <= self._calibrators.keys():
            columns = joint_logits(scores.values(), self.scores_are, self._checks)
        if columns is None:
            logits = self._logits_by_task(request)
            n_rows = next(iter(logits.values())).shape[0]
        else:
            n_rows = columns.shape[1]
            shift = self._shift(request, n_rows)
            if shift is not None:
                columns += shift
            logits = dict(zip(scores, columns, strict=True))
        ids = self._encoder.encode(request, n_rows)
        probabilities = {task: self._scorers[task](z, ids) for task, z in logits.items()}
        fused = self.fused(request, probabilities, n_rows)
        answer = Answer(probabilities, fused, self.version, logits, ids)
        if request.interval is not None:
            check_level(request.interval)
            features = ids if ids.shape[1] else None
            for task, z in logits.items():
                answer.known[task] = self._calibrators[task].known_logits(Samples(z, features=features))
        return answer

    def warm_up(self) -> float:
        """Scores made-up requests until caches and compiled code are ready; returns the seconds it took."""
        start = time.perf_counter()
        rate = 0.5 if isinstance(self.sampling_rate, str) else None
        for n_rows in (1, 100):
            scores = np.full(n_rows, 0.25)
            ids = np.zeros((n_rows, len(self.field_names)), dtype=np.int32)
            for _ in range(_WARM_UP_CALLS):
                self.calibrate(Request(dict.fromkeys(self.task_names, scores), ids=ids, sampling_rate=rate))
        return time.perf_counter() - start

    @property
    def vocabulary_n_bytes(self) -> int:
        """What the look-up tables take in memory, in every process that serves."""
        return self._encoder.n_bytes

    def _logits_by_task(self, request: Request) -> dict[str, Floats]:
        """Returns the logits of one task after the other, or says what is wrong with the first that has none."""
        logits: dict[str, Floats] = {}
        n_rows = -1
        shift: Floats | float | None = None
        for task, scores in request.scores.items():
            if task not in self._calibrators:
                raise UnknownName.among("task", task, self.task_names)
            z = quick_logits(scores, self.scores_are, task, self._checks)
            if n_rows < 0:
                n_rows = z.shape[0]
                shift = self._shift(request, n_rows)
            elif z.shape[0] != n_rows:
                raise InvalidInput.of(
                    f"scores of {task!r}",
                    f"{z.shape[0]} numbers",
                    f"{n_rows}, as many as the other tasks have",
                    "send one score per candidate and task",
                )
            if shift is not None:
                z = z + shift
            logits[task] = z
        if n_rows <= 0:
            raise InvalidInput.of(
                "scores",
                "no task" if n_rows < 0 else "no candidates",
                "at least one score",
                f"send one number per candidate for one or more of the tasks {', '.join(self.task_names)}",
            )
        return logits

    def _shift(self, request: Request, n_rows: int) -> Floats | float | None:
        if request.sampling_rate is not None:
            return sampling_shift(request.sampling_rate, n_rows)
        if isinstance(self.sampling_rate, str):
            raise InvalidInput.of(
                "sampling_rate",
                None,
                f"one number, or one per candidate: the model was fitted with the column {self.sampling_rate!r}",
                "send the share of negatives that the ranker was trained on",
            )
        return self._model_shift

    def fused(self, request: Request, probabilities: dict[str, Floats], n_rows: int) -> Floats | None:
        """Returns the fused score of every candidate by the request's rule or the model's; None without either.

        Arguments:
            request: May have a rule, and what untouched heads add.
            probabilities: Per task, one per candidate.
            n_rows: How many candidates there are.
        """
        fusion = request.fusion
        # the model's own rule needs all its tasks; a request that asked for fewer wants no fused score
        if fusion is None and self.fusion is not None and self.fusion.weights.keys() <= probabilities.keys():
            fusion = self.fusion
        if fusion is None:
            if request.other is not None:
                raise InvalidInput.of(
                    "other", "numbers, but no fusion rule", "a rule to add them to", "send fusion weights with it"
                )
            return None
        return fuse(fusion, probabilities, request, n_rows)


def fuse(fusion: Fusion, probabilities: dict[str, Floats], request: Request, n_rows: int) -> Floats:
    """Returns the fused score of every candidate, refusing weights so large that it is not a number any more."""
    if request.other is None and fusion.is_moderate:
        total = fusion.fuse(probabilities)
        if isfinite(total.dot(total)):  # so are all of them, and this is the quickest way to know
            return total
    with np.errstate(over="ignore", invalid="ignore"):
        total = fusion.fuse(probabilities)
        if request.other is not None:
            other = as_float_column(request.other, "other")
            if other.shape[0] != n_rows:
                raise InvalidInput.of(
                    "other", f"{other.shape[0]} numbers", f"{n_rows} of them", "send one number per candidate"
                )
            total = total + other
    if not np.isfinite(total).all():
        raise InvalidInput.of("fusion", "weights too large to add up", "finite fused scores", "scale the weights down")
    return total
