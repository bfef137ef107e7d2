"""The lists that rows belong to, batches that keep them whole, and batches with a share of the negatives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.process import release_pages
from monocal.lab.prepare.encoded_log import MISSING_LABEL, EncodedLog
from monocal.neural.batches import WINDOW_ROWS

_PURPOSE = 20_171


def keep_share_of_negatives(log: EncodedLog, tasks: Sequence[str], rate: float, seed: int) -> EncodedLog:
    r"""Returns all positives of a log and a random share of its negatives, as copies in memory, in the same order.

    Every row draws once, whatever its label, weight or fields; a task sees a negative row only if the draw took it, and
    a row that another task needs has its label taken away in this one. So each task's negatives are an independent
    sample with probability r, and the odds that it teaches are exactly :math:`1/r` of the true ones: adding
    :math:`\ln r` to the logits undoes it (`core.spaces`). A kept row keeps its weight.

    Arguments:
        log: The rows, in time order.
        tasks: The labels that count; a row that is kept for none of them is left out.
        rate: r in (0, 1].
        seed: Of the draws.

    Example:
        Ten thousand impressions with 20 % clicks; a tenth of the others stays.

        >>> from monocal.lab.simulator import simulate_log
        >>> log = simulate_log(10_000, seed=0).encoded()
        >>> thinned = keep_share_of_negatives(log, ["click"], 0.1, seed=0)
        >>> clicks = int(log.labels["click"].sum())
        >>> int(thinned.labels["click"].sum()) == clicks
        True
        >>> round((thinned.n_rows - clicks) / (log.n_rows - clicks), 2)
        0.1
    """
    if not 0.0 < rate <= 1.0:
        raise InvalidInput.of(
            "negative_rate", rate, "a share in (0, 1]", "use 0.1 to train on one negative in ten, 1 for all"
        )
    if rate == 1.0:
        return log
    drawn = np.random.default_rng([_PURPOSE, seed]).random(log.n_rows) < rate
    seen = {task: (log.labels[task] == 1) | (drawn & (log.labels[task] == 0)) for task in tasks}
    rows = np.flatnonzero(np.any(list(seen.values()), axis=0))
    kept = log.take(rows)
    labels = {
        task: np.where(seen[task][rows], kept.labels[task], np.int8(MISSING_LABEL)) if task in seen else column
        for task, column in kept.labels.items()
    }
    return replace(kept, labels=labels)


Lists = NDArray[np.int64]


def lists_of(log: EncodedLog, group: str | Sequence[str] | None) -> Lists:
    """Returns the number of each row's list.

    Rows are of one list where they agree in all named columns. A row whose value is unseen (id 0) in one of them is a
    list of its own: values that share id 0 have nothing to do with each other.

    Arguments:
        log: The rows.
        group: One or several of the fields, the log's group column and its time column; None means the group column.
    """
    column = None if log.groups is None else log.roles.group
    names = [column] if group is None else [group] if isinstance(group, str) else list(group)
    if names == [None]:
        raise InvalidInput.of("group", None, "the column whose values make a list", 'name it, group="user_id"')
    lists = np.zeros(log.n_rows, np.int64)
    alone = np.zeros(log.n_rows, bool)
    n_lists = 1
    for name in names:
        if log.groups is not None and name == column:
            numbers, size = log.groups, int(log.groups.max(initial=0)) + 1
        elif log.times is not None and name == log.roles.time:
            numbers = log.times - log.times.min(initial=np.iinfo(np.int64).max)
            size = int(numbers.max(initial=0)) + 1
        elif name in log.field_names:
            place = log.field_names.index(name)
            numbers, size = log.features[:, place], log.field_sizes[place]
            alone |= numbers == 0
        else:
            raise UnknownName.among("group", str(name), [*log.field_names, *([column] if column else [])])
        n_lists *= size
        if n_lists >= 1 << 62:
            raise InvalidInput.of("group", names, "fewer combinations of values than 2^62", "name fewer columns")
        lists = lists * size + numbers
    lists[alone] = -1 - np.flatnonzero(alone)
    return lists


def order_by_list(lists: Lists, batch_rows: int) -> tuple[NDArray[np.int64], list[int]]:
    """Brings the rows of a list together and says where batches end.

    A list whose rows lie fewer than `batch_rows` rows apart is whole in one batch. A longer one, such as all rows of a
    user over a month, is cut into stretches of that length, so that training still follows time: no row moves by
    `batch_rows` or more.

    Arguments:
        lists: Number of each row's list.
        batch_rows: Most rows of a batch.

    Returns:
        Row numbers in their new order, and where in it each batch ends.

    Example:
        >>> order, ends = order_by_list(np.array([7, 8, 7, 8, 9, 9]), 4)
        >>> order.tolist(), ends
        ([0, 2, 1, 3, 4, 5], [4, 6])
    """
    dense = np.unique(lists, return_inverse=True)[1]
    first_rows = np.empty(len(lists), np.int64)
    opened = np.full(int(dense.max(initial=0)) + 1, -batch_rows, np.int64)
    for start in range(0, len(lists), batch_rows):
        rows = np.arange(start, min(start + batch_rows, len(lists)))
        here = dense[rows]
        first_rows[rows] = opened[here]
        fresh = rows[rows >= opened[here] + batch_rows]
        values, where, of_row = np.unique(dense[fresh], return_index=True, return_inverse=True)
        opened[values] = fresh[where]
        first_rows[fresh] = fresh[where][of_row]
    order = np.argsort(first_rows, kind="stable")
    borders = np.append(np.flatnonzero(np.diff(first_rows[order])) + 1, len(lists))
    ends: list[int] = []
    while not ends or ends[-1] < len(lists):
        last = int(np.searchsorted(borders, (ends[-1] if ends else 0) + batch_rows, side="right")) - 1
        ends.append(int(borders[last]))
    return order, ends


def batches_of(
    columns: Mapping[str, NDArray[Any]], order: NDArray[np.int64], ends: Sequence[int]
) -> Iterator[dict[str, NDArray[Any]]]:
    """Yields the rows of each batch, with their numbers under `rows`."""
    start = 0
    for end in ends:
        rows = order[start:end]
        yield {name: column[rows] for name, column in columns.items()} | {"rows": rows}
        if end // WINDOW_ROWS > start // WINDOW_ROWS:
            for column in columns.values():
                release_pages(column)
        start = end
