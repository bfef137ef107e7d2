"""Whether the score enters along a curve: as far as the curve of older rows held on later ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.curve import Base, BaseCurve, FittedCurve, fit_curve
from monocal.carry_over.shares import SEARCH, Contributions, Origin, solve_shares, validation_rows
from monocal.carry_over.shrinkage import SMALLEST_SHARE, CarryOver, fit_effects
from monocal.core.dataset import Dataset
from monocal.core.scores import Floats
from monocal.wide.solver import Penalty, Search

N_KNOTS = 12
FEWEST_KNOTS = 4
FEWEST_ROWS = 10_000
"""With fewer rows nobody can tell a bend from noise, and the search would cost more than it finds."""

PRIOR_CURVE = 0.0
"""The share of a bend without evidence: nothing. A line is what one expects of a score, and a curve has to pay on later
rows beyond what their noise would give it."""


@final
@dataclass(frozen=True, eq=False)
class ScoreCurve:
    """A curve along which the score enters.

    Attributes:
        curve: Learned from all rows.
        at_origin: Learned from the rows before the last origin; the same if there is none.
        share: Its weight, beside the straight line.
    """

    curve: BaseCurve
    at_origin: BaseCurve
    share: float

    def applied(self, data: Dataset) -> Dataset:
        """Returns the rows with their logits along the curve."""
        return data.with_z(self.curve(data.z))

    def applied_at_origin(self, data: Dataset) -> Dataset:
        """Returns the rows with their logits along the curve of the older ones."""
        return data.with_z(self.at_origin(data.z))

    def as_arrays(self) -> dict[str, NDArray[np.float64]]:
        """Returns what a fitted calibrator keeps as `base_`."""
        return {**self.curve.as_arrays(), "share": np.array([self.share])}


def learn_score_curve(
    data: Dataset, carry_over: CarryOver | None, base: Base, l2: Penalty = "auto", search: Search = SEARCH
) -> ScoreCurve | None:
    """Learns a rising broken line of the score beside the carried effects, and the share of it that held later.

    Before every origin the best straight and the best broken line stand beside the effects of that origin's fit. What
    the broken one adds to the straight one has the weight that held after the gap (`solve_shares`), like the effect of
    a field, but from a prior of nothing. Below a share of .15, or with fewer than 10,000 rows, the line stays straight.

    Arguments:
        data: All rows, in time order.
        carry_over: Origins and shares; None where effects are carried in full.
        base: `slope` learns nothing; `curve` takes the broken line in full, whatever later rows say.
        l2: A penalty for all fields; `auto` learns one per field.
        search: When the fit of effects stops beside which a curve without origins is learned.
    """
    origins = () if carry_over is None else carry_over.origins
    if base == "slope" or (base == "auto" and not origins):
        return None
    if carry_over is None or not origins:
        return score_curve_beside(data, _added(data, fit_effects(data, carry_over, l2, search).line.shifts))
    if base == "auto" and data.n_all < FEWEST_ROWS:
        return None
    knots = data.knots(N_KNOTS)
    if knots.size < FEWEST_KNOTS:
        return None
    found: FittedCurve | None = None
    fits: dict[int, FittedCurve] = {}
    for origin in origins if base == "auto" else origins[-1:]:
        older = data.take(carry_over.blocks.rows(0, origin.end))
        line = origin.found.slope, origin.found.intercept
        found = fit_curve(older, _effects(older, origin, carry_over), knots, line=line)
        if found is not None:
            fits[origin.end] = found
    if found is None:
        return None
    share = 1.0 if base == "curve" else _share(data, carry_over, fits)
    if share < SMALLEST_SHARE:
        return None
    beside = _effects(data, origins[-1], carry_over)
    line = found.slope, found.intercept
    fitted = fit_curve(data, beside, knots, line=line, stiffness=found.stiffness)
    return None if fitted is None else ScoreCurve(fitted.as_base(share), found.as_base(share), share)


def score_curve_beside(data: Dataset, beside: Floats) -> ScoreCurve | None:
    """Returns the best curve beside given effects, in full; None if the rows want a straight line.

    Arguments:
        data: The rows.
        beside: What the effects add on every row.
    """
    knots = data.knots(N_KNOTS)
    fitted = fit_curve(data, beside, knots) if knots.size >= FEWEST_KNOTS else None
    return None if fitted is None else ScoreCurve(fitted.as_base(1.0), fitted.as_base(1.0), 1.0)


def _effects(data: Dataset, origin: Origin, carry_over: CarryOver) -> Floats:
    return _added(data, origin.found.shifts * data.fields.by_id(carry_over.nuisance_weight))


def _added(data: Dataset, shifts: Floats) -> Floats:
    return data.fields.add_shifts(np.zeros(data.n_rows), data.ids, shifts)


def _share(data: Dataset, carry_over: CarryOver, fits: dict[int, FittedCurve]) -> float:
    """Returns the share of the bends that held after the origins' gaps."""

    def contributions_of(origin: Origin, later: Dataset) -> tuple[Floats, Contributions]:
        found = fits[origin.end]
        line = found.slope * later.z + found.intercept
        departure = (found.curve(later.z) - line)[:, None]
        return line + _effects(later, origin, carry_over), lambda rows: departure[rows]

    origins = [origin for origin in carry_over.origins if origin.end in fits]
    later = validation_rows(data, origins, carry_over.blocks, contributions_of)
    return float(solve_shares(later, np.array([PRIOR_CURVE])).values[0])
