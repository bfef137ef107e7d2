"""Columns that callers hand over, checked row by row; soft labels as weighted rows with hard ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.core.errors import InvalidInput
from monocal.core.fields import Ids
from monocal.core.scores import Floats, as_float_column, refuse_rows

LARGEST_WEIGHT = 1e12
"""The square of the sum of ten million such weights still is a number in float32, in which networks train."""

ASK_FOR_SOFT = "turn the label into 0/1; fits and evaluations take a probability for a label with soft_labels=True"

_CHECK_ROWS = 1 << 16


def check_length(column: NDArray[Any], n_rows: int, argument: str) -> NDArray[Any]:
    """Refuses a column whose length differs from the scores'."""
    if column.ndim == 0 or column.shape[0] != n_rows:
        got = "a single value" if column.ndim == 0 else f"{column.shape[0]} rows"
        raise InvalidInput.of(argument, got, f"{n_rows} rows, as many as scores", "pass columns of the same table")
    return column


def check_labels(labels: ArrayLike, n_rows: int, *, soft: bool = False) -> Floats:
    """Returns 0/1 labels as float64, or names the first row that is neither; soft ones may be anything between."""
    column = check_length(as_float_column(labels, "labels"), n_rows, "labels")
    if soft:
        expected = "numbers in [0, 1] in every row, as soft_labels=True says"
        hint = "divide counts by their number of trials, and pass the trials as weights"
        refuse_rows(~((column >= 0.0) & (column <= 1.0)), column, "labels", expected, hint)
        return column
    refuse_rows((column != 0.0) & (column != 1.0), column, "labels", "0 or 1 in every row", ASK_FOR_SOFT)
    return column


def check_weights(weights: ArrayLike, n_rows: int) -> Floats:
    """Returns weights as float64; they must be ≥ 0, not all zero, and at most `LARGEST_WEIGHT`."""
    column = check_length(as_float_column(weights, "weights"), n_rows, "weights")
    refuse_rows(column < 0.0, column, "weights", "numbers that are zero or positive", "drop the row or use 0")
    most = f"numbers from 0 to {LARGEST_WEIGHT:g}, whose sums do not overflow"
    refuse_rows(
        column > LARGEST_WEIGHT, column, "weights", most, "divide all weights by the largest one, or fix the row"
    )
    if not np.any(column > 0.0):
        raise InvalidInput.of("weights", "only zeros", "at least one positive weight", "leave weights out to use 1")
    return column


def check_ids(features: Any, n_rows: int) -> Ids:
    """Returns field ids as an int32 matrix without copying one that already is (memory maps stay on disk)."""
    # ids of chosen rows stand where an array stands, and are not read here
    matrix: Any = features if hasattr(features, "dtype") and hasattr(features, "shape") else np.array(features)
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    if matrix.ndim != 2:
        raise InvalidInput.of(
            "features", f"an array of shape {matrix.shape}", "a matrix (rows, fields) of ids", "stack fields as columns"
        )
    check_length(matrix, n_rows, "features")
    if matrix.dtype.kind not in "iu":
        raise InvalidInput.of(
            "features",
            f"values of type {matrix.dtype}",
            "integer ids per field value (0 = unseen)",
            "use monocal.fit on a table with raw values, or encode them with monocal.vocabulary.Vocabulary",
        )
    for start in range(0, n_rows, _CHECK_ROWS):
        block = np.asarray(matrix[start : start + _CHECK_ROWS])
        if block.size and int(block.min()) < 0:
            row, field = (int(i) for i in np.argwhere(block < 0)[0])
            raise InvalidInput.of(
                "features", f"{block[row, field]} at row {start + row}, field {field}", "ids ≥ 0", "use 0 for unseen"
            )
    result: Ids = matrix if matrix.dtype == np.int32 else matrix.astype(np.int32)
    return result


# Soft labels: a label of q is q positives and 1 − q negatives


class Pieces(NamedTuple):
    """Rows with soft labels, cut into rows with hard ones.

    Attributes:
        rows: The row that each piece is a part of, rising.
        labels: 0, 1, or −1 where the label is not known, `(pieces, tasks)`.
        shares: How much of its row each piece is; those of one row sum to 1.
    """

    rows: NDArray[np.int64]
    labels: NDArray[np.int8]
    shares: Floats


def has_soft(labels: Floats) -> bool:
    """Whether any label lies strictly between 0 and 1."""
    return bool(np.any((labels > 0.0) & (labels < 1.0)))


def cut_soft(labels: Floats) -> Pieces:
    r"""Cuts every row into pieces with hard labels, so that each task's positives weigh q and its negatives 1 − q.

    With one task a row becomes two pieces. With several, one number u in (0, 1) decides all of them,
    :math:`y_t = [u < q_t]`, so T tasks make at most T + 1 pieces and a child with a smaller q than its parent is
    positive only where the parent is. A row with hard labels is one piece.

    Arguments:
        labels: Numbers in [0, 1] and −1 where not known, `(n, tasks)`.

    Example:
        >>> pieces = cut_soft(np.array([[0.25], [1.0]]))
        >>> pieces.rows.tolist(), pieces.labels[:, 0].tolist(), pieces.shares.tolist()
        ([0, 0, 1], [1, 0, 1], [0.25, 0.75, 1.0])
    """
    n_rows = labels.shape[0]
    ends = np.sort(np.maximum(labels, 0.0), axis=1)
    edges = np.concatenate([np.zeros((n_rows, 1)), ends, np.ones((n_rows, 1))], axis=1)
    widths = np.diff(edges, axis=1)
    rows, places = np.nonzero(widths > 0.0)
    # a piece begins at its left edge, and every label beyond that edge is positive there
    hard = (edges[rows, places][:, None] < labels[rows]).astype(np.int8)
    hard[labels[rows] < 0.0] = -1
    return Pieces(rows, hard, widths[rows, places])
