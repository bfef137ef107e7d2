"""Which rows of a log belong to which part, and the rows a vocabulary may be fitted on."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.roles import Roles
from monocal.logs.array_files import ArrayFile
from monocal.logs.log_readers import LogReader
from monocal.logs.splits import Moment, RowRange, as_integer_moment, split_by_share
from monocal.logs.time_order import count_before, is_sorted, oldest_rows


@final
@dataclass(frozen=True)
class LogParts:
    """The parts of a log in time order, the first of which is for training.

    Attributes:
        ranges: Part name to its rows once the log is in time order.
        times: The times in file order, if the log has any.
        is_sorted: Whether file order is time order.
    """

    ranges: Mapping[str, RowRange]
    times: NDArray[np.int64] | None
    is_sorted: bool

    @property
    def n_training(self) -> int:
        """Rows of the first part."""
        return next(iter(self.ranges.values())).n_rows

    def training_fields(self, reader: LogReader) -> Iterator[pa.RecordBatch]:
        """Yields the fields of the first part's rows, wherever they are in the file; reads no further than needed."""
        if self.is_sorted or self.times is None:
            yield from self._first_rows(reader)
            return
        moment, n_ties = oldest_rows(self.times, self.n_training)
        for rows in reader.read(fields=True, numbers=("time",)):
            times = rows.numbers["time"]
            chosen = times < moment
            ties = np.flatnonzero(times == moment)[:n_ties]
            chosen[ties] = True
            n_ties -= len(ties)
            yield rows.fields.filter(pa.array(chosen))

    def _first_rows(self, reader: LogReader) -> Iterator[pa.RecordBatch]:
        n_left = self.n_training
        for rows in reader.read(fields=True):
            if n_left <= 0:
                return
            yield rows.fields.slice(0, n_left)
            n_left -= rows.n_rows


def find_parts(
    reader: LogReader,
    schema: Roles,
    stage: Path,
    shares: Mapping[str, float],
    cuts: Mapping[str, Moment] | None,
    first: str = "train",
) -> LogParts:
    """Finds the parts of a log by shares of its rows or by moments; times are kept in a file under `stage`."""
    if schema.time is None:
        if cuts is not None:
            raise InvalidInput.of("cuts", f"{dict(cuts)}", "a schema with a time column", "name it, or pass shares")
        return LogParts(split_by_share(reader.n_rows, shares), None, True)
    file = ArrayFile("time", stage / "times.npy", np.dtype(np.int64), (reader.n_rows,))
    with file.create(file.path) as stream:
        for rows in reader.read(numbers=("time",)):
            file.append(stream, rows.numbers["time"])
    times = file.map()
    if cuts is None:
        ranges = split_by_share(reader.n_rows, shares)
    else:
        if first in cuts:
            raise InvalidInput.of("cuts", f"the name {first!r}", "the parts after it", "rename the part")
        bounds = [0, *(count_before(times, as_integer_moment(moment)) for moment in cuts.values()), reader.n_rows]
        if any(left > right for left, right in itertools.pairwise(bounds)):
            raise InvalidInput.of("cuts", f"{dict(cuts)}", "moments in order", "sort the cuts")
        names = [first, *cuts]
        ranges = {name: RowRange(bounds[i], bounds[i + 1]) for i, name in enumerate(names)}
        _check_parts(ranges, cuts, times)
    return LogParts(ranges, times, is_sorted(times))


def _check_parts(ranges: Mapping[str, RowRange], cuts: Mapping[str, Moment], times: NDArray[np.int64]) -> None:
    for name, part in ranges.items():
        if part.n_rows == 0:
            first, last = int(times.min()), int(times.max())
            raise InvalidInput.of(
                "cuts",
                f"{dict(cuts)}, which leaves no rows for {name!r}",
                f"moments after the first row, between {first} and {last} as the log keeps times",
                "move the cut; dates are microseconds since 1970 (UTC) there, and numbers are as in the column",
            )
