"""A model proves itself before it may answer anybody."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from monocal.calibrators import Calibrator
from monocal.core.errors import ArtefactError
from monocal.core.monotonicity import NotMonotone, assert_monotone, probe_logits
from monocal.core.samples import Ids, Samples
from monocal.core.spaces import Floats
from monocal.models.model import Model, TaskModel

CANARY_TOLERANCE = 1e-6
"""How far the stored answers may be from today's: another machine's logarithms differ in the last digits."""

_PROBES = probe_logits(n_points=321, n_chains=12, chain_length=8)
_FEW_PROBES = probe_logits(n_points=33, n_chains=2, chain_length=4)


def verify(model: Model) -> None:
    """Refuses a model that does not give the answers of its fit, or gives a higher score a lower probability.

    The stored canary rows are scored again. Then, for the features of every canary row and for a row of unseen
    values, the score sweeps the logit axis: answers must be probabilities and must never fall, unless the method
    says that it is not monotone.
    """
    model.verify_canary(CANARY_TOLERANCE)
    rows = _rows(model)
    for task in model.tasks:
        _sweep(task, rows, _PROBES, task.calibrator.row_scorer())


def verify_quickly(model: Model) -> None:
    """As `verify`, with a tenth of the scores: what every load can afford.

    Example:
        >>> from dataclasses import replace
        >>> from monocal.models import fit
        >>> log = {"pctr": [0.1, 0.3, 0.2, 0.4] * 50, "click": [0, 1, 0, 0] * 50}
        >>> model = fit(log, method="platt", score="pctr", label="click")
        >>> verify_quickly(model)
        >>> model.tasks[0].calibrator.slope_ = -1.0
        >>> verify_quickly(replace(model, canary={}))
        Traceback (most recent call last):
        ...
        monocal.core.errors.ArtefactError: task 'click': the prediction falls ...
    """
    model.verify_canary(CANARY_TOLERANCE)
    rows = _rows(model)
    for task in model.tasks:
        calibrator = task.calibrator

        def predict(logits: Floats, ids: Ids, calibrator: Calibrator = calibrator) -> Floats:
            return calibrator.predict_samples(Samples(logits, features=ids if ids.shape[1] else None))

        _sweep(task, rows, _FEW_PROBES, predict)


def _rows(model: Model) -> Ids:
    rows = np.zeros((1, len(model.field_names)), dtype=np.int32)
    if "ids" in model.canary:
        rows = np.unique(np.concatenate([rows, model.canary["ids"]]), axis=0)
    return rows


def _sweep(task: TaskModel, rows: Ids, probes: Floats, predict: Callable[[Floats, Ids], Floats]) -> None:
    """Predicts all rows at all scores in one call, and looks at the curves one by one."""
    answers = predict(np.tile(probes, len(rows)), np.repeat(rows, probes.size, axis=0))
    if not (np.isfinite(answers).all() and answers.min() >= 0.0 and answers.max() <= 1.0):
        raise ArtefactError(f"task {task.name!r}: some answers are not probabilities")
    if task.calibrator.tags.monotone == "none":
        return
    curves = iter(answers.reshape(len(rows), probes.size))
    try:
        assert_monotone(lambda _logits, _ids: next(curves), rows, logits=probes)
    except NotMonotone as error:
        raise ArtefactError(f"task {task.name!r}: {error}, though {task.calibrator.name} is monotone") from error
