"""Objectives of rankers, also by name: they may look at the lists that rows belong to."""

from __future__ import annotations

import inspect
from typing import Any

from monocal.core.errors import check_known
from monocal.lab.ranking_losses.base import LogLoss, RankingLoss
from monocal.lab.ranking_losses.lists import (
    CalibratedSoftmax,
    JointRankingCalibration,
    ListwiseDistillation,
    RegressionCompatibleRanking,
)
from monocal.lab.ranking_losses.pairs import BetaPrior, PreferencePairs, SelfBoostedPairs

__all__ = [
    "RankingLoss",
    "LogLoss",
    "JointRankingCalibration",
    "RegressionCompatibleRanking",
    "CalibratedSoftmax",
    "ListwiseDistillation",
    "SelfBoostedPairs",
    "PreferencePairs",
    "BetaPrior",
    "RANKING_LOSSES",
    "ranking_loss",
]

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
        monocal.core.errors.UnknownName: argument of 'jrc': got 'alhpa'; ... Hint: did you mean 'alpha'?
    """
    check_known("loss", name, RANKING_LOSSES)
    kind = RANKING_LOSSES[name]
    known = [] if kind is LogLoss else list(inspect.signature(kind).parameters)
    for argument in arguments:
        check_known(f"argument of {name!r}", argument, known)
    return kind(**arguments)
