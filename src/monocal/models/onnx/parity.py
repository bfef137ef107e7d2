"""Does the graph say what `predict` says? Asked in ONNX Runtime on every export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from monocal.core.samples import Ids
from monocal.core.spaces import Floats, sigmoid
from monocal.models.model import Model
from monocal.vocabulary.vocabulary import FieldVocabulary, NumericField

_UNSEEN = "\0unseen"
_BATCH_ROWS = 1000


def output_name(task: str) -> str:
    return f"{task}_calibrated"


def parity(model: Model, path: Path, inputs: str, n_rows: int, seed: int) -> float:
    """Returns the largest difference between the graph and `predict` on rows with seen and unseen values."""
    import onnxruntime

    random = np.random.default_rng(seed)
    fields = model.vocabulary.fields
    ids: Ids = np.zeros((n_rows, len(fields)), dtype=np.int32)
    feed: dict[str, Any] = {}
    for index, field in enumerate(fields):
        # one id more than there are: the first beyond the table
        ids[:, index] = random.integers(0, field.size + 1, n_rows)
        if inputs == "values" and isinstance(field, NumericField):
            feed[field.name] = field.numbers_of(ids[:, index])
            ids[:, index] = field.ids_of(feed[field.name])
        elif inputs == "values" and isinstance(field, FieldVocabulary):
            feed[field.name] = _as_text(field, ids[:, index])
    if fields and inputs == "ids":
        feed["features"] = ids.astype(np.int64)
    rates: Floats | float | None = model.sampling_rate if not isinstance(model.sampling_rate, str) else None
    if isinstance(model.sampling_rate, str):
        rates = feed[model.sampling_rate] = random.uniform(0.05, 1.0, n_rows)
    scores: dict[str, Floats] = {}
    for task in model.tasks:
        logits = np.clip(random.normal(-2.0, 3.0, n_rows), -16.0, 16.0)
        scores[task.name] = feed[task.score] = logits if model.scores_are == "logit" else sigmoid(logits)
    expected = model.predict_ids(ids, scores, rates)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    worst = 0.0
    for rows in _batches(n_rows):
        part = {name: column[rows] for name, column in feed.items()}
        answers = session.run([output_name(name) for name in model.task_names], part)
        for name, answer in zip(model.task_names, answers, strict=True):
            # a NaN anywhere must not pass as agreement
            worst = float(np.maximum(worst, np.max(np.abs(answer - expected[name][rows]))))
    return worst


def _batches(n_rows: int) -> list[slice]:
    """Cuts rows into one of 1, then batches that memory can bear: the graph is to take any number."""
    starts = [0, *range(1, n_rows, _BATCH_ROWS)]
    return [slice(start, end) for start, end in zip(starts, [*starts[1:], n_rows], strict=True)]


def _as_text(field: FieldVocabulary, ids: Ids) -> Any:
    """Returns the values behind ids; ids of null become 0 in place, since text inputs cannot carry a null."""
    values = field.values.to_pylist()
    nulls = [index + 1 for index, value in enumerate(values) if value is None]
    ids[np.isin(ids, nulls)] = 0
    known: Any = np.array([_UNSEEN, *[value or "" for value in values], _UNSEEN], dtype=object)
    return known[ids]
