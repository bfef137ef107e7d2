"""Training on a share of the negatives, and what it does to the odds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.logs.encoded_log import MISSING_LABEL, EncodedLog

_PURPOSE = 20_171


def keep_share_of_negatives(log: EncodedLog, tasks: Sequence[str], rate: float, seed: int) -> EncodedLog:
    r"""Returns all positives of a log and a random share of its negatives, as copies in memory, in the same order.

    Every row draws once, whatever its label, weight or fields; a task sees a negative row only if the draw took it, and
    a row that another task needs has its label taken away in this one. So each task's negatives are an independent
    sample with probability r, and the odds that it teaches are exactly :math:`1/r` of the true ones: adding
    :math:`\ln r` to the logits undoes it (`core.sampling`). A kept row keeps its weight.

    Arguments:
        log: The rows, in time order.
        tasks: The labels that count; a row that is kept for none of them is left out.
        rate: r in (0, 1].
        seed: Of the draws.

    Example:
        Ten thousand impressions with 20 % clicks; a tenth of the others stays.

        >>> from monocal.lab.simulator import simulate_log
        >>> log = simulate_log(10_000, seed=0).encoded()
        >>> thinned = keep_share_of_negatives(log, ["click"], 0.1, seed=0)
        >>> clicks = int(log.labels["click"].sum())
        >>> int(thinned.labels["click"].sum()) == clicks
        True
        >>> round((thinned.n_rows - clicks) / (log.n_rows - clicks), 2)
        0.1
    """
    if not 0.0 < rate <= 1.0:
        raise InvalidInput.of(
            "negative_rate", rate, "a share in (0, 1]", "use 0.1 to train on one negative in ten, 1 for all"
        )
    if rate == 1.0:
        return log
    drawn = np.random.default_rng([_PURPOSE, seed]).random(log.n_rows) < rate
    seen = {task: (log.labels[task] == 1) | (drawn & (log.labels[task] == 0)) for task in tasks}
    rows = np.flatnonzero(np.any(list(seen.values()), axis=0))
    kept = log.take(rows)
    labels = {
        task: np.where(seen[task][rows], kept.labels[task], np.int8(MISSING_LABEL)) if task in seen else column
        for task, column in kept.labels.items()
    }
    return replace(kept, labels=labels)
