"""Finds what each row's user did before the row, in one pass over the rows of a log in time order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from monocal.core.errors import UnknownName
from monocal.core.fields import Ids
from monocal.core.folder import fingerprint
from monocal.core.process import release_pages
from monocal.lab.prepare.encoded_log import ARRAYS, EncodedLog, Histories, Numbers

_WINDOW_ROWS = 1 << 18


def with_histories(log: EncodedLog, user: str) -> EncodedLog:
    """Returns a log with the past of every row, see `Histories`.

    Arguments:
        log: Rows in time order.
        user: The field or group column whose values have a past.
    """
    users, has_unknown = user_numbers(user, log.groups, log.roles.group, log.features, log.field_names)
    past = Histories(*find_histories(users, log.times, has_unknown), log.features, log.labels)
    return replace(log, histories=past, fingerprint=fingerprint(log.fingerprint, "histories", user))


class _Window(NamedTuple):
    places: Numbers
    first: Numbers
    stop: Numbers


def user_numbers(
    name: str, groups: Ids | None, group_name: str | None, features: Ids, field_names: tuple[str, ...]
) -> tuple[Ids, bool]:
    """Returns the number of each row's user, and whether 0 stands for users that are not known."""
    if groups is not None and name == group_name:
        return groups, False
    if name not in field_names:
        raise UnknownName.among("history", name, [*field_names, *([group_name] if group_name else [])])
    return features[:, field_names.index(name)], True


def find_histories(users: Ids, times: Numbers | None, zero_is_unknown: bool) -> tuple[Numbers, Numbers, Numbers]:
    """Returns the arrays `order`, `first` and `stop` of `Histories` for rows in time order.

    Example:
        User 7 sees two items at time 1 and one at time 2: the page at time 1 has no past.

        >>> order, first, stop = find_histories(np.array([7, 7, 5, 7]), np.array([1, 1, 1, 2]), False)
        >>> [order[a:b].tolist() for a, b in zip(first, stop)]
        [[], [], [], [0, 1]]
    """
    n_rows = len(users)
    order, first, stop = np.zeros(n_rows, np.int64), np.zeros(n_rows, np.int64), np.zeros(n_rows, np.int64)
    for start, window in _windows(users, times, zero_is_unknown):
        rows = slice(start, start + len(window.first))
        order[window.places] = np.arange(rows.start, rows.stop)
        first[rows], stop[rows] = window.first, window.stop
    return order, first, stop


def write_histories(users: Ids, times: Numbers | None, zero_is_unknown: bool, folder: Path) -> dict[str, Path]:
    """Writes the arrays of `find_histories` as files; memory grows with the users, not with the rows."""
    n_rows = len(users)
    paths = {name: folder / f"{name}.npy" for name in ARRAYS}
    maps = {}
    for name, path in paths.items():
        maps[name] = np.lib.format.open_memmap(path, mode="w+", dtype=np.int64, shape=(n_rows,))
        if hasattr(os, "posix_fallocate"):
            with path.open("r+b") as stream:
                # writing to a map of a file with holes would kill the process on a full disk
                os.posix_fallocate(stream.fileno(), 0, path.stat().st_size)
    for start, window in _windows(users, times, zero_is_unknown):
        rows = slice(start, start + len(window.first))
        maps["history_order"][window.places] = np.arange(rows.start, rows.stop)
        maps["history_first"][rows], maps["history_stop"][rows] = window.first, window.stop
        for array in maps.values():
            release_pages(array)
    for array in maps.values():
        array.flush()
    return paths


def _windows(users: Ids, times: Numbers | None, zero_is_unknown: bool) -> Iterator[tuple[int, _Window]]:
    """Yields, window by window, the place of each row in the order by user, and the range of its past."""
    n_rows = len(users)
    counts = np.zeros(1, np.int64)
    for start in range(0, n_rows, _WINDOW_ROWS):
        found = np.bincount(users[start : start + _WINDOW_ROWS])
        release_pages(users)
        counts = _longer(counts, len(found), 0)
        counts[: len(found)] += found
    begins = np.cumsum(counts) - counts
    cursor = begins.copy()
    last_time = np.full(len(counts), np.iinfo(np.int64).min)
    moment_place = begins.copy()
    for start in range(0, n_rows, _WINDOW_ROWS):
        chosen = np.array(users[start : start + _WINDOW_ROWS])
        rows = np.arange(start, start + len(chosen))
        moments = rows if times is None else np.array(times[start : start + _WINDOW_ROWS])
        for column in (users, times):
            if column is not None:
                release_pages(column)
        by_user = np.argsort(chosen, kind="stable")
        user, moment = chosen[by_user], moments[by_user]
        new_user = np.append(True, user[1:] != user[:-1])
        ranks = np.arange(len(user)) - np.maximum.accumulate(np.where(new_user, np.arange(len(user)), 0))
        places = cursor[user] + ranks
        new_moment = new_user | np.append(True, moment[1:] != moment[:-1])
        goes_on = new_user & (last_time[user] == moment)
        begin = np.where(goes_on, moment_place[user], places)
        stops = begin[np.maximum.accumulate(np.where(new_moment, np.arange(len(user)), 0))]
        firsts = begins[user]
        ends = np.append(np.flatnonzero(new_user)[1:], len(user)) - 1
        cursor[user[ends]] = places[ends] + 1
        last_time[user[ends]], moment_place[user[ends]] = moment[ends], stops[ends]
        if zero_is_unknown:
            stops = np.where(user == 0, firsts, stops)
        back = np.empty_like(by_user)
        back[by_user] = np.arange(len(by_user))
        yield start, _Window(places[back], firsts[back], stops[back])


def _longer(column: Numbers, length: int, value: int) -> Numbers:
    return column if length <= len(column) else np.append(column, np.full(length - len(column), value))
