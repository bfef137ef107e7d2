"""AdaCalib's bins of equal mass per value, of rows that lie in shards."""

import numpy as np
import pytest

from monocal.calibrators.neural.adacalib.shard_statistics import statistics_of_shards
from monocal.calibrators.neural.adacalib.statistics import value_statistics
from monocal.core.team import Alone, Shards
from monocal.testing.teams import run_team

N_ROWS, N_VALUES, N_BINS = 4_000, 9, 5
RANDOM = np.random.default_rng(6)
# few rows of most values, none of the last; scores of value 3 repeat too much for bins of their own
VALUES = RANDOM.choice(N_VALUES, N_ROWS, p=[0.02, 0.3, 0.3, 0.2, 0.1, 0.04, 0.03, 0.01, 0.0])
SCORES = np.where(VALUES == 3, 0.25, RANDOM.beta(1.0, 6.0, N_ROWS).round(3))
LABELS = (RANDOM.random(N_ROWS) < SCORES).astype(np.float64)
WEIGHTS = RANDOM.integers(1, 4, N_ROWS).astype(np.float64)
SHARD = RANDOM.choice(3, N_ROWS)  # of four; the last one is empty


def in_shards(team, weights=None, scores=SCORES):
    numbers = tuple(range(team.rank, 4, team.size))
    own = [np.flatnonzero(number == SHARD) for number in numbers]
    rows = np.concatenate(own)
    shards = Shards(team, 4, numbers, np.cumsum([0, *map(len, own)]))
    mass = None if weights is None else weights[rows]
    return statistics_of_shards(scores[rows], LABELS[rows], VALUES[rows], N_VALUES, N_BINS, mass, shards)


def test_bins_in_shards_are_those_of_one_machine():
    found, expected = in_shards(Alone()), value_statistics(SCORES, LABELS, VALUES, N_VALUES, N_BINS)
    assert np.array_equal(found.edges, expected.edges)
    assert len(np.unique(found.edges, axis=0)) == 4  # three values have bins of their own
    np.testing.assert_allclose(found.statistics, expected.statistics, atol=1e-12)


def test_a_row_of_weight_k_counts_as_k_rows():
    times = WEIGHTS.astype(np.int64)
    found = in_shards(Alone(), WEIGHTS)
    rows = (np.repeat(column, times) for column in (SCORES, LABELS, VALUES))
    expected = value_statistics(*rows, N_VALUES, N_BINS)
    assert np.array_equal(found.edges, expected.edges)
    np.testing.assert_allclose(found.statistics, expected.statistics, atol=1e-12)


def test_equal_scores_everywhere_leave_bins_of_equal_width():
    scores = np.full(N_ROWS, 0.25)
    found, expected = in_shards(Alone(), scores=scores), value_statistics(scores, LABELS, VALUES, N_VALUES, N_BINS)
    assert np.array_equal(found.edges, expected.edges)
    np.testing.assert_allclose(found.statistics, expected.statistics, atol=1e-12)


@pytest.mark.parametrize("weights", [None, WEIGHTS + 0.3], ids=["rows", "weights"])
def test_the_same_shards_give_the_same_bits_for_any_team(weights):
    alone = in_shards(Alone(), weights)
    for size in (2, 4):
        for member in run_team(size, lambda team: in_shards(team, weights)):
            assert member.edges.tobytes() == alone.edges.tobytes()
            assert member.statistics.tobytes() == alone.statistics.tobytes()
