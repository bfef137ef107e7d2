"""Objectives of rankers: they may look at the lists that rows belong to."""

from monocal.lab.ranking_losses.base import LogLoss, RankingLoss
from monocal.lab.ranking_losses.catalogue import RANKING_LOSSES, ranking_loss
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
