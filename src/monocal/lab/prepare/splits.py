"""Cutting a log in time order into named parts: by shares of its rows, or at moments."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from monocal.core.errors import InvalidInput

DEFAULT_SHARES: Mapping[str, float] = {"train": 3, "calibration": 1, "test": 1}
"""The ranker learns from the oldest three fifths, calibrators from the next fifth, the newest fifth is for testing."""

Moment = int | str | datetime.date | np.datetime64


class RowRange(NamedTuple):
    """Consecutive rows `start ≤ row < stop`."""

    start: int
    stop: int

    @property
    def n_rows(self) -> int:
        return self.stop - self.start

    @property
    def rows(self) -> slice:
        return slice(self.start, self.stop)


def split_by_share(n_rows: int, shares: Mapping[str, float] = DEFAULT_SHARES) -> dict[str, RowRange]:
    r"""Cuts rows in time order into consecutive parts whose sizes are proportional to `shares`.

    The first part is cut off, then the rest is cut again in the same way; the rest is rounded up each time:
    :math:`n_{\text{rest}} = \lceil n \cdot (W - w_1) / W \rceil`, in exact arithmetic. Two parts of a log
    never share a row, and every row is in one part.

    Arguments:
        n_rows: Rows of the log.
        shares: Part name to its share, in time order. Only ratios count: 3:1:1 is the same as 0.6:0.2:0.2.

    Example:
        >>> {name: part.n_rows for name, part in split_by_share(40_428_967).items()}
        {'train': 24257380, 'calibration': 8085793, 'test': 8085794}
    """
    if n_rows < 0:
        raise InvalidInput.of("n_rows", n_rows, "zero or more rows", "pass the length of the log")
    exact = check_shares(shares)
    parts, start = {}, 0
    total = sum(exact.values(), Fraction(0))
    for name, share in exact.items():
        n_left = n_rows - start
        n_rest = math.ceil(n_left * (total - share) / total)
        parts[name] = RowRange(start, n_rows - n_rest)
        start, total = n_rows - n_rest, total - share
    return parts


def check_shares(shares: Mapping[str, float]) -> dict[str, Fraction]:
    """Returns the shares as exact fractions; refuses what cannot be a share."""
    if not shares:
        raise InvalidInput.of("shares", "no part", "a share per part", 'pass {"train": 3, "calibration": 1, "test": 1}')
    for name, share in shares.items():
        if not (math.isfinite(share) and share > 0):
            raise InvalidInput.of("shares", f"{share} for {name!r}", "positive numbers", "remove the part")
    return {name: Fraction(str(share)) for name, share in shares.items()}


def as_integer_moment(moment: Moment) -> int:
    """Returns a moment as an encoded log keeps it: integers as they are, dates and ISO text in microseconds since 1970.

    Example:
        >>> as_integer_moment(7), as_integer_moment("1970-01-02")
        (7, 86400000000)
    """
    if isinstance(moment, int | np.integer):
        return int(moment)
    if isinstance(moment, datetime.datetime) and moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    try:
        return int(np.array(moment, dtype="datetime64[us]").astype(np.int64))
    except ValueError:
        raise InvalidInput.of("cuts", repr(moment), "an integer or an ISO date", "write 2014-10-28") from None
