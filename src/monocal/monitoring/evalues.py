r"""Evidence against a calibrated forecast that may be looked at every day, and how it is kept from run to run.

The null hypothesis: given everything that is known before a row's label, the probability of a positive lies between
:math:`p/(1+\tau)` and :math:`p(1+\tau)`, where p is the forecast and :math:`\tau` the tolerance. Nothing is said about
the forecasts themselves: scores may drift as they like, and so may the level of labels as long as forecasts follow it.

A bet multiplies its stake by a likelihood ratio, whose mean is at most 1 while the null is true:

.. math:: L = \prod_i \frac{e^{\delta_i y_i}}{1 + q_i (e^{\delta_i} - 1)}, \qquad
          q_i = p_i (1+\tau) \text{ if } \delta_i > 0, \text{ else } p_i / (1+\tau)

The chart "pcoc" bets on odds that are higher or lower by a common factor (:math:`\delta_i = \pm\ln r`); the chart
"log_loss" bets on a log-loss above the one the forecast itself expects (:math:`\delta_i = -s\,\mathrm{logit}\,p_i`,
because the excess of the log-loss over its expectation is :math:`\sum_i (p_i - y_i)\,\mathrm{logit}\,p_i`). Stakes are
spread over several r or s, and over the day on which something may have changed: day t gets :math:`1/(t(t+1))` of the
stake. The wealth of all bets together is a non-negative supermartingale with mean at most 1, so by Ville's inequality
the chance that it *ever* reaches 1/a is at most a, however often one looks and whenever one stops.

One false-alarm rate is spread over tasks, charts and slices: if chart c of slice s may raise a false alarm with
probability :math:`\alpha\gamma_{cs}` and all :math:`\gamma` add up to at most 1, then the probability of any false
alarm anywhere is at most :math:`\alpha`, however the charts depend on each other.

References:
    Ramdas, Grünwald, Vovk and Shafer. Game-theoretic statistics and safe anytime-valid inference. 2023.
    Shin, Ramdas and Rinaldo. E-detectors: a nonparametric framework for sequential change detection. 2024.
"""

from __future__ import annotations

import numpy as np

from monocal.core.scores import Floats, logit

RATIOS = (1.1, 1.25, 1.6, 2.5)
"""Factors on the odds that the chart of PCOC bets on, upwards and downwards."""

SLOPES = (0.05, 0.1, 0.2, 0.4)
"""By how much the chart of log-loss bets that logits are too far from 0."""

N_BETS = {"pcoc": 2 * len(RATIOS), "log_loss": len(SLOPES)}
"""Bets per chart."""

_MOST_TILT = 4.0


def log_growth(probabilities: Floats, labels: Floats, tolerance: float) -> dict[str, Floats]:
    """Returns the logarithm of what every bet of every chart makes of a unit stake on each row: `(bets, n)`.

    Example:
        A forecast of 0.1 that turns out right nine times in ninety: every bet loses.

        >>> labels = np.repeat([1.0, 0.0], [9, 81])
        >>> growth = log_growth(np.full(90, 0.1), labels, 0.0)
        >>> bool(np.all(growth["pcoc"].sum(axis=1) < 0.0)), bool(np.all(growth["log_loss"].sum(axis=1) < 0.0))
        (True, True)
    """
    high, low = np.minimum(probabilities * (1.0 + tolerance), 1.0), probabilities / (1.0 + tolerance)
    steps = [side * np.log(ratio) for ratio in RATIOS for side in (1.0, -1.0)]
    pcoc = [step * labels - np.log1p((high if step > 0.0 else low) * np.expm1(step)) for step in steps]
    logits = logit(probabilities)
    losses = []
    for slope in SLOPES:
        tilt = np.clip(-slope * logits, -_MOST_TILT, _MOST_TILT)
        losses.append(tilt * labels - np.log1p(np.where(tilt > 0.0, high, low) * np.expm1(tilt)))
    return {"pcoc": np.array(pcoc), "log_loss": np.array(losses)}


def begun(n_cells: int, n_bets: int, n_periods: int) -> Floats:
    """Returns the log wealth of bets whose cells had no rows in the first `n_periods` periods: `(cells, bets)`.

    Example:
        >>> np.exp(begun(1, 2, 3)).round(2).tolist()
        [[0.75, 0.75]]
    """
    with np.errstate(divide="ignore"):
        return np.full((n_cells, n_bets), np.log(1.0 - 1.0 / (n_periods + 1.0)))


def next_wealth(log_wealth: Floats, growth: Floats, period: int, most: Floats) -> Floats:
    r"""Returns the log wealth of every bet after one more period.

    .. math:: M_t = \min\Big(\big(M_{t-1} + \tfrac{1}{t(t+1)}\big) L_t,\; \text{most}\Big)

    The bound keeps the mean at most what it was and lets an alarm end soon after its cause.

    Arguments:
        log_wealth: Before, `(cells, bets)`.
        growth: Log of the period's factor, likewise; 0 where a cell had no rows.
        period: The number t of the period, from 1.
        most: The log of the largest wealth per cell.
    """
    grown: Floats = np.logaddexp(log_wealth, start_log_stake(period)) + growth
    return np.minimum(grown, most[:, None])


def start_log_stake(period: int) -> float:
    """Returns the log of the stake on a change in period t."""
    return float(-np.log(period * (period + 1.0)))


def total_log_wealth(log_wealth: Floats, n_periods: int) -> Floats:
    """Returns the log of the mean wealth of a cell's bets, with the stake that is kept for later days: `(cells,)`.

    Example:
        >>> float(np.exp(total_log_wealth(begun(1, 8, 30), 30)[0]).round(12))
        1.0
    """
    together: Floats = np.logaddexp.reduce(log_wealth, axis=1) - np.log(log_wealth.shape[1])
    whole: Floats = np.logaddexp(together, -np.log(n_periods + 1.0))
    return whole


def scope_share(n_tasks: int, n_fields: int, *, is_overall: bool) -> float:
    """Returns the share of one chart of one task: of all rows, or of one field's values together.

    All rows get half of a task's share, the fields the other half in equal parts; without fields all rows get it all.

    Example:
        >>> scope_share(1, 2, is_overall=True), scope_share(1, 2, is_overall=False)
        (0.25, 0.125)
    """
    whole = 1.0 / (n_tasks * len(N_BETS))
    if n_fields == 0:
        return whole
    return whole / 2.0 if is_overall else whole / (2.0 * n_fields)


def value_shares(n_values: int, n_first: int) -> Floats:
    r"""Returns the shares of a field's values in the order of their first appearance.

    The values of the first period share one half; the next :math:`2n` values, which come later, one sixth; the next
    :math:`4n` one twelfth, and so on: however many appear, all shares add up to less than 1.

    Arguments:
        n_values: Values so far.
        n_first: Values in the first period.

    Example:
        >>> value_shares(5, 2).tolist() == [1 / 4, 1 / 4, 1 / 24, 1 / 24, 1 / 24]
        True
    """
    place = np.arange(n_values) / max(n_first, 1) + 1.0
    # generation g holds places from 2**g to 2**(g + 1) first-day sizes
    generation = np.floor(np.log2(place))
    return 1.0 / ((generation + 1.0) * (generation + 2.0) * max(n_first, 1) * 2.0**generation)
