"""Scores one request after another, in microseconds, without HTTP and without torch."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, final, get_args

import numpy as np
from numpy.typing import ArrayLike

from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput, UnknownName, check_known
from monocal.core.fields import Ids
from monocal.core.scores import (
    Floats,
    LogitVariance,
    as_float_column,
    check_level,
    row_intervals,
    sampling_shift,
    to_logits,
)
from monocal.models.artefact import load_model, verify_model
from monocal.models.model import Fusion, Model
from monocal.serving.encode import FieldEncoder, Value, as_list, check_n_rows

MissingFields = Literal["refuse", "unseen"]
"""What a request without one of the model's fields gets: a refusal, or an answer as for an unseen value."""

_WARM_UP_CALLS = 20
_NUMBERS = {float, int}
_HINT = "send probabilities, on which the model was fitted"


@final
@dataclass(slots=True)
class Request:
    """The candidates of one ranking request.

    Attributes:
        scores: The ranker's score of every candidate, per task, in the model's score space. Tasks may be left out.
        shared: Values of the fields that are the same for all candidates (user, context), given once.
        fields: Values of the other fields, one per candidate.
        ids: Field ids `(candidates, fields)` in the model's field order, instead of `shared` and `fields`.
        sampling_rate: Share of negatives the ranker was trained on, one number or one per candidate; None means the
            model's.
        fusion: How to combine the tasks; None means the model's rule, if it has one.
        other: What untouched heads add to the fused score, one number per candidate.
        interval: How often the true probability is meant to lie between two ends; None asks for no ends.
    """

    scores: Mapping[str, ArrayLike]
    shared: Mapping[str, Value] = field(default_factory=dict)
    fields: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    ids: ArrayLike | None = None
    sampling_rate: float | ArrayLike | None = None
    fusion: Fusion | None = None
    other: ArrayLike | None = None
    interval: float | None = None


