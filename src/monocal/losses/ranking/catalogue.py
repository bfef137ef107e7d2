"""Ranking losses by name."""

from __future__ import annotations

import inspect
from typing import Any

from monocal.core.errors import UnknownName
from monocal.losses.ranking.base import RankingLoss
from monocal.losses.ranking.calibrated_softmax import CalibratedSoftmax
from monocal.losses.ranking.clid import ListwiseDistillation
from monocal.losses.ranking.jrc import JointRankingCalibration
from monocal.losses.ranking.log_loss import LogLoss
from monocal.losses.ranking.preference_pairs import PreferencePairs
from monocal.losses.ranking.rcr import RegressionCompatibleRanking
from monocal.losses.ranking.self_boosted_pairs import SelfBoostedPairs

RANKING_LOSSES: dict[str, type[RankingLoss]] = {
    "log_loss": LogLoss,
    "jrc": JointRankingCalibration,
    "rcr": RegressionCompatibleRanking,
    "calsoftmax": CalibratedSoftmax,
    "clid": ListwiseDistillation,
    "sbcr": SelfBoostedPairs,
    "bbp": PreferencePairs,
}


def ranking_loss(name: str, /, **arguments: Any) -> RankingLoss:
    """Returns a loss by name.

    Arguments:
        name: One of `RANKING_LOSSES`.
        arguments: What the loss's class takes.

    Example:
        >>> ranking_loss("jrc", alpha=0.8).alpha
        0.8
        >>> ranking_loss("jrc", alhpa=0.8)
        Traceback (most recent call last):
        ...
        monocal.core.errors.UnknownName: argument of 'jrc': got 'alhpa'; ... Way out: did you mean 'alpha'?
    """
    if name not in RANKING_LOSSES:
        raise UnknownName.among("loss", name, RANKING_LOSSES)
    kind = RANKING_LOSSES[name]
    known = [] if kind is LogLoss else list(inspect.signature(kind).parameters)
    for argument in arguments:
        if argument not in known:
            raise UnknownName.among(f"argument of {name!r}", argument, known)
    return kind(**arguments)
