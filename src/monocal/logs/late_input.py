"""The rows of a fit, also where labels may still come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from monocal.logs.encoded_log import EncodedLog
from monocal.logs.scored_input import ScoredInput
from monocal.logs.scored_log import ScoredLog
from monocal.tables.checks import warn_about_moving
from monocal.tables.late_labels import LateLabels, read_mature
from monocal.tables.roles import Roles
from monocal.tables.table import Rows

Embeddings = Sequence[NDArray[np.float32]]


class FitRows(NamedTuple):
    """What a fit learns from: rows or a log, the ranker's embeddings if there are any, what is known of late labels."""

    rows: Rows | EncodedLog
    embeddings: Embeddings | None = None
    late_labels: LateLabels | None = None


def late_input(table: ScoredInput, roles: Roles) -> FitRows:
    """Reads rows of a table, in time order, or takes those of a log.

    Arguments:
        table: A table, or a log with scores.
        roles: Which column plays which part; rows and log have them.

    Example:
        >>> found = late_input({"p": [0.1, 0.2], "y": [0, 1], "t": [2, 1]}, Roles.of(score="p", label="y", time="t"))
        >>> found.rows.scores["y"].tolist(), found.late_labels
        ([0.2, 0.1], None)
    """
    given = _read(table, roles)
    if isinstance(given.rows, Rows):
        warn_about_moving(given.rows)
    return given


def _read(table: ScoredInput, roles: Roles) -> FitRows:
    if isinstance(table, ScoredLog):
        return FitRows(replace(table.as_encoded(), roles=roles), table.embeddings)
    if isinstance(table, EncodedLog):
        return FitRows(replace(table, roles=roles))
    rows, labels = read_mature(table, roles)
    return FitRows(rows.in_time_order(), None, labels)
