"""One network for all tasks of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators import Calibrator
from monocal.calibrators.neural.umc.shared_fit import check_can_share, fit_together
from monocal.core.errors import InvalidInput
from monocal.core.spaces import Floats
from monocal.logs.encoded_log import EncodedLog
from monocal.tables.rows import Rows


def check_shareable(
    calibrator: Calibrator, log: EncodedLog, n_tasks: int, n_shards: int, maturity: Floats | None
) -> None:
    """Refuses what one network for all tasks cannot be fitted on."""
    check_can_share(calibrator, n_tasks, log.n_fields)
    refused = {
        "a fit in shards": n_shards > 1,
        "labels that may still come": maturity is not None,
        "soft labels": log.roles.soft_labels,
    }
    for what, is_asked in refused.items():
        if is_asked:
            raise InvalidInput.of(
                "shared_network",
                f"one network with {what}",
                "whole rows with 0/1 labels that are all there",
                "leave it out: every task gets a network of its own",
            )


def fit_shared(
    log: EncodedLog,
    rows: Rows,
    tasks: Sequence[str],
    make: Callable[[str], Calibrator],
    embeddings: Sequence[NDArray[np.float32]] | None,
) -> dict[str, Calibrator]:
    """Returns the fitted calibrators of some tasks, which have one network.

    Arguments:
        log: The rows, encoded.
        rows: The same rows with their columns.
        tasks: The tasks.
        make: A new calibrator for a task.
        embeddings: A ranker's table per field.
    """
    made = [check_can_share(make(task), len(tasks), log.n_fields) for task in tasks]
    fit_together(
        made,
        [rows.scores[task] for task in tasks],
        [rows.labels[task] for task in tasks],
        features=log.features,
        weights=rows.weights,
        times=rows.times,
        scores_are=rows.roles.scores_are,
        sampling_rate=rows.rates,
        embeddings=embeddings,
        numeric_knots=log.vocabulary.numeric_knots,
    )
    return dict(zip(tasks, made, strict=True))
