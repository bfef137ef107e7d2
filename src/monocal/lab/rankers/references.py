"""What a loss may know of each row beforehand: another ranker's logits, or click rates of the row's values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.fingerprint import fingerprint
from monocal.core.spaces import Floats, to_logits
from monocal.logs.encoded_log import EncodedLog
from monocal.logs.scored_log import ScoredLog

if TYPE_CHECKING:
    from monocal.lab.ranking_losses import RankingLoss


def references_of(
    loss: RankingLoss, log: EncodedLog, tasks: Sequence[str], group: str | Sequence[str] | None
) -> dict[str, Floats]:
    """Returns, task by task, what the loss asks to know of each row; empty if it asks nothing.

    Arguments:
        loss: The loss.
        log: The rows to learn from; their scores are the teacher's, or those dumped by the deployed ranker.
        tasks: The tasks to learn.
        group: For click rates: the fields whose values have them.
    """
    from monocal.lab.ranking_losses import RANKING_LOSSES, PreferencePairs

    if not loss.needs_references:
        return {}
    if isinstance(loss, PreferencePairs):
        return {task: expected_rates(log, task, group) for task in tasks}
    name = next(name for name, kind in RANKING_LOSSES.items() if isinstance(loss, kind))
    for task in tasks:
        if task not in log.scores:
            raise InvalidInput.of(
                "reference",
                f"a log without scores of task {task!r}",
                f"another ranker's scores for {name}",
                "name what rank wrote with reference=, or prepare the log with its score column",
            )
    return {task: to_logits(log.scores[task], log.roles.scores_are, f"score of task {task!r}") for task in tasks}


def expected_rates(log: EncodedLog, task: str, fields: str | Sequence[str] | None) -> Floats:
    """Returns the mean, over the named fields, of the click rate of the row's value after its counts.

    Arguments:
        log: The rows that are counted.
        task: Whose labels.
        fields: Such as the user and the item.
    """
    from monocal.lab.ranking_losses import BetaPrior

    names = [fields] if isinstance(fields, str) else list(fields or ())
    if not names:
        raise InvalidInput.of("group", None, "the fields of user and item", 'name them, group="user_id,item_id"')
    labels = np.asarray(log.labels[task])
    seen, positive = labels >= 0, labels == 1
    total = np.zeros(log.n_rows)
    for name in names:
        if name not in log.field_names:
            raise UnknownName.among("group", name, log.field_names)
        place = log.field_names.index(name)
        values, size = log.features[:, place], log.field_sizes[place]
        n, clicks = np.bincount(values[seen], minlength=size), np.bincount(values[positive], minlength=size)
        shown = n > 0
        total += BetaPrior.fit(n[shown], clicks[shown]).posterior_means(n, clicks)[values]
    rates: Floats = total / len(names)
    return rates


def with_reference(log: EncodedLog, reference: ScoredLog) -> EncodedLog:
    """Returns the log with another ranker's logits as its scores.

    Arguments:
        log: The log to learn from.
        reference: Scores of the same rows; the other ranker may have seen other fields.
    """
    same_rows = reference.n_rows == log.n_rows and all(
        task in log.labels and np.array_equal(reference.log.labels[task], log.labels[task]) for task in reference.tasks
    )
    if not same_rows:
        raise InvalidInput.of(
            "reference",
            f"scores of {reference.n_rows:,} rows with other labels",
            f"scores of this log's {log.n_rows:,} rows",
            "rank this log, or one prepared from the same rows with more fields",
        )
    roles = log.roles.with_logits({task: f"{task}_logit" for task in reference.tasks})
    mark = fingerprint(log.fingerprint, "reference", reference.fingerprint)
    return replace(log, scores=dict(reference.logits), roles=roles, fingerprint=mark)
