"""Sums over all rows at once: what proper scores and the global ratio need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from monocal.core.spaces import SCORE_EPSILON
from monocal.metrics.forecast import Forecast
from monocal.metrics.sums import SumSummary, Term, cell_terms


@final
@dataclass(frozen=True)
class Totals(SumSummary):
    """Row count, predicted and observed positives, all as weighted sums."""

    def _terms(self, forecast: Forecast) -> tuple[Term, ...]:
        return cell_terms(forecast.probabilities, None, 1)


@final
@dataclass(frozen=True)
class LogTotals(SumSummary):
    r"""Row count, positives, and the summed negative log-likelihood; p is clipped to :math:`[10^{-7}, 1-10^{-7}]`."""

    def _terms(self, forecast: Forecast) -> tuple[Term, ...]:
        clipped = np.clip(forecast.probabilities, SCORE_EPSILON, 1.0 - SCORE_EPSILON)
        if_negative = -np.log1p(-clipped)
        if_positive = -np.log(clipped)
        return (
            Term("weight", 1.0, 0.0),
            Term("positive", 0.0, 1.0),
            Term("loss", if_negative, if_positive - if_negative),
        )
