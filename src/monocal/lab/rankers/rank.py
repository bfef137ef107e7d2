"""From an encoded log to a scored log: train on the oldest part, score everything, keep the result."""

from __future__ import annotations

import shutil
from pathlib import Path

from monocal.core.errors import ArtefactError
from monocal.core.fingerprint import fingerprint
from monocal.lab.rankers.artefact import load_ranker
from monocal.lab.rankers.base import Ranker
from monocal.lab.rankers.references import with_reference
from monocal.logs.encoded_log import EncodedLog
from monocal.logs.scored_log import SCORED_LOG, ScoredLog, read_manifest


def rank_log(
    log: EncodedLog,
    ranker: Ranker,
    folder: str | Path,
    *,
    train_part: str = "train",
    valid_part: str | None = None,
    reference: ScoredLog | None = None,
    show_progress: bool | None = None,
) -> ScoredLog:
    """Trains a ranker on one part of a log, scores all of it, and keeps logits and embeddings in a folder.

    A folder that already holds the scores of the same ranker on the same log is opened instead, so ten calibrators
    cost one scoring. If the work was killed, the next call goes on from the last checkpoint. A ranker that is fitted
    already is used as it is.

    Beside the scores the folder holds the fitted ranker (`folder/ranker`, see `load_ranker`).

    Arguments:
        log: The encoded log, with named parts.
        ranker: Which ranker; this object is not changed.
        folder: Where to keep the result.
        train_part: The part to learn from.
        valid_part: A part to report the log-loss on; nothing is chosen by it.
        reference: Another ranker's scores of the same rows, for losses that learn from them: a teacher's (`clid`), or
            those of the deployed ranker (`sbcr`). Without it they learn from the log's own scores.
        show_progress: True or False to decide; None shows bars on a terminal.
    """
    target = SCORED_LOG.check_target(folder)
    learned = log if reference is None else with_reference(log, reference)
    train = learned.part(train_part) if ranker.learns and not ranker.is_fitted else log
    identity = ranker.fingerprint_ if ranker.is_fitted else ranker.plan(train)
    mark = fingerprint("scored log", log.fingerprint, identity)
    if _holds(target, mark):
        return ScoredLog.open(target, log)
    work = target.parent / f".{target.name}.work"
    fitted = ranker if ranker.is_fitted else _finished(work / "ranker", identity)
    if fitted is None:
        fitted = type(ranker)(**ranker.get_params(deep=False))
        valid = None if valid_part is None else log.part(valid_part)
        fitted.fit(train, valid, checkpoints=work / "checkpoints", show_progress=show_progress)
        if fitted.learns:
            fitted.save(work / "ranker")
    logits = fitted.score_tasks(log, show_progress=show_progress)
    scored = ScoredLog(log, logits, fitted.embeddings(), mark, fitted.notes_).save(target, ranker=fitted)
    shutil.rmtree(work, ignore_errors=True)
    return scored


def _holds(folder: Path, mark: str) -> bool:
    try:
        return bool(read_manifest(folder)["identity"] == mark)
    except ArtefactError:
        return False


def _finished(folder: Path, identity: str) -> Ranker | None:
    try:
        found = load_ranker(folder)
    except ArtefactError:
        return None
    return found if found.fingerprint_ == identity else None
