"""Keeping the most recent rows out of a fit, and saying how."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, final

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
