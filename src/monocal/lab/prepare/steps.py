"""The steps of encoding a log: parts, values, groups, ids in file order, order in time, manifest."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.fields import Ids
from monocal.core.process import progress
from monocal.lab.prepare.histories import user_numbers, write_histories
from monocal.lab.prepare.reading import LogReader, number_types
from monocal.lab.prepare.splits import Moment, RowRange, as_integer_moment, split_by_share
from monocal.lab.prepare.time_order import ArrayFile, count_before, is_sorted, oldest_rows, sort_by_time
from monocal.lab.value_counts import ValueCounts
from monocal.tables.categories import distinct_text
from monocal.tables.encoded import GROUP_VALUES, LogManifest, array_file
from monocal.tables.roles import Roles
from monocal.tables.vocabulary import FieldVocabulary, Vocabulary
from monocal.tables.vocabulary_file import save_vocabulary

FitOn = Literal["train", "all"]


def count_fields(
    reader: LogReader,
    parts: LogParts,
    schema: Roles,
    fit_on: FitOn,
    limits: Mapping[str, Any],
    show_progress: bool | None,
) -> Vocabulary:
    """Counts the values of the first part (or of all rows) and returns the vocabulary."""
    hashed = limits["hashed_fields"] or {}
    counts = {name: ValueCounts(name) for name in schema.fields if name not in hashed}
    on_train = fit_on == "train"
    with progress("counting values", parts.n_training if on_train else reader.n_rows, show=show_progress) as bar:
        for fields in parts.training_fields(reader) if on_train else _all_fields(reader):
            for name, counted in counts.items():
                counted.add(fields.column(name))
            bar.advance(fields.num_rows)
    fields_of = [
        FieldVocabulary.hashed(name, hashed[name])
        if name in hashed
        else FieldVocabulary(name, counts[name].frequent(**_limits_of(name, limits)))
        for name in schema.fields
    ]
    return Vocabulary(tuple(fields_of))


def _limits_of(name: str, limits: Mapping[str, Any]) -> dict[str, Any]:
    """The least number of rows and the most values of one field; a mapping has no limit for fields it leaves out."""
    found = {}
    for limit, default in (("min_count", 1), ("max_size", None)):
        given = limits[limit]
        found[limit] = given.get(name, default) if isinstance(given, Mapping) else given
    return found


def count_groups(reader: LogReader, folder: Path, show_progress: bool | None) -> FieldVocabulary:
    """Numbers the groups of all rows in order of first appearance, null last; no group is rare or unseen."""
    values = ValueCounts("group")
    with progress("numbering groups", reader.n_rows, show=show_progress) as bar:
        for rows in reader.read(group=True):
            values.add(_in_order_of_rows(rows.group))
            bar.advance(rows.n_rows)
    groups = FieldVocabulary("group", values.in_order_of_appearance()[0])
    save_vocabulary(Vocabulary((groups,)), folder / GROUP_VALUES)
    return groups


def _in_order_of_rows(column: pa.Array) -> pa.Array:
    """The distinct values of a column by the first row that has them; a dictionary may have any order."""
    values, _, which = distinct_text(column, "group")
    first = np.empty(len(values), dtype=np.int64)
    first[which[::-1]] = np.arange(len(which))[::-1]
    return values.take(pa.array(np.argsort(first)))


def array_files(schema: Roles, n_rows: int, folder: Path) -> list[ArrayFile]:
    """Returns the files that an encoded log with this schema consists of, the features first."""
    kinds = {"features": np.dtype(np.int32)} | number_types(schema)
    if schema.group is not None:
        kinds["group"] = np.dtype(np.int32)
    return [
        ArrayFile(
            name, folder / array_file(index, name), kind, (n_rows, len(schema.fields)) if index == 0 else (n_rows,)
        )
        for index, (name, kind) in enumerate(kinds.items())
    ]


def _all_fields(reader: LogReader) -> Iterator[pa.RecordBatch]:
    return (rows.fields for rows in reader.read(fields=True))


def encode_rows(
    reader: LogReader,
    vocabulary: Vocabulary,
    groups: FieldVocabulary | None,
    arrays: list[ArrayFile],
    show_progress: bool | None,
) -> None:
    """Writes the ids and numbers of all rows in file order."""
    numbers = tuple(array.name for array in arrays if array.name not in ("features", "group"))
    n_read = 0
    with ExitStack() as stack:
        bar = stack.enter_context(progress("encoding", reader.n_rows, show=show_progress))
        streams = [stack.enter_context(array.create(array.path)) for array in arrays]
        for rows in reader.read(fields=True, group=groups is not None, numbers=numbers):
            n_read += rows.n_rows
            bar.advance(rows.n_rows)
            columns = rows.numbers | {"features": _ids(vocabulary, rows.fields, rows.n_rows)}
            if groups is not None:
                columns["group"] = groups.encode(rows.group) - 1
            for array, stream in zip(arrays, streams, strict=True):
                array.append(stream, columns[array.name])
    if n_read != reader.n_rows:
        raise InvalidInput.of(
            "log", f"{n_read} rows instead of {reader.n_rows}", "a log that stays as it is", "encode it again"
        )


def _ids(vocabulary: Vocabulary, fields: pa.RecordBatch, n_rows: int) -> Ids:
    return vocabulary.encode(fields) if vocabulary.names else np.zeros((n_rows, 0), dtype=np.int32)


def sort_rows(arrays: list[ArrayFile], parts: LogParts, show_progress: bool | None) -> None:
    """Puts the rows of all arrays into time order."""
    if parts.times is None:
        return
    n_steps = 2 * len(arrays) * len(parts.times)
    with progress("sorting by time", n_steps, unit="values", show=show_progress) as bar:
        sort_by_time(arrays, parts.times, bar)
    for array in arrays:
        array.sorted_path.replace(array.path)


def history_files(history: str, schema: Roles, arrays: list[ArrayFile]) -> list[ArrayFile]:
    """Writes what each row's user did before, once the rows are in time order."""
    by_name = {array.name: array.map() for array in arrays}
    users, has_unknown = user_numbers(
        history, by_name.get("group"), schema.group, by_name["features"], tuple(schema.fields)
    )
    paths = write_histories(users, by_name.get("time"), has_unknown, arrays[0].path.parent)
    return [ArrayFile(name, path, np.dtype(np.int64), arrays[0].shape[:1]) for name, path in paths.items()]


def write_manifest(
    arrays: list[ArrayFile], ranges: Mapping[str, RowRange], schema: Roles, made_from: dict[str, Any], folder: Path
) -> None:
    """Writes sizes and checksums of all files, which makes the folder a log."""
    parts = {name: (part.start, part.stop) for name, part in ranges.items()}
    files = {array.name: array.path.name for array in arrays}
    LogManifest(arrays[0].shape[0], schema.to_dict(), parts, files, made_from).seal(folder)


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
