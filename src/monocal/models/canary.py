"""Rows that a model keeps with its answers, by which it proves itself after loading."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.core.samples import Ids
from monocal.models.model import Model
from monocal.tables.rows import Rows

_CANARY_ROWS = 32


def canary_of(model: Model, features: Ids, rows: Rows) -> dict[str, NDArray[Any]]:
    """Returns some of the rows, spread over all of them, as ids, scores and answers.

    Arguments:
        model: The fitted model.
        features: Field ids of the rows in the model's encoding.
        rows: Their scores and sampling rates.
    """
    spread = np.unique(np.linspace(0, rows.n_rows - 1, _CANARY_ROWS).astype(np.int64))
    few = rows.take(spread)
    ids: Ids = np.ascontiguousarray(features[spread])
    answers = model.predict_ids(ids, few.scores, few.rates)
    stored: dict[str, NDArray[Any]] = {"ids": ids}
    for index, task in enumerate(model.task_names):
        stored[f"score{index}"] = np.asarray(few.scores[task], dtype=np.float64)
        stored[f"answer{index}"] = answers[task]
    if isinstance(few.rates, np.ndarray):
        stored["sampling_rate"] = few.rates
    return stored
