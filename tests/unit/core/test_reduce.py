"""Partitions and reducers: the same bits whoever computes what."""

import numpy as np
import pytest

from monocal.core.dataset import ChosenIds, Dataset
from monocal.core.errors import InvalidInput
from monocal.core.reduce import DEALT_ROWS, LOCAL, Partition, broadcast
from monocal.lab.thread_reducer import run_members

VALUES = np.random.default_rng(0).normal(size=(5 * DEALT_ROWS + 7, 3)) * np.array([1e-9, 1.0, 1e12])


def summed(member, n):
    rows, partition = Partition.of_log(len(VALUES), n, member)
    own = VALUES[rows]
    return partition.add([[own[part].sum(axis=0), float(own[part].min(initial=0.0))] for part in partition.parts])


@pytest.mark.parametrize("n", [4, 7])
def test_the_same_parts_give_the_same_bits_for_any_number_of_members(n):
    alone = summed(LOCAL, n)
    for size in (2, 3, 4):
        for member in run_members(size, lambda member: summed(member, n)):
            assert [array.tobytes() for array in member] == [array.tobytes() for array in alone]


def test_sums_are_right_to_the_53rd_bit_of_the_largest():
    exact = np.array([np.sum(VALUES[:, column].astype(np.longdouble)) for column in range(3)])
    assert np.abs(summed(LOCAL, 4)[0] - exact).max() < 1e-14 * np.abs(VALUES).sum(axis=0).max()


def test_512_parts_of_the_largest_sums_do_not_overflow():
    largest = np.nextafter(2.0**70, 0.0)
    partition = Partition(LOCAL, 512, tuple(range(512)), np.arange(513))
    for sign in (1.0, -1.0):
        assert partition.add([[sign * largest]] * 512)[0] == pytest.approx(sign * 512 * largest, rel=1e-15)


def test_one_part_is_a_plain_sum():
    found = Partition.whole(len(VALUES)).add([[VALUES.sum(axis=0)]])[0]
    assert found.tobytes() == VALUES.sum(axis=0).tobytes()


def test_rows_are_dealt_in_blocks_and_every_row_once():
    n_rows = 4 * DEALT_ROWS + 100
    dealt = run_members(2, lambda member: Partition.of_log(n_rows, 3, member))
    assert sorted(np.concatenate([own for own, _ in dealt]).tolist()) == list(range(n_rows))
    own, partition = dealt[0]
    assert [len(own[part]) for part in partition.parts] == [2 * DEALT_ROWS, DEALT_ROWS]
    assert partition.numbers == (0, 2)
    assert [int(own[part][0]) // DEALT_ROWS for part in partition.parts] == [0, 2]


def test_newest_rows_and_taken_rows_stay_in_their_parts():
    partition = Partition(LOCAL, 2, (0, 1), np.array([0, 5, 8]))
    assert partition.newest(4).tolist() == [3, 4, 6, 7]
    assert partition.take(partition.newest(4)).edges.tolist() == [0, 2, 4]
    assert partition.take(np.array([0, 4, 5, 7])).edges.tolist() == [0, 2, 4]
    assert Partition.whole(8).newest(3) == slice(5, 8)


def test_an_empty_part_adds_nothing_and_impossible_partitions_are_refused():
    np.testing.assert_array_equal(summed(LOCAL, 100)[0], summed(LOCAL, 6)[0])
    with pytest.raises(InvalidInput, match="n_shards: got 1; expected 2"):
        run_members(2, lambda member: Partition.of_log(10, 1, member))
    with pytest.raises(InvalidInput, match=r"n_shards: got 513; expected 1 \(one per process\) to 512"):
        Partition.of_log(10, 513, LOCAL)
    with pytest.raises(InvalidInput, match="not finite"):
        Partition(LOCAL, 2, (0, 1), np.array([0, 1, 2])).add([[np.array([np.inf])], [np.array([1.0])]])


@pytest.mark.parametrize("weights", [None, np.random.default_rng(1).integers(1, 4, 901).astype(float)])
def test_quantiles_are_those_of_repeated_rows(weights):
    values = np.round(np.random.default_rng(2).normal(size=901), 2)
    shares = np.array([0.0, 0.005, 0.3, 0.5, 0.995, 1.0])
    expected = np.quantile(values if weights is None else np.repeat(values, weights.astype(int)), shares)
    for edges in ([0, 901], [0, 300, 300, 901]):
        n = len(edges) - 1
        partition = None if n == 1 else Partition(LOCAL, n, tuple(range(n)), np.array(edges))
        found = Dataset(values, w=weights, partition=partition).quantiles(shares)
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_rows_are_split_at_one_moment_in_all_parts():
    order = np.array([0, 1, 2, 3, 7, 8, 4, 5, 6, 9])
    partition = Partition(LOCAL, 2, (0, 1), np.array([0, 6, 10]), order)
    older, recent = Dataset(order.astype(float), partition=partition).split_recent(0.3)
    assert older.z.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert recent.z.tolist() == [7, 8, 9]
    assert recent.cut.edges.tolist() == [0, 2, 3]
    one_moment = Dataset(np.zeros(4), partition=Partition(LOCAL, 2, (0, 1), np.array([0, 2, 4]), np.full(4, 7)))
    assert [part.n_rows for part in one_moment.split_recent(0.3)] == [0, 4]


def test_arrays_of_the_first_member_reach_all():
    arrays = {"a": np.arange(5, dtype=np.int32), "b": np.array([[0.1, np.nan]])}
    for found in run_members(3, lambda member: broadcast(arrays if member.rank == 0 else {}, member)):
        assert {name: array.tobytes() for name, array in found.items()} == {
            name: array.tobytes() for name, array in arrays.items()
        }


def test_chosen_ids_read_as_the_rows_and_fields_that_were_chosen(tmp_path):
    log = np.random.default_rng(0).integers(0, 50, (300, 4)).astype(np.int32)
    np.save(tmp_path / "ids.npy", log)
    rows = np.flatnonzero(np.arange(300) % 3 == 1)
    ids = ChosenIds.of(np.load(tmp_path / "ids.npy", mmap_mode="r"), rows)
    expected = log[rows]
    for key in (slice(5, 20), np.array([0, 7, 9]), np.arange(len(rows)) % 2 == 0):
        np.testing.assert_array_equal(np.asarray(ids[key]), expected[key])
    np.testing.assert_array_equal(np.asarray(ids[:, [2, 0]][10:]), expected[10:, [2, 0]])
    np.testing.assert_array_equal(ids[:, 3], expected[:, 3])
    assert (ids.shape, len(ids), ids.dtype) == (expected.shape, len(expected), np.int32)
