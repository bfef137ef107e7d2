"""Shards and teams: the same bits whoever computes what."""

import numpy as np
import pytest

from monocal.core.errors import InvalidInput
from monocal.core.samples import Samples
from monocal.core.shard_order import quantiles_of_shards
from monocal.core.team import DEALT_ROWS, Alone, Shards
from monocal.testing.teams import run_team

VALUES = np.random.default_rng(0).normal(size=(5 * DEALT_ROWS + 7, 3)) * np.array([1e-9, 1.0, 1e12])


def summed(team, n):
    rows, shards = Shards.deal(len(VALUES), n, team)
    mine = VALUES[rows]
    return shards.add([[mine[part].sum(axis=0), float(mine[part].min(initial=0.0))] for _, part in shards.parts()])


@pytest.mark.parametrize("n", [4, 7])
def test_the_same_shards_give_the_same_bits_for_any_team(n):
    alone = summed(Alone(), n)
    for size in (2, 3, 4):
        for member in run_team(size, lambda team: summed(team, n)):
            assert [array.tobytes() for array in member] == [array.tobytes() for array in alone]


def test_sums_are_right_to_the_53rd_bit_of_the_largest():
    exact = np.array([np.sum(VALUES[:, column].astype(np.longdouble)) for column in range(3)])
    largest = np.abs(VALUES).sum(axis=0).max()
    assert np.abs(summed(Alone(), 4)[0] - exact).max() < 1e-14 * largest


def test_512_shards_of_the_largest_sums_do_not_overflow():
    largest = np.nextafter(2.0**70, 0.0)
    shards = Shards(Alone(), 512, tuple(range(512)), np.arange(513))
    for sign in (1.0, -1.0):
        assert shards.add([[sign * largest]] * 512)[0] == pytest.approx(sign * 512 * largest, rel=1e-15)


def test_one_shard_is_a_plain_sum():
    found = Shards.whole(len(VALUES)).add([[VALUES.sum(axis=0)]])[0]
    assert found.tobytes() == VALUES.sum(axis=0).tobytes()


def test_rows_are_dealt_in_blocks_and_every_row_once():
    n_rows = 4 * DEALT_ROWS + 100
    dealt = run_team(2, lambda team: Shards.deal(n_rows, 3, team))
    assert sorted(np.concatenate([own for own, _ in dealt]).tolist()) == list(range(n_rows))
    own, shards = dealt[0]
    assert [len(own[part]) for _, part in shards.parts()] == [2 * DEALT_ROWS, DEALT_ROWS]
    assert shards.numbers == (0, 2)
    assert [int(own[part][0]) // DEALT_ROWS for _, part in shards.parts()] == [0, 2]


def test_newest_rows_and_kept_rows_stay_in_their_shards():
    shards = Shards(Alone(), 2, (0, 1), np.array([0, 5, 8]))
    rows, newest = shards.newest(4)
    assert rows.tolist() == [3, 4, 6, 7]
    assert newest.edges.tolist() == [0, 2, 4]
    assert shards.kept(np.array([0, 4, 5, 7])).edges.tolist() == [0, 2, 4]
    assert Shards.whole(8).newest(3)[0] == slice(5, 8)


def test_an_empty_shard_adds_nothing_and_too_few_shards_are_refused():
    np.testing.assert_array_equal(summed(Alone(), 100)[0], summed(Alone(), 6)[0])
    with pytest.raises(InvalidInput, match="n_shards: got 1; expected 2"):
        run_team(2, lambda team: Shards.deal(10, 1, team))
    with pytest.raises(InvalidInput, match=r"n_shards: got 513; expected 1 \(one per process\) to 512"):
        Shards.deal(10, 513, Alone())
    with pytest.raises(InvalidInput, match="not finite"):
        Shards(Alone(), 2, (0, 1), np.array([0, 1, 2])).add([[np.array([np.inf])], [np.array([1.0])]])


@pytest.mark.parametrize("weights", [np.ones(901), np.random.default_rng(1).integers(1, 4, 901).astype(float)])
def test_quantiles_of_shards_are_those_of_repeated_rows(weights):
    values = np.round(np.random.default_rng(2).normal(size=901), 2)
    shares = np.array([0.0, 0.005, 0.3, 0.5, 0.995, 1.0])
    shards = Shards(Alone(), 3, (0, 1, 2), np.array([0, 300, 300, 901]))
    found = quantiles_of_shards(values, shares, weights, shards)
    np.testing.assert_allclose(found, np.quantile(np.repeat(values, weights.astype(int)), shares), atol=1e-12)


def test_rows_are_split_at_one_moment_in_all_shards():
    order = np.array([0, 1, 2, 3, 7, 8, 4, 5, 6, 9])
    shards = Shards(Alone(), 2, (0, 1), np.array([0, 6, 10]), order)
    older, recent = Samples(order.astype(float), shards=shards).split_recent(0.3)
    assert older.logits.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert recent.logits.tolist() == [7, 8, 9]
    assert recent.in_shards.edges.tolist() == [0, 2, 3]
    one_moment = Samples(np.zeros(4), shards=Shards(Alone(), 2, (0, 1), np.array([0, 2, 4]), np.full(4, 7)))
    assert [part.n_rows for part in one_moment.split_recent(0.3)] == [0, 4]
