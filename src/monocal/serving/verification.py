"""A model proves itself before it may answer anybody."""

from __future__ import annotations

import numpy as np

from monocal.core.errors import ArtefactError
from monocal.models.model import Model, TaskModel

CANARY_TOLERANCE = 1e-6
"""How far the stored answers may be from today's: another machine's logarithms differ in the last digits."""

_SWEEP_LOGITS = np.unique(
    np.concatenate([np.linspace(-40.0, 40.0, 81), np.linspace(-16.2, 16.2, 163), np.linspace(-2.0, 2.0, 21) + 1e-9])
)


def verify(model: Model) -> None:
    """Refuses a model that does not give the answers of its fit, or gives a higher score a lower probability.

    The stored canary rows are scored again. Then, for the features of every canary row and for a row of unseen
    values, the score sweeps the whole logit axis: answers must be probabilities and must never fall, unless the
    method says that it is not monotone.
    """
    model.verify_canary(CANARY_TOLERANCE)
    for task in model.tasks:
        _sweep(model, task)


def _sweep(model: Model, task: TaskModel) -> None:
    n_fields = len(model.field_names)
    rows = np.zeros((1, n_fields), dtype=np.int32)
    if "ids" in model.canary:
        rows = np.unique(np.concatenate([rows, model.canary["ids"]]), axis=0)
    score = task.calibrator.row_scorer()
    for row in rows:
        ids = np.repeat(row[None, :], _SWEEP_LOGITS.size, axis=0)
        answers = score(_SWEEP_LOGITS, ids, tuple(range(n_fields)))
        if not (np.isfinite(answers).all() and answers.min() >= 0.0 and answers.max() <= 1.0):
            raise ArtefactError(f"task {task.name!r}: some answers are not probabilities")
        falls = np.flatnonzero(np.diff(answers) < 0.0)
        if falls.size and task.calibrator.tags.monotone != "none":
            at = int(falls[0])
            raise ArtefactError(
                f"task {task.name!r}: the probability falls from {answers[at]:.6g} to {answers[at + 1]:.6g} while the "
                f"logit rises from {_SWEEP_LOGITS[at]:.3g} to {_SWEEP_LOGITS[at + 1]:.3g}, "
                f"though {task.calibrator.name} is monotone"
            )
