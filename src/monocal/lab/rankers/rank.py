"""From an encoded log to a scored log: train on the oldest part, score everything, keep the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from monocal.core.errors import ArtefactError, InvalidInput, check_known
from monocal.core.folder import fingerprint
from monocal.core.scores import Floats, to_logits
from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.lab.rankers.base import Ranker
from monocal.lab.rankers.scored_log import ScoredLog
from monocal.tables.encoded import SCORED_LOG, read_scored_manifest

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
        check_known("group", name, log.field_names)
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


def rank_log(
    log: EncodedLog,
    ranker: Ranker,
    folder: str | Path,
    *,
    reference: ScoredLog | None = None,
    show_progress: bool | None = None,
) -> ScoredLog:
    """Trains a ranker on the part "train" of a log, scores all of it, and keeps logits and embeddings in a folder.

    A folder that already holds the scores of the same ranker on the same log is opened instead, so ten calibrators
    cost one scoring. A ranker that is fitted already is used as it is.

    Beside the scores the folder holds the fitted ranker (`folder/ranker`, see `load_ranker`).

    Arguments:
        log: The encoded log, with named parts.
        ranker: Which ranker; this object is not changed.
        folder: Where to keep the result.
        reference: Another ranker's scores of the same rows, for losses that learn from them: a teacher's (`clid`), or
            those of the deployed ranker (`sbcr`). Without it they learn from the log's own scores.
        show_progress: True or False to decide; None shows bars on a terminal.
    """
    target = SCORED_LOG.check_target(folder)
    learned = log if reference is None else with_reference(log, reference)
    train = learned.part("train") if ranker.learns and not ranker.is_fitted else log
    identity = ranker.fingerprint_ if ranker.is_fitted else ranker.plan(train)
    mark = fingerprint("scored log", log.fingerprint, identity)
    if _holds(target, mark):
        return ScoredLog.open(target, log)
    fitted = ranker
    if not ranker.is_fitted:
        fitted = type(ranker)(**ranker.get_params(deep=False)).fit(train, show_progress=show_progress)
    logits = fitted.score_tasks(log, show_progress=show_progress)
    return ScoredLog(log, logits, fitted.embeddings(), mark, fitted.notes_).save(target, ranker=fitted)


def _holds(folder: Path, mark: str) -> bool:
    try:
        return bool(read_scored_manifest(folder)["identity"] == mark)
    except ArtefactError:
        return False
