"""Temporal shrinkage of a neural fit: what training starts from, how much of the network lasts, and the last refit.

A fit without carry-over passes the same steps: every share is 1, and nothing is validated on later rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.logistic import solve_shift
from monocal.carry_over.fit import EffectFit, among_all_fields, line_beside
from monocal.carry_over.shares import ValidationRows, solve_shares
from monocal.carry_over.shrinkage import CarryOver
from monocal.core.dataset import Dataset
from monocal.core.scores import Floats
from monocal.neural.fitted import Weights
from monocal.wide.penalties import Penalty, PenaltyPath, solve_with_penalties
from monocal.wide.solver import Search, WideParameters

SMALLEST_NETWORK_SHARE = 0.05
"""A network with a smaller share is left out."""

NETWORK_PRIOR = 0.5
"""The network's share without evidence; 0 if every row is of the same moment, because all fields are then confounded
with time."""

REFIT_ROUNDS = 2
"""Beside the trained curve shifts scatter less than beside a straight line, so penalties move once more."""

_REFIT = Search(tolerance=1e-7, max_iterations=100, slope_is_free=False)


@final
@dataclass(frozen=True)
class Start:
    """What training starts from, and what stays beside the map while it is trained.

    Attributes:
        slope: Applied to the ranker's logit before the map.
        intercept: Added to it.
        shifts: One per id, field after field; None without a wide part.
        penalties: One per field.
    """

    slope: float = 1.0
    intercept: float = 0.0
    shifts: Floats | None = None
    penalties: Floats | None = None

    @classmethod
    def of(cls, fitted: EffectFit, *, wide: bool = True) -> Start:
        """Returns the line and the effects of a wide fit; without a wide part the line alone."""
        line = fitted.line
        return cls(line.slope, line.intercept, line.shifts if wide else None, fitted.penalties)

    def line(self, logits: Floats) -> Floats:
        """Returns logits as they enter the map."""
        return self.slope * logits + self.intercept

    def entering(self, data: Dataset) -> Dataset:
        """Returns the rows with their logits as they enter the map."""
        if self.slope == 1.0 and self.intercept == 0.0:
            return data
        return data.with_z(self.line(data.z))


def split_off_recent(data: Dataset, share: float) -> tuple[Dataset, Dataset | None]:
    """Holds out the most recent share of rows, unless the older ones would be left with one class."""
    if share <= 0.0:
        return data, None
    older, recent = data.split_recent(share)
    return (older, recent) if older.has_both_classes else (data, None)


def hidden_fields(carry_over: CarryOver | None) -> NDArray[np.bool_] | None:
    """Returns the fields the network must not look at: those that left, and those confounded with time."""
    return None if carry_over is None else ~carry_over.kept | carry_over.confounded_with_time


def rows_of_trial(data: Dataset, carry_over: CarryOver) -> tuple[Dataset, Start]:
    """Returns the rows before the last origin, and what a network that is tried on them starts from.

    Arguments:
        data: All rows, in time order.
        carry_over: Origins, time blocks and shares of the fields.
    """
    origin = carry_over.origins[-1]
    older = data.take(carry_over.blocks.rows(0, origin.end))
    found = line_beside(older, replace(origin.found, shifts=_nuisance(carry_over, data)))
    return older, Start(found.slope, found.intercept, found.shifts, origin.penalties)


def share_that_held(map_logits: Floats, later: Dataset, start: Start, carry_over: CarryOver) -> float:
    """Returns the share of a tried network with which later rows are predicted best.

    Arguments:
        map_logits: What the network makes of the later rows.
        later: The rows after the last origin and its gap.
        start: What it was trained from.
        carry_over: As for `rows_of_trial`.
    """
    blocks, begin = carry_over.blocks, carry_over.origins[-1].begin
    line = start.line(later.z)
    departure = (map_logits - line)[:, None]
    block = blocks.block_of_rows(begin) - begin
    beside = later.with_z(later.fields.add_shifts(line, later.ids, _nuisance(carry_over, later)))
    rows = ValidationRows(beside, lambda some: departure[some], block, block)
    return float(solve_shares(rows, np.array([NETWORK_PRIOR])).values[0])


def _nuisance(carry_over: CarryOver, data: Dataset) -> Floats:
    """Returns the effects at the last origin that are not carried."""
    shifts: Floats = carry_over.origins[-1].found.shifts * data.fields.by_id(carry_over.nuisance_weight)
    return shifts


def refit_shifts(map_logits: Floats, data: Dataset, l2: Penalty, start: Start, carry_over: CarryOver | None) -> Weights:
    """Finds the best shifts and intercept beside a trained map, held fixed: a convex problem, solved on all rows.

    With carry-over, shifts are scaled by their shares and the intercept makes the total right again.

    Arguments:
        map_logits: The map's logit of every row, without shifts.
        data: All rows.
        l2: Penalty on the shifts, or `auto`.
        start: The shifts during training and their penalties.
        carry_over: Shares of all fields; None carries everything.
    """
    assert start.shifts is not None
    assert start.penalties is not None
    rows, schema = data.with_z(map_logits), data.fields
    n_rounds = REFIT_ROUNDS if l2 == "auto" else 0
    if carry_over is None:
        first = WideParameters.at(start.shifts)
        found, penalties = solve_with_penalties(rows, "auto", _REFIT, first, PenaltyPath(start.penalties, n_rounds))
        shifts, intercept = found.shifts, found.intercept
    else:
        fitted = np.flatnonzero(carry_over.fitted)
        first = WideParameters.at(start.shifts[schema.by_id(carry_over.fitted)])
        path = PenaltyPath(start.penalties[fitted], n_rounds)
        found, learned = solve_with_penalties(rows.with_fields(fitted), "auto", _REFIT, first, path)
        found, penalties = among_all_fields(found, learned, carry_over, data)
        shifts = found.shifts * schema.by_id(carry_over.carried)
        total = schema.add_shifts(map_logits, data.ids, shifts)
        intercept = solve_shift(data, total)
    return {
        "wide.shifts": shifts,
        "wide.offsets": schema.offsets,
        "wide.intercept": np.array([intercept]),
        "wide.penalties": penalties,
    }
