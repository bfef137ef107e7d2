"""Relative error of cells: the part that RCE (bins) and FRCE (field values) share."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.metrics.base import Value
from monocal.metrics.sums import CellSums

Normalise = Literal["kept", "all"]

SMOOTHED_POSITIVES = 0.5
"""Cells without positives count as if they had half a one in the smoothed variant."""


def relative_error(cells: CellSums, normalise: Normalise, smoothing: float, what: str) -> Value:
    r"""Returns the row-weighted mean of :math:`|\sum(p-y)| / \sum y` over cells.

    .. math:: \frac{\sum_v n_v\, |\sum_{i\in v}(p_i-y_i)| / \sum_{i\in v} y_i}{\sum_v n_v}

    Cells without a positive label are dropped from the numerator, and from the denominator too with `normalise="kept"`.
    Dropping is optimistic: over-prediction there costs nothing. Therefore the details carry `dropped_row_share` and
    `smoothed`, where nothing is dropped and the divisor is :math:`\max(\sum y, 1/2)`.

    Arguments:
        cells: Sums per cell.
        normalise: "kept" divides by the rows of kept cells, "all" by all rows.
        smoothing: The smallest divisor; 0 drops cells without positives instead.
        what: What a cell is called in the reason, such as "bin".
    """
    weight = float(cells.weight.sum())
    if weight == 0.0:
        return Value.undefined("no rows")
    kept = cells.positive > 0.0
    details = {
        "dropped_row_share": float(cells.weight[~kept].sum()) / weight,
        "smoothed": _mean_ratio(cells, smoothing or SMOOTHED_POSITIVES) / weight,
    }
    if smoothing > 0.0:
        return Value(details["smoothed"], details=details)
    if not kept.any():
        return Value.undefined(f"no {what} has a positive label to divide by", details)
    chosen = CellSums(cells.weight[kept], cells.predicted[kept], cells.positive[kept])
    rows = float(chosen.weight.sum()) if normalise == "kept" else weight
    return Value(_mean_ratio(chosen, 0.0) / rows, details=details)


def check_relative_options(normalise: str, smoothing: float) -> None:
    """Refuses options that do not exist."""
    if normalise not in get_args(Normalise):
        raise InvalidInput.of("normalise", repr(normalise), '"kept" or "all"', "say whose rows are the denominator")
    if not smoothing >= 0.0:
        raise InvalidInput.of("smoothing", smoothing, "a number ≥ 0", "use 0.5, or 0 to drop cells without positives")


def _mean_ratio(cells: CellSums, smallest: float) -> float:
    return float(np.dot(cells.weight, cells.gap / np.maximum(cells.positive, smallest)))
