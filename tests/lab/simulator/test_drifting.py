"""A world that moves: what persists, what passes, what arrives, and that the truth is known all the same."""

import numpy as np
import pytest

from monocal.core.errors import InvalidInput
from monocal.lab.simulator import Compose, Drifting, Field, Lasting, World, draw_truth, simulate_log


def world(*lasting, n_periods=10, size=400, **drift):
    fields = tuple(Field(effect.name, size, exponent=0.0) for effect in lasting)
    drifting = Drifting(lasting, n_periods=n_periods, **drift)
    return World("for a test", fields, 0.3, Compose(drifting), draws="score", days=n_periods)


def tables(one):
    """The drawn shifts of each field, `(periods, values)`, and the level of every period."""
    (drawn,) = draw_truth(one).distortions["click"].drawn
    return [table[:, 1:] for table in drawn.drawn.shifts.values()], drawn.drawn.level


def test_shifts_have_the_variances_that_were_asked_for():
    (mixed, walking), level = tables(
        world(Lasting("a", persistent=0.5, transient=0.3), Lasting("b", walk=0.2), size=4000, level_shock=1.0)
    )
    assert np.var(mixed.mean(axis=0)) == pytest.approx(0.25 + 0.09 / 10, rel=0.1)
    assert np.mean(np.var(mixed, axis=0, ddof=1)) == pytest.approx(0.09, rel=0.05)
    np.testing.assert_allclose(np.var(walking, axis=1), 0.04 * np.arange(1, 11), rtol=0.15)
    assert level.shape == (10,)
    assert np.std(level) > 0.3


def test_the_share_that_persists_is_what_a_later_period_keeps_of_an_average():
    one = Lasting("a", persistent=0.4, transient=0.8)
    (shifts,), _ = tables(world(one, size=20_000))
    before, after = shifts[:5].mean(axis=0), shifts[7]
    assert np.cov(before, after)[0, 1] / np.var(before) == pytest.approx(one.persistent_share(5), abs=0.03)
    assert Lasting("a").persistent_share(5) == 0.0


def test_the_truth_moves_away_from_the_score_and_is_known():
    log = simulate_log(200_000, world="drifting")
    z, truth = log.logits, log.true_logits
    day = (log.times - log.times[0]) // (2 * 86_400)
    by_period = np.bincount(day, truth - z) / np.bincount(day)
    assert np.ptp(by_period) > 0.1
    rates = np.bincount(day, log.labels) / np.bincount(day)
    expected = np.bincount(day, log.true_probabilities) / np.bincount(day)
    np.testing.assert_allclose(rates, expected, atol=5 * np.sqrt(0.1 / np.bincount(day).min()))


def test_new_values_arrive_and_stay():
    log = simulate_log(100_000, world="drifting")
    first, last = slice(0, 30_000), slice(70_000, None)
    product = log.features[:, 0]
    unseen = ~np.isin(product[last], product[first])
    assert 0.02 < unseen.mean() < 0.3
    # what arrived in the first third is still there in the last
    early = np.unique(product[20_000:30_000])
    popular = early[np.bincount(product[first])[early] > 50]
    assert np.isin(popular, product[last]).all()


def test_impossible_wishes_are_refused():
    with pytest.raises(InvalidInput, match=r"Drifting\.n_periods"):
        Drifting((), n_periods=0)
    with pytest.raises(InvalidInput, match=r"Field\.arriving"):
        Field("a", 10, arriving=1.0)
    with pytest.raises(InvalidInput, match="7 values for a weekday"):
        Field("a", 5, source="weekday")
