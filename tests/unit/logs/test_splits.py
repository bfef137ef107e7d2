import datetime
import itertools

import numpy as np
import pytest

from monocal.core.errors import InvalidInput
from monocal.logs.splits import RowRange, split_by_group, split_by_share, split_by_time


@pytest.mark.parametrize(
    ("n_rows", "sizes"),
    [
        (40_428_967, [24_257_380, 8_085_793, 8_085_794]),
        (85_316_975, [51_190_185, 17_063_395, 17_063_395]),
    ],
)
def test_three_one_one_gives_the_published_counts(n_rows, sizes):
    for shares in ({"a": 3, "b": 1, "c": 1}, {"a": 0.6, "b": 0.2, "c": 0.2}):
        assert [part.n_rows for part in split_by_share(n_rows, shares).values()] == sizes


@pytest.mark.parametrize("n_rows", [0, 1, 2, 3, 4, 5, 7, 1001])
def test_every_row_is_in_exactly_one_part(n_rows):
    parts = list(split_by_share(n_rows, {"a": 0.1, "b": 7, "c": 2.5, "d": 1}).values())
    assert parts[0].start == 0
    assert parts[-1].stop == n_rows
    assert all(left.stop == right.start for left, right in itertools.pairwise(parts))
    assert all(part.n_rows >= 0 for part in parts)


def test_matches_two_successive_unshuffled_holdouts():
    train_test_split = pytest.importorskip("sklearn.model_selection").train_test_split
    for n_rows in (10, 11, 12, 13, 14, 999):
        train, rest = train_test_split(np.arange(n_rows), test_size=0.4, shuffle=False)
        valid, test = train_test_split(rest, test_size=0.5, shuffle=False)
        assert [p.n_rows for p in split_by_share(n_rows).values()] == [len(train), len(valid), len(test)]


@pytest.mark.parametrize("shares", [{}, {"a": 0}, {"a": -1.0}, {"a": float("nan")}])
def test_bad_shares_are_refused(shares):
    with pytest.raises(InvalidInput, match="shares: got"):
        split_by_share(10, shares)


def test_by_time_a_row_at_the_cut_belongs_to_the_later_part():
    parts = split_by_time(np.array([1, 2, 2, 3]), {"late": 2}, first="early")
    assert parts == {"early": RowRange(0, 1), "late": RowRange(1, 4)}


def test_by_time_accepts_dates_for_microseconds():
    times = np.array(["2014-10-21", "2014-10-28", "2014-10-29"], dtype="datetime64[us]")
    expected = {"train": RowRange(0, 1), "test": RowRange(1, 3)}
    aware = datetime.datetime(2014, 10, 28, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    for cut in ("2014-10-28", datetime.date(2014, 10, 28), np.datetime64("2014-10-28"), aware):
        assert split_by_time(times.astype(np.int64), {"test": cut}) == expected
        assert split_by_time(times, {"test": cut}) == expected


def test_by_time_refuses_what_cannot_be_cut():
    times = np.array([1, 2, 3])
    with pytest.raises(InvalidInput, match="times: got 1 at row 1 after 2"):
        split_by_time(np.array([2, 1]), {"test": 2})
    with pytest.raises(InvalidInput, match="cuts: got 'b' at 1, before the cut in front of it"):
        split_by_time(times, {"a": 3, "b": 1})
    with pytest.raises(InvalidInput, match="cuts: got 'soon'; wanted an integer or an ISO date"):
        split_by_time(times, {"a": "soon"})
    with pytest.raises(InvalidInput, match="the name 'train' twice"):
        split_by_time(times, {"train": 2})


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.str_, object])
def test_a_group_lands_in_one_part_and_rows_stay_in_order(kind):
    groups = np.random.default_rng(0).integers(0, 500, 20_000).astype(kind)
    parts = split_by_group(groups, {"a": 3, "b": 1, "c": 1}, seed=4)
    rows = np.concatenate(list(parts.values()))
    assert np.array_equal(np.sort(rows), np.arange(20_000))
    seen = [set(groups[part].tolist()) for part in parts.values()]
    assert all(left.isdisjoint(right) for left, right in itertools.combinations(seen, 2))
    assert all(np.all(np.diff(part) > 0) for part in parts.values())
    assert abs(len(seen[0]) / 500 - 0.6) < 0.08


def test_groups_stay_where_they_were_when_the_log_grows():
    groups = np.arange(1000)
    small = split_by_group(groups[:500], seed=2)
    large = split_by_group(groups, seed=2)
    for name, rows in small.items():
        assert set(rows) == {row for row in large[name] if row < 500}


def test_another_seed_deals_groups_differently():
    groups = np.arange(1000)
    first, again, other = (split_by_group(groups, seed=seed)["train"] for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_groups_must_be_integers_or_text():
    with pytest.raises(InvalidInput, match="groups: got values of type float64"):
        split_by_group(np.array([0.5]))
