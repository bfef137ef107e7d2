"""Time: windows of round length, trends with the right sign, values that moved."""

import numpy as np
import pytest

from monocal.metrics.drift import StabilityIndex
from monocal.reports.drift import MOST_WINDOWS, ROW_WINDOWS, cut_windows, drift

DAY = 86_400
START = 1_700_006_400
SHIFT = StabilityIndex(0.0, 0.0)


@pytest.mark.parametrize(
    ("span_seconds", "length"), [(1_800, "1 minute"), (DAY, "1 hour"), (10 * DAY, "6 hours"), (400 * DAY, "14 days")]
)
def test_windows_are_round_and_not_too_many(span_seconds, length):
    times = START + np.linspace(0, span_seconds - 1, 5_000).astype(np.int64)
    windows = cut_windows(times, 5_000, time_is_calendar=False)
    assert windows.length == length
    assert 10 < windows.n_windows <= MOST_WINDOWS + 1
    assert windows.calendar


def test_milliseconds_and_calendar_columns_are_the_same_moments():
    seconds = START + np.arange(0, 3 * DAY, 600)
    expected = cut_windows(seconds, len(seconds), time_is_calendar=False)
    for times, calendar in ((seconds * 1_000, False), (seconds * 1_000_000, True)):
        found = cut_windows(times, len(seconds), time_is_calendar=calendar)
        assert found.starts.tolist() == expected.starts.tolist()


def test_other_whole_numbers_are_not_taken_for_dates():
    windows = cut_windows(np.arange(500), 500, time_is_calendar=False)
    assert not windows.calendar
    assert windows.label(0) == "0"


def test_without_time_rows_are_cut_in_their_order():
    windows = cut_windows(None, 2_400, time_is_calendar=False)
    assert windows.n_windows == ROW_WINDOWS
    assert np.bincount(windows.ids).tolist() == [100] * ROW_WINDOWS


def test_few_positives_make_wide_windows():
    times = START + np.arange(0, 10 * DAY, 60)
    assert cut_windows(times, len(times), time_is_calendar=False, n_positive=50).n_windows <= 6


def test_a_trend_is_found_with_its_sign_and_size(evaluated, world):
    truth, labels, _ = world
    rising = truth * np.linspace(0.8, 1.2, 40_000)
    before, after = (line.trend for line in drift(*evaluated(labels, rising, truth), SHIFT).lines.values())
    # a straight line through the logarithm from 0.8 to 1.2 rises by half
    assert before.change == pytest.approx(0.5, abs=0.12)
    assert before.low < 0.5 < before.high
    assert before.is_significant
    assert not after.is_significant
    assert after.low < 0.0 < after.high


def test_intervals_of_the_trend_cover(evaluated):
    rng = np.random.default_rng(5)
    p = rng.uniform(0.02, 0.2, 4_000)
    found = [drift(*evaluated(rng.random(4_000) < p, p), SHIFT).lines["after"].trend for _ in range(200)]
    assert 0.005 <= np.mean([trend.is_significant for trend in found]) <= 0.1


def test_a_value_that_moved_is_named(evaluated, world):
    truth, labels, rng = world
    site = rng.integers(0, 50, 40_000)
    late = np.arange(40_000) > 20_000
    after = truth * np.where(site == 7, np.where(late, 2.0, 0.7), 1.0)
    found = drift(*evaluated(labels, truth, after, site=site), SHIFT)
    assert [segment.value for segment in found.moved] == ["site_7"]
    assert found.moved[0].first_pcoc < 1.0 < found.moved[0].second_pcoc
    assert found.n_values == 50
