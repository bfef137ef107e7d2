"""Soft labels as rows with hard ones: a label of q is q positives and 1 − q negatives."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.spaces import Floats

ASK_FOR_SOFT = "turn the label into 0/1; fits and evaluations take a probability for a label with soft_labels=True"


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


def check_soft(column: Floats, argument: str) -> Floats:
    """Refuses the first label outside [0, 1]."""
    bad = np.flatnonzero(~((column >= 0.0) & (column <= 1.0)))
    if bad.size:
        row = int(bad[0])
        raise InvalidInput.of(
            argument,
            f"{column[row]:g} at row {row}",
            "numbers in [0, 1] in every row, as soft_labels=True says",
            "divide counts by their number of trials, and pass the trials as weights",
        )
    return column
