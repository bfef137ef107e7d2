"""The recent level is carried as far as earlier levels lasted."""

import numpy as np
import pytest

from monocal.carry_over.blocks import TimeBlocks
from monocal.carry_over.level import block_offset, level_persistence
from monocal.core.dataset import Dataset
from monocal.core.spaces import sigmoid


def level_of(levels, rows_per_block=2000, seed=0):
    truth = np.repeat(np.asarray(levels, dtype=float), rows_per_block)
    labels = (np.random.default_rng(seed).random(truth.size) < sigmoid(truth - 1.0)).astype(float)
    rows = Dataset(np.full(truth.size, -1.0), labels)
    return block_offset(rows.z, rows, TimeBlocks.of(rows))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_calm_week_after_a_month_of_storms_is_not_taken_for_the_future(seed):
    days = [-0.2, -0.7, -0.7, 0.2, 1.6, -0.5, -0.3, 0.2, 0.0, 0.2, -0.1, 1.1, -0.3, -0.2, 0.6, 0.4]
    assert abs(level_of([*days, -1.3, -1.0, -1.4, -0.9], seed=seed)) < 0.25


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_level_that_has_been_moving_one_way_is_followed(sign):
    assert level_of(sign * np.linspace(-0.6, 0.6, 20)) == pytest.approx(sign * 0.5, abs=0.1)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_half_of_a_step_without_precedent_is_taken(seed):
    assert level_of([0.0] * 16 + [0.8] * 4, seed=seed) == pytest.approx(0.4, abs=0.15)


def test_few_blocks_leave_the_prior():
    assert level_persistence(np.array([0.0, 0.1, 0.2]), 1, 0.01) == pytest.approx(0.5)


def test_of_what_noise_alone_moves_little_is_taken():
    taken = [level_of(np.zeros(20), rows_per_block=100, seed=seed) for seed in range(20)]
    one_fifth = 1.0 / np.sqrt(400 * sigmoid(-1.0) * sigmoid(1.0))
    assert np.sqrt(np.mean(np.square(taken))) < 0.5 * one_fifth
