"""The simulated log is reproducible, and its labels really come from its true probabilities."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.spaces import sigmoid
from monocal.lab.simulator import WORLDS, Affine, Field, Interaction, World, simulate_log


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


def test_the_world_seed_draws_another_truth():
    first, second = simulate_log(5000), simulate_log(5000, world=WORLDS["default"].with_seed(99))
    site = 1
    means = [log.true_logits[log.features[:, 0] == site].mean() for log in (first, second)]
    assert abs(means[0] - means[1]) > 0.05


def test_another_distortion_keeps_impressions_clicks_and_truth():
    plain, bent = simulate_log(5000), simulate_log(5000, distortion=Affine(2.0, 1.0))
    assert np.array_equal(plain.labels, bent.labels)
    assert np.array_equal(plain.true_logits, bent.true_logits)
    assert not np.array_equal(plain.scores, bent.scores)


@pytest.mark.parametrize("name", WORLDS)
def test_labels_have_the_mean_of_the_true_probabilities(name):
    log = simulate_log(60_000, world=name, seed=5)
    for task in log.tasks:
        truth = log.task_truths[task]
        noise = np.sqrt(np.sum(truth * (1 - truth))) / log.n_rows
        assert abs(log.task_labels[task].mean() - truth.mean()) < 4 * noise
    assert abs(log.true_probabilities.mean() / WORLDS[name].base_rate - 1) < 0.05


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


@pytest.mark.parametrize("name", [name for name in WORLDS if name != "calibrated"])
def test_every_other_world_costs_log_loss(name):
    log = simulate_log(30_000, world=name)
    p, s = log.true_probabilities, log.scores
    divergence = p * np.log(p / s) + (1 - p) * np.log((1 - p) / (1 - s))
    assert divergence.mean() > 0.002


def test_types_and_shapes():
    log = simulate_log(1000)
    assert log.features.dtype == np.int32
    assert log.features.shape == (1000, len(log.field_names))
    assert log.features.min() >= 1
    assert np.all(log.features.max(axis=0) < np.array(log.field_sizes))
    assert set(np.unique(log.labels)) <= {0, 1}
    assert np.array_equal(log.scores, sigmoid(log.logits))
    assert np.array_equal(log.true_probabilities, sigmoid(log.true_logits))
    assert np.all(np.diff(log.times) >= 0)


def test_attributes_belong_to_the_user_and_hours_to_the_clock():
    log = simulate_log(20_000)
    country, hour = log.field_names.index("country"), log.field_names.index("hour")
    for user in np.unique(log.users)[:50]:
        assert np.unique(log.features[log.users == user, country]).size == 1
    assert np.array_equal(log.features[:, hour] - 1, log.times // 3600 % 24)


def test_long_views_are_effective_views_and_those_are_clicks():
    log = simulate_log(30_000, world="multitask")
    click, effective, long = (log.task_labels[task] for task in ("click", "effective_view", "long_view"))
    assert np.all(long <= effective)
    assert np.all(effective <= click)
    assert 0 < long.sum() < effective.sum() < click.sum()
    for task in ("effective_view", "long_view"):
        assert np.allclose(log.task_truths[task], log.true_probabilities * log.given_click[task])


def test_tasks_do_not_change_the_clicks():
    assert np.array_equal(
        simulate_log(3000, world="multitask", tasks=("click",)).labels, simulate_log(3000, world="multitask").labels
    )


def test_the_base_rate_is_met_in_a_world_of_ones_own():
    world = World(
        "tiny",
        fields=(Field("a", 30, effect=0.5), Field("b", 5, effect=0.5)),
        base_rate=0.4,
        interactions=(Interaction("a", "b", 0.3),),
        distortion=Affine(),
    )
    assert abs(simulate_log(50_000, world=world).true_probabilities.mean() - 0.4) < 0.01


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


def test_simulating_needs_neither_torch_nor_pandas_nor_pyarrow():
    code = (
        "import sys; from monocal.lab.simulator import simulate_log; simulate_log(10);"
        "print([m for m in ('torch', 'pandas', 'pyarrow', 'numba') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
