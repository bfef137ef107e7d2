"""The rows of a task that one process fits: all that are observed, or its shards of them."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from monocal.core.chosen_ids import ChosenIds
from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.core.team import Shards, Team
from monocal.logs.encoded_log import EncodedLog
from monocal.tables.rows import Rows


class OwnRows(NamedTuple):
    """What one process fits a task on.

    Attributes:
        rows: Observed rows with all but their fields.
        features: Their field ids, of shards read from the log whenever they are looked at; None if there are no fields.
        maturity: The share of positives of each row's age whose label has come; None means all.
        shards: How they are cut, where several processes or shards are wanted.
    """

    rows: Rows
    features: Ids | None
    maturity: Floats | None
    shards: Shards | None


def own_rows(
    log: EncodedLog, rows: Rows, task: str, n_shards: int, team: Team, maturity: Floats | None, *, looks_at_time: bool
) -> OwnRows:
    """Returns this process's rows of a task; nothing that their fit has no use for stays in memory beside them.

    Arguments:
        log: Where the ids are.
        rows: The same rows with scores and labels.
        task: Whose labels must be there.
        n_shards: Into how many shards the log is dealt.
        team: The processes that fit together.
        maturity: One per row of the log, or None.
        looks_at_time: Whether the fit tells older rows from newer ones; times and places in the log cost eight bytes a
            row each.
    """
    if n_shards > 1 or team.size > 1:
        own = dealt_rows(log, rows if looks_at_time else replace(rows, times=None), n_shards, team, task)
        if not looks_at_time:
            own = own._replace(shards=replace(own.shards, order=None))
        return OwnRows(own.rows, own.features if log.n_fields else None, _of(maturity, own.places), own.shards)
    known = rows.labels[task] >= 0
    whole = bool(known.all())
    some = slice(None) if whole else np.flatnonzero(known)
    ids = log.features[some] if log.n_fields else None
    return OwnRows(rows if whole else _without_fields(rows).take(some), ids, _of(maturity, some), None)


class DealtRows(NamedTuple):
    """A member's part of a log.

    Attributes:
        rows: All but their fields.
        features: Their field ids, read from the log whenever they are looked at.
        places: Where they are in the log.
        shards: How they are cut.
    """

    rows: Rows
    features: Ids
    places: slice | NDArray[np.int64]
    shards: Shards


def dealt_rows(log: EncodedLog, rows: Rows, n_shards: int, team: Team, task: str | None = None) -> DealtRows:
    """Returns this process's shards of a log; all of it if there is one.

    Arguments:
        log: Where the ids are.
        rows: The same rows with scores and labels.
        n_shards: Into how many shards the log is dealt.
        team: The processes.
        task: Whose labels must be there; None for all rows.
    """
    if n_shards == 1 and team.size == 1:
        return DealtRows(rows, log.features, slice(None), Shards.whole(log.n_rows))
    mine, shards = Shards.deal(log.n_rows, n_shards, team)
    known = np.ones(0, np.bool_) if task is None else rows.labels[task][mine] >= 0
    if not known.all():
        mine, shards = mine[known], shards.kept(known)
    ids = cast("Ids", ChosenIds(log.features, mine))
    return DealtRows(_without_fields(rows).take(mine), ids, mine, shards)


def _without_fields(rows: Rows) -> Rows:
    return replace(rows, fields={}, groups=None)


def _of(maturity: Floats | None, places: slice | NDArray[np.int64]) -> Floats | None:
    return None if maturity is None else maturity[places]
