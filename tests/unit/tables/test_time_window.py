"""Moments from text."""

import pyarrow as pa
import pytest

from monocal.core.errors import InvalidInput
from monocal.tables.table import moment_of

HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("1970-01-01", pa.date32(), 0),
        ("1970-01-01T01:00", pa.timestamp("ms"), HOUR),
        ("1970-01-01 01:00:00", pa.string(), HOUR),
        ("1970-01-01T01:00+01:00", pa.timestamp("us", tz="Europe/Paris"), 0),
        ("1969-12-31T23:00", pa.timestamp("us"), -HOUR),
        ("17.0", pa.int64(), 17),
        ("1e3", pa.float64(), 1000),
    ],
)
def test_moments(text, kind, expected):
    assert moment_of(text, kind) == expected


def test_no_moment():
    with pytest.raises(InvalidInput, match="until: got 'soon'; expected a date or time. Hint: write 2024-05-01"):
        moment_of("soon", pa.timestamp("s"), "until")
