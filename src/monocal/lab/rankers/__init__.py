"""Rankers: scores from the log itself, a quick hashed logistic, DeepFM for one task and for several, QIN."""

from __future__ import annotations

from typing import Any

from monocal.calibrators.contract import check_arguments
from monocal.core.errors import check_known
from monocal.lab.rankers.base import Ranker, load_ranker
from monocal.lab.rankers.deepfm import DeepFM, MultiTaskDeepFM
from monocal.lab.rankers.qin import QIN
from monocal.lab.rankers.rank import rank_log
from monocal.lab.rankers.scored_log import ScoredLog
from monocal.lab.rankers.without_network import HashedLogistic, Precomputed

__all__ = [
    "RANKERS",
    "DeepFM",
    "HashedLogistic",
    "MultiTaskDeepFM",
    "QIN",
    "Precomputed",
    "Ranker",
    "ScoredLog",
    "load_ranker",
    "rank_log",
    "ranker",
]

RANKERS: dict[str, type[Ranker]] = {
    kind.name: kind for kind in (Precomputed, HashedLogistic, DeepFM, MultiTaskDeepFM, QIN)
}


def ranker(name: str, /, **arguments: Any) -> Ranker:
    """Returns an unfitted ranker by name.

    Arguments:
        name: One of `RANKERS`.
        arguments: What the ranker's class takes.

    Example:
        >>> ranker("deepfm", hidden=(64, 32))
        DeepFM(hidden=(64, 32))
        >>> ranker("deepfn")
        Traceback (most recent call last):
        ...
        monocal.core.errors.UnknownName: ranker: got 'deepfn'; ... Hint: did you mean 'deepfm'?
    """
    check_known("ranker", name, RANKERS)
    kind = RANKERS[name]
    known = kind().get_params(deep=False)
    for argument in arguments:
        check_known(f"argument of {name!r}", argument, known)
    check_arguments(kind, arguments)
    return kind(**arguments)
