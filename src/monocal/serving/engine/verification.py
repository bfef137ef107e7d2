"""A model proves itself before it may answer anybody."""

from __future__ import annotations

import numpy as np

from monocal.core.errors import ArtefactError
from monocal.core.monotonicity import NotMonotone, assert_monotone, probe_logits
from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.models.model import Model, TaskModel

CANARY_TOLERANCE = 1e-6
"""How far the stored answers may be from today's: another machine's logarithms differ in the last digits."""

_PROBES = probe_logits(n_points=321, n_chains=12, chain_length=8)


def verify(model: Model) -> None:
    """Refuses a model that does not give the answers of its fit, or gives a higher score a lower probability.

    The stored canary rows are scored again. Then, for the features of every canary row and for a row of unseen
    values, the score sweeps the logit axis: answers must be probabilities and must never fall, unless the method
    says that it is not monotone.
    """
    model.verify_canary(CANARY_TOLERANCE)
    rows = np.zeros((1, len(model.field_names)), dtype=np.int32)
    if "ids" in model.canary:
        rows = np.unique(np.concatenate([rows, model.canary["ids"]]), axis=0)
    for task in model.tasks:
        _sweep(task, rows)


def _sweep(task: TaskModel, rows: Ids) -> None:
    score = task.calibrator.row_scorer()

    def probabilities(logits: Floats, ids: Ids) -> Floats:
        answers = score(logits, ids)
        if not (np.isfinite(answers).all() and answers.min() >= 0.0 and answers.max() <= 1.0):
            raise ArtefactError(f"task {task.name!r}: some answers are not probabilities")
        return answers

    if task.calibrator.tags.monotone == "none":
        for row in rows:
            probabilities(_PROBES, np.repeat(row[None, :], _PROBES.size, axis=0))
        return
    try:
        assert_monotone(probabilities, rows, logits=_PROBES)
    except NotMonotone as error:
        raise ArtefactError(f"task {task.name!r}: {error}, though {task.calibrator.name} is monotone") from error