@final
@dataclass(slots=True)
class Answer:
    """Calibrated probabilities of one request.

    Attributes:
        probabilities: Per task, one number per candidate.
        fused: The fused ranking score per candidate; None without a fusion rule.
        version: Fingerprint of the model that answered.
        logits: Per task, the scores as logits after the sampling correction (live metrics compare them with fit time).
        ids: The ids that the field values turned into.
        known: Per task, how surely each logit is known; empty unless the request asked for an interval.
    """

    probabilities: dict[str, Floats]
    fused: Floats | None
    version: str
    logits: dict[str, Floats]
    ids: Ids
    known: dict[str, LogitVariance] = field(default_factory=dict)

    def ends(self, level: float) -> dict[str, dict[str, Floats]]:
        """Returns the lower and the upper ends of all tasks, as `Model.predict` with this interval does."""
        found = {task: row_intervals(p, self.known[task], level) for task, p in self.probabilities.items()}
        return {end: {task: getattr(interval, end) for task, interval in found.items()} for end in ("lower", "upper")}

    @property
    def n_rows(self) -> int:
        return int(self.ids.shape[0])


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
        check_known("missing_fields", missing_fields, get_args(MissingFields))
        self.model = model
        self.version = version
        self.missing_fields = missing_fields
        self.task_names = model.task_names
        self.field_names = model.field_names
        self.scores_are = model.scores_are
        self.sampling_rate = model.sampling_rate
        self.fusion = model.fusion
        self._calibrators = {task.name: task.calibrator for task in model.tasks}
        self._scorers = {task: calibrator.row_scorer() for task, calibrator in self._calibrators.items()}
        self._encoder = FieldEncoder(model.vocabulary, refuses_missing=missing_fields == "refuse")
        self._model_shift: Floats | float | None = None
        if isinstance(model.sampling_rate, int | float):
            self._model_shift = sampling_shift(model.sampling_rate, 1)

    @classmethod
    def load(cls, folder: str | Path, *, missing_fields: MissingFields = "refuse") -> Self:
        """Reads a model folder, has it prove itself (fingerprints, canary rows, monotone sweep) and warms it up."""
        model = load_model(folder, verify=False)
        verify_model(model)
        engine = cls(model, version=model.fingerprint, missing_fields=missing_fields)
        engine.warm_up()
        return engine

    def calibrate(self, request: Request) -> Answer:
        """Returns the calibrated probabilities of every candidate, and the fused score if there is a rule.

        A request that cannot be answered whole raises `InvalidInput`; there are no partial answers.
        """
        logits = self._logits(request)
        n_rows = next(iter(logits.values())).shape[0]
        ids = self._encoder.encode(request.fields, request.shared, request.ids, n_rows)
        probabilities = {task: self._scorers[task](z, ids) for task, z in logits.items()}
        fused = self._fused(request, probabilities, n_rows)
        answer = Answer(probabilities, fused, self.version, logits, ids)
        if request.interval is not None:
            check_level(request.interval)
            features = ids if ids.shape[1] else None
            for task, z in logits.items():
                answer.known[task] = self._calibrators[task].logit_variance(Dataset(z, ids=features))
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

    def _logits(self, request: Request) -> dict[str, Floats]:
        """Returns the logits of every task after the sampling correction."""
        logits: dict[str, Floats] = {}
        n_rows = 0
        shift: Floats | float | None = None
        for task, scores in request.scores.items():
            if task not in self._scorers:
                raise UnknownName.among("task", task, self.task_names)
            z = self._task_logits(scores, task)
            if not logits:
                n_rows = z.shape[0]
                shift = self._shift(request, n_rows)
            else:
                check_n_rows(f"scores of {task!r}", z.shape[0], n_rows)
            logits[task] = z if shift is None else z + shift
        if not n_rows:
            got = "no candidates" if logits else "no task"
            hint = f"send one number per candidate for one or more of the tasks {', '.join(self.task_names)}"
            raise InvalidInput.of("scores", got, "at least one score", hint)
        return logits

    def _task_logits(self, scores: Any, task: str) -> Floats:
        """Returns the logits of one task's scores as an array of its own: compiled loops know no other."""
        argument = f"scores of {task!r}"
        if isinstance(scores, np.ndarray) and scores.dtype.kind in "fiu":
            return to_logits(np.array(scores, dtype=np.float64), self.scores_are, argument, _HINT)
        if type(scores) is not list:
            scores = as_list(scores, argument)
        if not _NUMBERS.issuperset(map(type, scores)):
            _check_numbers(scores, argument)
        return to_logits(scores, self.scores_are, argument, _HINT)

    def _shift(self, request: Request, n_rows: int) -> Floats | float | None:
        if request.sampling_rate is not None:
            return sampling_shift(request.sampling_rate, n_rows)
        if isinstance(self.sampling_rate, str):
            expected = f"one number, or one per candidate: the model was fitted with the column {self.sampling_rate!r}"
            hint = "send the share of negatives that the ranker was trained on"
            raise InvalidInput.of("sampling_rate", None, expected, hint)
        return self._model_shift

    def _fused(self, request: Request, probabilities: dict[str, Floats], n_rows: int) -> Floats | None:
        """Returns the fused score of every candidate by the request's rule or the model's; None without either."""
        fusion = request.fusion
        # the model's own rule needs all its tasks; a request that asked for fewer wants no fused score
        if fusion is None and self.fusion is not None and self.fusion.weights.keys() <= probabilities.keys():
            fusion = self.fusion
        if fusion is None:
            if request.other is not None:
                hint = "send fusion weights with it"
                raise InvalidInput.of("other", "numbers, but no fusion rule", "a rule to add them to", hint)
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            total = fusion.fuse(probabilities)
            if request.other is not None:
                other = as_float_column(request.other, "other")
                check_n_rows("other", other.shape[0], n_rows)
                total = total + other
        if not np.isfinite(total).all():
            got = "weights too large to add up"
            raise InvalidInput.of("fusion", got, "finite fused scores", "scale the weights down")
        return total


def _check_numbers(scores: list[Any], argument: str) -> None:
    """Refuses what numpy would turn into numbers: text, booleans, nulls."""
    for row, value in enumerate(scores):
        if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
            found = "null" if value is None else f"a {type(value).__name__}"
            raise InvalidInput.of(argument, f"{found} at row {row}", "numbers", "send one number per candidate")
