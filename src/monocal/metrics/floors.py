r"""Noise floors: what a perfect forecaster would score on this many rows.

If the predictions were the true probabilities, labels would be coin flips with exactly these odds. Redrawing all labels
:math:`y_i \sim \text{Bernoulli}(p_i)` and measuring again gives the distribution of a metric under perfect calibration:
an ECE of 0.003 means nothing if perfect forecasts get 0.003 as well. Every draw is exact, row by row; only the positive
rows are then added up, so a draw costs little more than the random numbers. A row is one observation whatever its
weight; a soft label is redrawn as a hard one, which is the noisiest that a label with this mean can be.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from monocal.core.blas_threads import one_blas_thread
from monocal.core.progress import progress
from monocal.core.spaces import Floats
from monocal.metrics.base import AnyMetric
from monocal.metrics.forecast import Forecast
from monocal.metrics.intervals import check_replicates
from monocal.metrics.shared import by_summary


def noise_floor(
    metrics: Mapping[str, AnyMetric], forecast: Forecast, n_draws: int = 100, seed: int = 0
) -> dict[str, Floats]:
    """Returns each metric's values on labels redrawn from the predictions, `(n_draws,)`; the labels are not read.

    Arguments:
        metrics: Metrics by any name.
        forecast: The rows.
        n_draws: How many times all labels are redrawn.
        seed: Seed of the draws.

    Example:
        >>> from monocal.metrics import metric
        >>> rows = Forecast.of([0] * 1000, [0.5] * 1000)
        >>> draws = noise_floor({"ece": metric("ece")}, rows)["ece"]
        >>> bool(abs(draws.mean() - (0.25 / 1000 * 2 / np.pi) ** 0.5) < 0.002)
        True
    """
    check_replicates("n_floor", n_draws)
    rng = np.random.default_rng([seed, 2])
    units = None if forecast.units is None else np.unique(forecast.units, return_inverse=True)[1]
    n_draws_each = forecast.n_rows if units is None else int(units.max(initial=-1)) + 1
    shared = [(summary.replay(forecast), names) for summary, names in by_summary(metrics).items()]
    found = {name: np.full(n_draws, np.nan) for name in metrics}
    with one_blas_thread(), progress("redrawing labels", n_draws, unit="draws") as bar:
        for draw in range(n_draws):
            drawn = rng.random(n_draws_each)
            positive_rows = np.flatnonzero((drawn if units is None else drawn[units]) < forecast.probabilities)
            for replay, names in shared:
                state = replay.relabelled(positive_rows)
                for name in names:
                    found[name][draw] = metrics[name].value(state).number
            bar.advance(1)
    return found
