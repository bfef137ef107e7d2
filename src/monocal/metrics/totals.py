"""Sums over all rows at once: what proper scores and the global ratio need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from monocal.core.log_loss import log_losses
from monocal.core.spaces import logit
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
        logits = logit(forecast.probabilities)
        return (
            Term("weight", 1.0, 0.0),
            Term("positive", 0.0, 1.0),
            Term("loss", log_losses(logits, 0.0), -logits),
        )
