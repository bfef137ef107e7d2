"""Intervals and floors of rows that lie in several places: sums per block and per redraw are added up, not rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from monocal.core.spaces import Floats
from monocal.metrics.base import AnyMetric
from monocal.metrics.fields import FieldMetric
from monocal.metrics.forecast import Forecast
from monocal.metrics.intervals import block_counts
from monocal.metrics.sums import Sums, SumSummary, reweighted_sums

MOST_SUMS = 512
"""Sums of a metric that can be kept for each of 512 blocks: two megabytes."""


def sums_can_be_kept(metric: AnyMetric) -> bool:
    """Says whether a metric lives off few sums, so that those of every block and every redraw can travel.

    Example:
        >>> from monocal.metrics import metric
        >>> [name for name in ("log_loss", "ece", "smooth_ece", "auc") if sums_can_be_kept(metric(name))]
        ['log_loss', 'ece']
    """
    if isinstance(metric, FieldMetric) or not isinstance(metric.summary, SumSummary):
        return False
    state = metric.summary.summarize(Forecast.of([0.0], [0.5]))
    return sum(array.size for array in state.arrays.values()) <= MOST_SUMS


def replicates_of_blocks(
    metrics: Mapping[str, AnyMetric], state: Sums, n_replicates: int, seed: int
) -> dict[str, Floats]:
    """Returns each metric's values on resampled blocks, as `bootstrap` does; NaN with fewer than two blocks.

    Blocks without any weight are not drawn.

    Arguments:
        metrics: Metrics of one summary.
        state: Its sums by block, of all rows.
        n_replicates: How many resamples.
        seed: Seed of the resamples.
    """
    used = np.flatnonzero(state["weight"].sum(axis=0))
    if used.shape[0] < 2:
        return {name: np.full(n_replicates, np.nan) for name in metrics}
    tables = {key: table[:, used] for key, table in state.arrays.items()}
    return _values(metrics, reweighted_sums(tables, block_counts(used.shape[0], n_replicates, seed)))


def values_of_draws(metrics: Mapping[str, AnyMetric], state: Sums) -> dict[str, Floats]:
    """Returns each metric's values on redrawn labels, as `noise_floor` does.

    Arguments:
        metrics: Metrics of one summary.
        state: Its sums by draw, of all rows.
    """
    n_draws = state["weight"].shape[1]
    draws = (Sums({key: table[:, draw] for key, table in state.arrays.items()}) for draw in range(n_draws))
    return _values(metrics, draws)


def _values(metrics: Mapping[str, AnyMetric], states: Iterable[Sums]) -> dict[str, Floats]:
    found = [[metric.value(state).number for metric in metrics.values()] for state in states]
    return dict(zip(metrics, np.array(found).T, strict=True))
