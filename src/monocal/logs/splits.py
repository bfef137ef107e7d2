"""Cutting a log into parts: by time, by share in time order, or by whole groups."""

from __future__ import annotations

import datetime
import hashlib
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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


def split_by_time(times: NDArray[Any], cuts: Mapping[str, Moment], first: str = "train") -> dict[str, RowRange]:
    """Cuts rows sorted by time at given moments; a row at the moment of a cut belongs to the later part.

    Arguments:
        times: One time per row, oldest first: integers, or numpy datetimes.
        cuts: Name of a part to the moment it begins, in order. For integer times a moment may be an integer in
            the same unit; a date, a datetime or ISO text is turned into microseconds since 1970 (UTC), which is
            how an encoded log keeps timestamps.
        first: Name of the part before the first cut.

    Example:
        >>> days = np.array([1, 1, 2, 3, 3, 3])
        >>> split_by_time(days, {"calibration": 2, "test": 3})
        {'train': RowRange(start=0, stop=2), 'calibration': RowRange(start=2, stop=3),
         'test': RowRange(start=3, stop=6)}
    """
    column = times.view("i8") if times.dtype.kind == "M" else times
    unit = np.datetime_data(times.dtype)[0] if times.dtype.kind == "M" else "us"
    check_sorted(column)
    names = [first, *cuts]
    if len(set(names)) < len(names):
        raise InvalidInput.of("cuts", f"the name {first!r} twice", "different names", "rename one part")
    bounds = [0]
    for name, moment in cuts.items():
        at = int(np.searchsorted(column, as_integer_moment(moment, unit), side="left"))
        if at < bounds[-1]:
            raise InvalidInput.of(
                "cuts", f"{name!r} at {moment}, before the cut in front of it", "moments in order", "sort the cuts"
            )
        bounds.append(at)
    bounds.append(len(column))
    return {name: RowRange(bounds[i], bounds[i + 1]) for i, name in enumerate(names)}


def split_by_group(
    groups: NDArray[Any], shares: Mapping[str, float] = DEFAULT_SHARES, *, seed: int = 0
) -> dict[str, NDArray[np.int64]]:
    """Deals whole groups to parts at random and returns the rows of each part, in row order.

    All rows of a group land in one part. Where a group lands depends on its value and the seed alone, so a log
    that grows keeps its groups where they were.

    Arguments:
        groups: The group of each row: integers or text.
        shares: Part name to its expected share of groups.
        seed: Another seed deals differently.

    Example:
        >>> parts = split_by_group(np.array([7, 7, 8, 9, 9, 9]), {"fit": 1, "test": 1}, seed=1)
        >>> {name: rows.tolist() for name, rows in parts.items()}
        {'fit': [3, 4, 5], 'test': [0, 1, 2]}
    """
    exact = check_shares(shares)
    edges = np.cumsum([float(share) for share in exact.values()])
    position = _uniform(groups, seed) * edges[-1]
    part_of_row = np.minimum(np.searchsorted(edges, position, side="right"), len(edges) - 1)
    return {name: np.flatnonzero(part_of_row == index) for index, name in enumerate(exact)}


def check_shares(shares: Mapping[str, float]) -> dict[str, Fraction]:
    """Returns the shares as exact fractions; refuses what cannot be a share."""
    if not shares:
        raise InvalidInput.of("shares", "no part", "a share per part", 'pass {"train": 3, "calibration": 1, "test": 1}')
    for name, share in shares.items():
        if not (math.isfinite(share) and share > 0):
            raise InvalidInput.of("shares", f"{share} for {name!r}", "positive numbers", "remove the part")
    return {name: Fraction(str(share)) for name, share in shares.items()}


def check_sorted(times: NDArray[Any], argument: str = "times") -> None:
    """Refuses times that go back, naming the first row that does; reads block by block."""
    block = 1 << 20
    for start in range(0, len(times), block):
        piece = times[start : start + block + 1]
        back = np.flatnonzero(piece[1:] < piece[:-1])
        if back.size:
            row = start + int(back[0]) + 1
            raise InvalidInput.of(
                argument,
                f"{times[row]} at row {row} after {times[row - 1]}",
                "rows in time order, oldest first",
                "sort the log by time, or give the time column to encode_log, which sorts",
            )


def as_integer_moment(moment: Moment, unit: str = "us") -> int:
    """Returns a moment as an integer; dates, datetimes and ISO text in `unit`s since 1970 (UTC)."""
    if isinstance(moment, int | np.integer):
        return int(moment)
    if isinstance(moment, datetime.datetime) and moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    try:
        return int(np.array(moment, dtype=f"datetime64[{unit}]").astype(np.int64))
    except ValueError:
        raise InvalidInput.of("cuts", repr(moment), "an integer or an ISO date", "write 2014-10-28") from None


def _uniform(groups: NDArray[Any], seed: int) -> NDArray[np.float64]:
    """A number in [0, 1) per row that depends on the group and the seed only (the finaliser of splitmix64)."""
    if groups.dtype.kind in "iub":
        keys = groups.astype(np.int64).view(np.uint64)
    elif groups.dtype.kind in "USO":
        values, which = np.unique(groups.astype(np.str_), return_inverse=True)
        keys = np.array([_text_key(value) for value in values], dtype=np.uint64)[which]
    else:
        raise InvalidInput.of("groups", f"values of type {groups.dtype}", "integers or text", "pass the group's id")
    mixed = keys + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    result: NDArray[np.float64] = (mixed >> np.uint64(11)).astype(np.float64) / 2.0**53
    return result


def _text_key(value: str) -> int:
    return int.from_bytes(hashlib.blake2b(value.encode(), digest_size=8).digest(), "little")
