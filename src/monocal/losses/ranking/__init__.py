"""Objectives of rankers: they may look at the lists that rows belong to."""

from monocal.losses.ranking.base import RankingLoss
from monocal.losses.ranking.beta_prior import BetaPrior
from monocal.losses.ranking.calibrated_softmax import CalibratedSoftmax
from monocal.losses.ranking.catalogue import RANKING_LOSSES, ranking_loss
from monocal.losses.ranking.clid import ListwiseDistillation
from monocal.losses.ranking.jrc import JointRankingCalibration
from monocal.losses.ranking.log_loss import LogLoss
from monocal.losses.ranking.preference_pairs import PreferencePairs
from monocal.losses.ranking.rcr import RegressionCompatibleRanking
from monocal.losses.ranking.self_boosted_pairs import SelfBoostedPairs

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
