"""What a model remembers of its fit, and the stored rows by which it proves itself after loading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators import Calibrator
from monocal.core.dataset import Block, Dataset
from monocal.core.errors import ArtefactError
from monocal.core.fields import Ids
from monocal.core.monotonicity import NotMonotone, assert_monotone, probe_logits
from monocal.core.reduce import BLOCK_ROWS, Partition, Reducer
from monocal.core.scores import Floats, sigmoid
from monocal.tables.table import Table

if TYPE_CHECKING:
    from monocal.models.model import Model

_SCORE_BINS = 20
_SHARES = np.linspace(0.0, 1.0, _SCORE_BINS + 1)[1:-1]


def fit_facts(rows: Table, shards: Partition | None = None) -> dict[str, dict[str, Any]]:
    """Returns row count, label rate, mean score and score quantiles of every task's observed rows.

    Arguments:
        rows: The rows.
        shards: How they are cut and with whom they are added up; all of them at once if not given.

    Example:
        >>> from monocal.tables.roles import Roles
        >>> from monocal.tables.table import Table
        >>> rows = Table.read({"y": [0, 1, None, 0], "p": [0.1, 0.4, 0.9, 0.1]}, Roles(score="p", label="y"))
        >>> facts = fit_facts(rows)["y"]
        >>> facts["n_rows"], round(facts["label_rate"], 3), round(facts["mean_score"], 3)
        (3, 0.333, 0.2)
    """
    shards, facts = shards or Partition.whole(rows.n_rows), {}
    for task in rows.scores:
        known = rows.labels[task] >= 0
        facts[task] = _facts(rows.observed(task), task, shards if known.all() else shards.take(known))
    return facts


def _facts(rows: Table, task: str, shards: Partition) -> dict[str, Any]:
    logits, labels = rows.logits(task), rows.labels[task]
    pieces = None if rows.weights is None or not rows.roles.soft_labels else np.asarray(rows.weights, np.float64)
    if shards.n == 1:
        edges = np.unique(np.quantile(logits, _SHARES))
    else:
        edges = np.unique(shards.quantiles(logits, _SHARES))

    def sums(block: Block) -> list[Floats | float]:
        in_bins = np.bincount(np.searchsorted(edges, block.z), minlength=edges.size + 1).astype(np.float64)
        return [in_bins, float(block.w @ block.of(labels)), float(block.w.sum()), float(sigmoid(block.z).sum())]

    in_bins, positive, weight, score = Dataset(logits, w=pieces, partition=shards).sum(sums)
    n_rows = int(in_bins.sum())
    return {
        "n_rows": n_rows,
        "label_rate": float(positive / weight),
        "mean_score": float(score) / n_rows,
        "score_edges_logit": edges,
        "score_shares": in_bins / n_rows,
    }


Counts = tuple[NDArray[np.int64], ...]
"""Per field, the rows that each id had; empty where a model does not know."""


def count_values(features: Ids, sizes: Sequence[int], before: Counts = (), team: Reducer | None = None) -> Counts:
    """Returns the rows of every id, added to those that were there before.

    Arguments:
        features: Field ids `(n, F)`.
        sizes: How many ids each field has.
        before: Counts of earlier rows; a field may have grown since.
        team: Who counts together, each its own rows.

    Example:
        >>> features = np.array([[1], [2], [1], [0]], dtype=np.int32)
        >>> counts = count_values(features, [3])
        >>> [field.tolist() for field in counts], [field.tolist() for field in count_values(features + 1, [5], counts)]
        ([[1, 2, 1]], [[1, 3, 3, 1, 0]])
    """
    found = [np.zeros(size, np.int64) for size in sizes]
    # by blocks: counting turns ids into numbers of eight bytes
    for first in range(0, features.shape[0], BLOCK_ROWS):
        block = np.asarray(features[first : first + BLOCK_ROWS])
        for counts, ids in zip(found, block.T, strict=True):
            counts += np.bincount(ids, minlength=counts.size)
    if team is not None:
        found = [team.all_sum(counts) for counts in found]
    for counts, earlier in zip(found, before, strict=bool(before)):
        counts[: earlier.size] += earlier
    return tuple(found)


def times_seen(counts: Counts, features: Ids) -> list[NDArray[np.int64]]:
    """Returns per field how many rows of the fit had each row's value; an unseen value had none.

    Arguments:
        counts: The model's counts.
        features: Field ids `(n, F)`.
    """
    return [np.where(ids > 0, rows[ids], 0) for rows, ids in zip(counts, features.T, strict=True)] if counts else []


_CANARY_ROWS = 32


def canary_of(model: Model, features: Ids, rows: Table) -> dict[str, NDArray[Any]]:
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


CANARY_TOLERANCE = 1e-6
"""How far the stored answers may be from today's: another machine's logarithms differ in the last digits."""

_PROBES = probe_logits(n_points=321, n_chains=12, chain_length=8)
_FEW_PROBES = probe_logits(n_points=33, n_chains=2, chain_length=4)


def check_canary(model: Model, tolerance: float) -> float:
    """Scores the canary rows again and compares with the answers stored at fit time."""
    if not model.canary:
        return 0.0
    scores = {task.name: model.canary[f"score{index}"] for index, task in enumerate(model.tasks)}
    rates = model.canary.get("sampling_rate", model.sampling_rate)
    answers = model.predict_ids(model.canary["ids"], scores, rates)
    # numpy's maximum keeps a NaN of any task; python's would drop it behind a number
    worst = float(
        np.max([np.abs(answers[task.name] - model.canary[f"answer{i}"]).max() for i, task in enumerate(model.tasks)])
    )
    if not worst <= tolerance:
        raise ArtefactError(
            f"the stored canary rows differ by {worst:.2e} from their answers at fit time (allowed {tolerance:.0e})"
        )
    return worst


def verify(model: Model, *, quickly: bool = False) -> None:
    """Refuses a model that does not give the answers of its fit, or gives a higher score a lower probability.

    The stored canary rows are scored again. Then, for the features of every canary row and for a row of unseen
    values, the score sweeps the logit axis: answers must be probabilities and must never fall, unless the method
    says that it is not monotone. A method of several maps, such as one per segment, is swept map by map. Learned
    numbers must keep a promise of order in every segment and every stored curve.

    Arguments:
        model: The model.
        quickly: Sweeps a tenth of the scores, which every load can afford; else those of a service, by its own path.

    Example:
        >>> from dataclasses import replace
        >>> from monocal.models.fit import fit
        >>> log = {"pctr": [0.1, 0.3, 0.2, 0.4] * 50, "click": [0, 1, 0, 0] * 50}
        >>> model = fit(log, method="platt", score="pctr", label="click")
        >>> verify(model)
        >>> model.tasks[0].calibrator.slope_ = -1.0
        >>> verify(replace(model, canary={}), quickly=True)
        Traceback (most recent call last):
        ...
        monocal.core.errors.ArtefactError: task 'click': the prediction falls ...
    """
    model.verify_canary(CANARY_TOLERANCE)
    rows = _rows(model)
    for task in model.tasks:
        for part in _parts(task.calibrator):
            predict = partial(_predict, part) if quickly else part.row_scorer()
            _sweep(task.name, part, rows if part is task.calibrator else rows[:1], predict, quickly=quickly)
        broken = task.calibrator.broken_promise()
        if broken is not None:
            raise ArtefactError(f"task {task.name!r}: {broken}, though {task.calibrator.name} is monotone")


def _predict(calibrator: Calibrator, logits: Floats, ids: Ids) -> Floats:
    return calibrator.predict_data(Dataset(logits, ids=ids if ids.shape[1] else None))


def _parts(calibrator: Calibrator) -> Iterator[Calibrator]:
    """Yields a calibrator and those that it learned to hand rows to."""
    yield calibrator
    for learned in vars(calibrator).values():
        for part in learned if isinstance(learned, list) else [learned]:
            if isinstance(part, Calibrator):
                yield from _parts(part)


def _rows(model: Model) -> Ids:
    rows = np.zeros((1, len(model.field_names)), dtype=np.int32)
    if "ids" in model.canary:
        rows = np.unique(np.concatenate([rows, model.canary["ids"]]), axis=0)
    return rows


def _sweep(
    task: str, calibrator: Calibrator, rows: Ids, predict: Callable[[Floats, Ids], Floats], *, quickly: bool
) -> None:
    """Predicts all rows at all scores in one call, and looks at the curves one by one."""
    probes = _FEW_PROBES if quickly else _PROBES
    answers = predict(np.tile(probes, len(rows)), np.repeat(rows, probes.size, axis=0))
    if not (np.isfinite(answers).all() and answers.min() >= 0.0 and answers.max() <= 1.0):
        raise ArtefactError(f"task {task!r}: some answers are not probabilities")
    if calibrator.tags.monotone == "none":
        return
    curves = iter(answers.reshape(len(rows), probes.size))
    try:
        assert_monotone(lambda _logits, _ids: next(curves), rows, logits=probes)
    except NotMonotone as error:
        raise ArtefactError(f"task {task!r}: {error}, though {calibrator.name} is monotone") from error
