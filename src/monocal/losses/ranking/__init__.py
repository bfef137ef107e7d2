"""Objectives of rankers: they may look at the lists that rows belong to."""

from monocal.losses.ranking.base import RankingLoss
from monocal.losses.ranking.log_loss import LogLoss

__all__ = ["RankingLoss", "LogLoss"]
