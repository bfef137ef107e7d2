"""The simulated log is reproducible, and its labels really come from its true probabilities."""

from dataclasses import replace

import numpy as np
import pytest

from monocal.core.errors import InvalidInput, UnknownName
from monocal.lab.simulator import WORLDS, Affine, Interaction, simulate_log


def same(first, second):
    assert np.array_equal(first.features, second.features)
    assert np.array_equal(first.users, second.users)
    assert np.array_equal(first.times, second.times)
    assert np.array_equal(first.logits, second.logits)
    for task in first.tasks:
        assert np.array_equal(first.task_labels[task], second.task_labels[task])
        assert np.array_equal(first.task_scores[task], second.task_scores[task])
        assert np.array_equal(first.task_truths[task], second.task_truths[task])


def test_same_arguments_give_the_same_rows_and_leave_the_global_generator_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    same(simulate_log(20_000, seed=3), simulate_log(20_000, seed=3))
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_the_row_seed_gives_fresh_rows_of_the_same_world():
    first, second = simulate_log(5000, seed=1), simulate_log(5000, seed=2)
    assert not np.array_equal(first.features, second.features)
    # One site, one bias: the field bias of the world's score does not move with the row seed.
    world = WORLDS["field_bias"]
    one_field = replace(
        world, fields=world.fields[:1], interactions=(), distortion=Affine(), user_effect=0.0, trend=0.0
    )
    a, b = simulate_log(5000, seed=1, world=one_field), simulate_log(5000, seed=2, world=one_field)
    site = 1
    assert np.isclose(a.true_logits[a.features[:, 0] == site].mean(), b.true_logits[b.features[:, 0] == site].mean())


def test_labels_follow_the_truth_in_every_decile():
    log = simulate_log(100_000, seed=8)
    order = np.argsort(log.true_probabilities)
    for rows in np.array_split(order, 10):
        truth = log.true_probabilities[rows]
        noise = np.sqrt(np.sum(truth * (1 - truth))) / rows.size
        assert abs(log.labels[rows].mean() - truth.mean()) < 4.5 * noise


def test_calibrated_world_reaches_its_entropy():
    log = simulate_log(100_000, world="calibrated", seed=2)
    p, y = log.scores, log.labels
    assert np.allclose(p, log.true_probabilities, rtol=1e-12)
    losses = -(y * np.log(p) + (1 - y) * np.log1p(-p))
    entropies = -(p * np.log(p) + (1 - p) * np.log1p(-p))
    noise = np.std(losses - entropies) / np.sqrt(log.n_rows)
    assert abs(np.mean(losses - entropies)) < 4 * noise


def test_long_views_are_effective_views_and_those_are_clicks():
    log = simulate_log(30_000, world="multitask")
    click, effective, long = (log.task_labels[task] for task in ("click", "effective_view", "long_view"))
    assert np.all(long <= effective)
    assert np.all(effective <= click)
    assert 0 < long.sum() < effective.sum() < click.sum()
    for task in ("effective_view", "long_view"):
        assert np.allclose(log.task_truths[task], log.true_probabilities * log.given_click[task])


def test_bad_requests_explain_themselves():
    with pytest.raises(UnknownName, match="did you mean 'conditional'"):
        simulate_log(10, world="conditionl")
    with pytest.raises(InvalidInput, match="n: got 0; expected at least one row"):
        simulate_log(0)
    with pytest.raises(InvalidInput, match="a list that holds 'click'"):
        simulate_log(10, tasks=("long_view",))
    with pytest.raises(UnknownName, match="did you mean 'long_view'"):
        simulate_log(10, tasks=("click", "longview"))
    with pytest.raises(UnknownName, match="did you mean 'site_id'"):
        simulate_log(10, world=replace(WORLDS["default"], interactions=(Interaction("site", "country", 1.0),)))
    with pytest.raises(InvalidInput, match=r"base_rate: got 1\.5"):
        replace(WORLDS["default"], base_rate=1.5)
