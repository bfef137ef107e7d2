import datetime
import itertools

import numpy as np
import pytest

from monocal.core.errors import InvalidInput
from monocal.lab.prepare.splits import as_integer_moment, split_by_share


@pytest.mark.parametrize(
    ("n_rows", "sizes"),
    [(40_428_967, [24_257_380, 8_085_793, 8_085_794]), (85_316_975, [51_190_185, 17_063_395, 17_063_395])],
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


@pytest.mark.parametrize("shares", [{}, {"a": 0}, {"a": -1.0}, {"a": float("nan")}])
def test_bad_shares_are_refused(shares):
    with pytest.raises(InvalidInput, match="shares: got"):
        split_by_share(10, shares)


def test_moments_may_be_numbers_dates_datetimes_and_text():
    expected = int(np.datetime64("2014-10-28", "us").astype(np.int64))
    aware = datetime.datetime(2014, 10, 28, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    for moment in ("2014-10-28", datetime.date(2014, 10, 28), np.datetime64("2014-10-28"), aware, expected):
        assert as_integer_moment(moment) == expected
    with pytest.raises(InvalidInput, match="cuts: got 'soon'; expected an integer or an ISO date"):
        as_integer_moment("soon")
