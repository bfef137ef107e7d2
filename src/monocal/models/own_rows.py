"""The rows of a task that one process fits: all that are observed, or its shards of them."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.core.team import Shards, Team
from monocal.logs.encoded_log import EncodedLog
from monocal.tables.rows import Rows


class OwnRows(NamedTuple):
    """What one process fits a task on.

    Attributes:
        rows: Observed rows with all but their fields.
        features: Their field ids; None if there are no fields.
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
    known = rows.labels[task] >= 0
    whole, shards = bool(known.all()), None
    mine: slice | NDArray[np.int64] = slice(None) if whole else np.flatnonzero(known)
    if n_shards > 1 or team.size > 1:
        mine, shards = Shards.deal(np.flatnonzero(known), n_shards, team)
        if not looks_at_time:
            rows, shards = replace(rows, times=None), replace(shards, order=None)
    observed = rows if whole and shards is None else replace(rows, fields={}, groups=None).take(mine)
    features = log.features[mine] if log.n_fields else None
    return OwnRows(observed, features, None if maturity is None else maturity[mine], shards)
