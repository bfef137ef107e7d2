"""How surely a model knows the probability of each row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from monocal.core.progress import progress
from monocal.core.row_intervals import KnownLogits, RowIntervals, check_level, row_intervals
from monocal.core.samples import Ids, Samples
from monocal.core.spaces import Floats
from monocal.models.model import PREDICT_BATCH_ROWS, Model
from monocal.tables.stream import Table, open_table


def predict_known(model: Model, table: Table, level: float, task: str | None = None) -> Any:
    """Returns rows of a table with intervals: one answer, or one per task if there are several.

    Arguments:
        model: The model.
        table: A path or data frame with the score and field columns.
        level: How often the true probability is meant to lie inside, in (0, 1).
        task: Which task; None means all.

    Example:
        >>> import monocal
        >>> log = monocal.simulate_log(20_000).table()
        >>> model = monocal.fit(log, method="wide_logistic", score="pctr", label="click", fields=["device"])
        >>> found = predict_known(model, log.slice(0, 2), 0.9)
        >>> bool((found.lower < found.probabilities).all() and (found.probabilities < found.upper).all())
        True
    """
    check_level(level)
    stream = open_table(table)
    model.check_columns(stream.column_names)
    wanted = model.task_names if task is None else (model.task(task).name,)
    parts: dict[str, list[RowIntervals]] = {name: [_NOTHING] for name in wanted}
    texts = model.vocabulary.category_names
    with progress("calibrating", stream.n_rows) as bar:
        for batch in stream.batches(model.columns, PREDICT_BATCH_ROWS, dictionary_columns=texts):
            for name, found in batch_known(model, batch, level, wanted).items():
                parts[name].append(found)
            bar.advance(batch.num_rows)
    joined = {name: RowIntervals(*map(np.concatenate, zip(*found, strict=True))) for name, found in parts.items()}
    return joined[wanted[0]] if len(wanted) == 1 else joined


def batch_known(
    model: Model, batch: pa.RecordBatch, level: float, tasks: tuple[str, ...] | None = None
) -> dict[str, RowIntervals]:
    """Returns the intervals of one batch of raw rows."""
    ids, scores, rates = model.encoded(batch, tasks)
    known = known_logits(model, ids, scores, rates)
    answers = model.predict_ids(ids, scores, rates)
    return {name: row_intervals(p, known[name], level) for name, p in answers.items()}


def known_logits(
    model: Model,
    ids: Ids,
    scores: Mapping[str, Floats],
    sampling_rate: Floats | float | None = None,
) -> dict[str, KnownLogits]:
    """Returns how surely each row's calibrated logit is known, by task; arguments as for `Model.predict_ids`."""
    return {
        name: model.task(name).calibrator.known_logits(
            Samples.of(
                column,
                features=ids if ids.shape[1] else None,
                scores_are=model.scores_are,
                sampling_rate=sampling_rate,
            )
        )
        for name, column in scores.items()
    }


_NOTHING = RowIntervals(np.zeros(0), np.zeros(0), np.zeros(0))
