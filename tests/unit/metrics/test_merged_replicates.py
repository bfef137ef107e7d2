"""Intervals and floors from sums of blocks and redraws: the numbers of the rows themselves."""

import numpy as np
import pytest

from monocal.metrics import METRICS, Forecast, bootstrap, metric, noise_floor
from monocal.metrics.resample import (
    pack,
    replicates_of_blocks,
    resampling_blocks,
    sums_can_be_kept,
    unpack,
    values_of_draws,
)
from monocal.metrics.sums import merge_sums

SMALL = [name for name in METRICS if sums_can_be_kept(metric(name))]
N_ROWS, PIECES = 6_000, (slice(0, 700), slice(700, 700), slice(700, 4_000), slice(4_000, None))


@pytest.fixture(scope="module", params=["rows", "groups"])
def forecast(request):
    random = np.random.default_rng(3)
    truth = random.beta(1.0, 12.0, N_ROWS)
    groups = random.integers(0, 900, N_ROWS) if request.param == "groups" else None
    labels = random.random(N_ROWS) < truth
    return Forecast.of(labels, np.minimum(1.2 * truth, 1.0), weights=random.integers(1, 4, N_ROWS), groups=groups)


def of_pieces(state_of):
    """The state of all rows from those of pieces, each packed and unpacked, the last one first."""
    merged, *others = [unpack(pack(state_of(piece))) for piece in PIECES][::-1]
    for state in others:
        merged = merge_sums(merged, state)
    return merged


def test_what_lives_off_few_sums():
    assert SMALL == ["log_loss", "ne", "brier", "pcoc", "ece", "rce", "mce"]


@pytest.mark.parametrize("name", SMALL)
def test_the_same_blocks_give_the_interval_of_the_rows(forecast, name):
    measure = metric(name)
    blocks, n_blocks = resampling_blocks(forecast, seed=5)
    state = of_pieces(lambda piece: measure.summary.by_block(forecast.take(piece), blocks[piece], n_blocks))
    found = replicates_of_blocks({name: measure}, state, n_replicates=40, seed=5)[name]
    expected = bootstrap({name: measure}, forecast, n_replicates=40, seed=5)[name]
    assert found == pytest.approx(expected, rel=1e-12)
    assert found.std() > 0.0


@pytest.mark.parametrize("name", SMALL)
def test_the_same_draws_give_the_floor_of_the_rows(forecast, name):
    measure, random = metric(name), np.random.default_rng([5, 2])
    drawn = [random.random(N_ROWS) < forecast.probabilities for _ in range(9)]
    state = of_pieces(
        lambda piece: measure.summary.by_draw(forecast.take(piece), [np.flatnonzero(draw[piece]) for draw in drawn])
    )
    found = values_of_draws({name: measure}, state)[name]
    assert found == pytest.approx(noise_floor({name: measure}, forecast, n_draws=9, seed=5)[name], rel=1e-12)


def test_one_block_says_nothing():
    few = Forecast.of([0, 1], [0.2, 0.7])
    measure = metric("pcoc")
    state = measure.summary.by_block(few, np.array([7, 7]), 512)
    assert np.isnan(replicates_of_blocks({"pcoc": measure}, state, n_replicates=3, seed=0)["pcoc"]).all()
