"""Effects on all rows, and what of them is carried into forecasts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from monocal.calibrators.logistic import score_and_one, solve_logistic, solve_shift
from monocal.carry_over.shrinkage import CarryOver
from monocal.core.dataset import Dataset
from monocal.core.scores import Floats
from monocal.wide.penalties import LARGEST_PENALTY, Penalty, PenaltyPath, solve_with_penalties
from monocal.wide.solver import Search, WideParameters

FINAL_ROUNDS = 2


@final
@dataclass(frozen=True)
class EffectFit:
    """A wide fit on all rows, before anything is taken off its effects.

    Attributes:
        line: Slope and intercept beside the effects, those that are a nuisance in full and others at their shares.
        shifts: The effects in full.
        penalties: One per field; the largest one for fields that left.
        carry_over: Shares of all fields; None carries everything.
    """

    line: WideParameters
    shifts: Floats
    penalties: Floats
    carry_over: CarryOver | None

    def forecast(self, data: Dataset) -> WideParameters:
        """Returns the parameters with every effect at its carried share and an intercept that fits the total."""
        if self.carry_over is None:
            return self.line
        shifts = self.shifts * data.fields.by_id(self.carry_over.carried)
        total = data.fields.add_shifts(self.line.slope * data.z, data.ids, shifts)
        return replace(self.line, shifts=shifts, intercept=solve_shift(data, total))


def fit_effects(data: Dataset, carry_over: CarryOver | None, l2: Penalty, search: Search) -> EffectFit:
    """Fits the effects of all fields that stay, scales them by their shares, and sets the line beside them.

    Arguments:
        data: Rows in time order.
        carry_over: Shares of all fields; None carries everything.
        l2: A penalty for all fields; `auto` learns one per field.
        search: When the search stops.
    """
    if carry_over is None:
        found, penalties = solve_with_penalties(data, l2, search)
        return EffectFit(found, found.shifts, penalties, None)
    start, path = None, PenaltyPath()
    fitted = np.flatnonzero(carry_over.fitted)
    own = data.fields.by_id(carry_over.fitted)
    if carry_over.origins:
        last = carry_over.origins[-1]
        path = PenaltyPath(last.penalties[fitted], FINAL_ROUNDS)
        start = replace(last.found, shifts=last.found.shifts[own], curvature=last.found.curvature[own])
    found, learned = solve_with_penalties(data.with_fields(fitted), l2, search, start, path)
    found, penalties = among_all_fields(found, learned, carry_over, data)
    nuisance = found.shifts * data.fields.by_id(carry_over.nuisance_weight)
    return EffectFit(line_beside(data, replace(found, shifts=nuisance)), found.shifts, penalties, carry_over)


def among_all_fields(
    found: WideParameters, penalties: Floats, carry_over: CarryOver, data: Dataset
) -> tuple[WideParameters, Floats]:
    """Returns parameters and penalties of the fitted fields as those of all; fields that left have no shifts."""
    own = data.fields.by_id(carry_over.fitted)
    shifts, curvature = np.zeros(data.fields.n_ids), np.zeros(data.fields.n_ids)
    shifts[own], curvature[own] = found.shifts, found.curvature
    of_all = np.full(len(data.fields), LARGEST_PENALTY)
    of_all[carry_over.fitted] = penalties
    return replace(found, shifts=shifts, curvature=curvature), of_all


def line_beside(data: Dataset, effects: WideParameters) -> WideParameters:
    """Sets slope (0 or above) and intercept beside shifts that stay."""
    beside = data.fields.add_shifts(np.zeros(data.n_rows), data.ids, effects.shifts)
    slope, intercept = solve_logistic(data, score_and_one, constraints=np.array([[1.0, 0.0]]), offset=beside)
    return replace(effects, slope=max(float(slope), 0.0), intercept=float(intercept))
