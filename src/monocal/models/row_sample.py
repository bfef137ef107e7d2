"""A few of the rows that a model was fitted on, as numbers, by which they are recognised in a table."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import MonocalWarning
from monocal.tables.rows import Rows
from monocal.vocabulary.vocabulary import Vocabulary

N_KEPT = 256
"""Kept rows: enough to tell a share of a tenth from none, small beside everything else in a model."""

_DISTINCT_ENOUGH = 0.9
_WORTH_A_WARNING = 0.1
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def row_sample(rows: Rows, columns: Iterable[NDArray[Any]]) -> list[str]:
    """Returns the smallest of the rows' numbers: a random sample that does not depend on the rows' order.

    Empty where many rows look alike (rounded scores and no fields), because then they cannot be recognised.

    Arguments:
        rows: The rows, with labels and scores.
        columns: The ids of each field.

    Example:
        >>> from monocal.core.roles import Roles
        >>> from monocal.tables.read import read
        >>> table = {"click": [0, 1, 0], "pctr": [0.1, 0.5, 0.2]}
        >>> rows = read(table, Roles.of(score="pctr", label="click"))
        >>> sorted(row_sample(rows, [])) == sorted(row_sample(rows.take(np.array([2, 0, 1])), []))
        True
    """
    marks = np.unique(_marks(rows, columns))
    if marks.size < _DISTINCT_ENOUGH * rows.n_rows:
        return []
    return [f"{mark:016x}" for mark in marks[:N_KEPT].tolist()]


def share_among(info: Mapping[str, Any], vocabulary: Vocabulary, rows: Rows) -> float:
    """Returns which share of a model's fitting rows is among these rows; NaN if the model kept no sample.

    Arguments:
        info: The model's `info`.
        vocabulary: Its values and ids.
        rows: Rows with the model's scores and fields.
    """
    kept = np.array([int(mark, 16) for mark in info.get("row_sample", ())], dtype=np.uint64)
    if not kept.size:
        return float("nan")
    fields = ((vocabulary[name], rows.fields[name]) for name in vocabulary.names)
    marks = _marks(rows, (field.encode(column.known_values)[column.ids] for field, column in fields))
    return float(np.isin(kept, marks).mean())


def warn_about_fitted(info: Mapping[str, Any], vocabulary: Vocabulary, rows: Rows) -> None:
    """Warns if a tenth or more of the rows that a model was fitted on are among those that it is judged on."""
    share = share_among(info, vocabulary, rows)
    if share >= _WORTH_A_WARNING:
        warnings.warn(
            f"about {share:.0%} of the rows that the model was fitted on are among the rows it is judged on, so that "
            "it looks better than it is. Way out: judge it on later rows, or leave the old ones out with since",
            MonocalWarning,
            stacklevel=3,
        )


def _marks(rows: Rows, columns: Iterable[NDArray[Any]]) -> NDArray[np.uint64]:
    """One number per row from its labels, scores and ids (a multiplicative hash, folded after every column)."""
    marks = np.zeros(rows.n_rows, dtype=np.uint64)
    parts = [part for task in sorted(rows.scores) for part in (rows.labels[task], rows.scores[task])]
    for part in (*parts, *columns):
        column = np.asarray(part)
        bits = column.astype(np.float64).view(np.uint64) if column.dtype.kind == "f" else column.astype(np.uint64)
        marks = (marks ^ bits) * _FACTOR
        marks ^= marks >> np.uint64(29)
    return marks
