"""Cutting rows in time order into parts: the most recent share, shares of a log, or at moments."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput

DEFAULT_SHARE = 0.2


@final
@dataclass(frozen=True)
class Holdout:
    """Where rows in time order were cut.

    Attributes:
        n_fit: Rows before the cut: they are fitted.
        n_test: Rows after it: they judge.
        explanation: How it was done, in one sentence.
    """

    n_fit: int
    n_test: int
    explanation: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def hold_out_recent(
    n_rows: int,
    share: float = DEFAULT_SHARE,
    *,
    times: NDArray[np.int64] | None = None,
    time_column: str | None = None,
    is_clock: bool = False,
) -> Holdout:
    """Cuts off the most recent share of rows; rows of one moment are never torn apart.

    Arguments:
        n_rows: How many rows there are, in time order.
        share: The share that is held out; 0 holds out nothing.
        times: When each row happened, rising; None takes the rows' order for time.
        time_column: Its name, for the explanation.
        is_clock: The times are microseconds since 1970 and can be told as dates.

    Example:
        >>> hold_out_recent(10, 0.2, times=np.array([1, 1, 1, 2, 2, 2, 3, 3, 3, 3]), time_column="day")
        Holdout(n_fit=6, n_test=4,
                explanation='split by time: fitted on 6 rows with day 1 to 2, held out the 4 rows from 3 on')
    """
    if not 0.0 <= share < 1.0:
        raise InvalidInput.of("holdout", share, "a share in [0, 1)", "use 0.2 for the most recent fifth, 0 for none")
    if share == 0.0:
        return Holdout(n_rows, 0, f"fitted on all {n_rows:,} rows; nothing was held out to judge the fit")
    if n_rows < 2:
        raise InvalidInput.of("table", f"{n_rows} rows", "rows to fit and rows to judge", "use holdout=0")
    cut = min(max(n_rows - round(n_rows * share), 1), n_rows - 1)
    if times is None:
        return Holdout(
            cut,
            n_rows - cut,
            f"split by row order, taken as time order: fitted on the first {cut:,} rows, "
            f"held out the last {n_rows - cut:,}",
        )
    cut = _between_moments(times, cut)
    first, last, then = (_tell(int(moment), is_clock) for moment in (times[0], times[cut - 1], times[cut]))
    return Holdout(
        cut,
        n_rows - cut,
        f"split by time: fitted on {cut:,} rows with {time_column or 'time'} {first} to {last}, "
        f"held out the {n_rows - cut:,} rows from {then} on",
    )


def _between_moments(times: NDArray[np.int64], cut: int) -> int:
    earlier = int(np.searchsorted(times, times[cut], side="left"))
    if earlier > 0:
        return earlier
    later = int(np.searchsorted(times, times[cut], side="right"))
    return later if later < len(times) else cut


def _tell(moment: int, is_clock: bool) -> str:
    if not is_clock:
        return str(moment)
    return str(np.datetime64(moment, "us").astype("datetime64[s]")).replace("T", " ")


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
