"""Whether the score enters along a curve: as far as the curve of older rows held on later ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.base_curve import Base, BaseCurve
from monocal.calibrators.score_knots import score_knots
from monocal.calibrators.statistical.carry_over.believed import SMALLEST_SHARE, CarryOver
from monocal.calibrators.statistical.carry_over.carried_fit import fit_carried
from monocal.calibrators.statistical.carry_over.chain import MAX_ITERATIONS, TOLERANCE, Cut, judged_rows
from monocal.calibrators.statistical.carry_over.shares import solve_shares
from monocal.calibrators.statistical.contributions import Contributions
from monocal.calibrators.statistical.curve_solver import FittedCurve, fit_curve
from monocal.core.samples import Samples
from monocal.core.spaces import Floats
from monocal.ops.numpy_ops import add_shifts

N_KNOTS = 12
FEWEST_KNOTS = 4
FEWEST_ROWS = 10_000
"""With fewer rows nobody can tell a bend from noise, and the search would cost more than it finds."""

PRIOR_CURVE = 0.0
"""What is believed of a bend without evidence: nothing. A line is what one expects of a score, and a curve has to pay
on later rows beyond what their noise would give it."""


@final
@dataclass(frozen=True, eq=False)
class ScoreCurve:
    """A curve along which the score enters.

    Attributes:
        curve: Learned from all rows.
        at_cut: Learned from the rows before the last cut; the same if there is none.
        share: To which it is believed, beside the straight line.
    """

    curve: BaseCurve
    at_cut: BaseCurve
    share: float

    def applied(self, samples: Samples) -> Samples:
        """Returns the rows with their logits along the curve."""
        return samples.with_logits(self.curve(samples.logits))

    def applied_at_cut(self, samples: Samples) -> Samples:
        """Returns the rows with their logits along the curve of the older ones."""
        return samples.with_logits(self.at_cut(samples.logits))

    def as_arrays(self) -> dict[str, NDArray[np.float64]]:
        """Returns what a fitted calibrator keeps as `base_`."""
        return {**self.curve.as_arrays(), "share": np.array([self.share])}


def learn_score_curve(
    samples: Samples, sizes: NDArray[np.int64], believed: CarryOver, base: Base, l2: float | None = None
) -> ScoreCurve | None:
    """Learns a rising broken line of the score beside the carried effects, and the share of it that held later.

    Before every cut the best straight and the best broken line stand beside the effects of that cut's fit. What the
    broken one says beyond the straight one is believed to the share that held after the gap (`solve_shares`), like
    the effect of a field, but from a prior of nothing. Below a share of .15, or with fewer than 10,000 rows, the line
    stays straight.

    Arguments:
        samples: All rows, in time order.
        sizes: How many ids each field has.
        believed: The chain's cuts and shares.
        base: `slope` learns nothing; `curve` believes the broken line in full, whatever later rows say.
        l2: A penalty for all fields; None learns one per field.
    """
    if base == "slope" or (base == "auto" and not believed.cuts):
        return None
    if not believed.cuts:
        fit = fit_carried(samples, sizes, believed, l2=l2, tolerance=TOLERANCE, max_iterations=MAX_ITERATIONS)
        return score_curve_beside(samples, _added(samples, fit.line.shifts, fit.line.offsets))
    n_rows = int(samples.in_shards.team.count(np.array([samples.n_rows]))[0])
    if base == "auto" and n_rows < FEWEST_ROWS:
        return None
    knots = score_knots(samples.logits, N_KNOTS, samples.weights, samples.shards)
    if knots.size < FEWEST_KNOTS:
        return None
    found: FittedCurve | None = None
    fits: dict[int, FittedCurve] = {}
    for cut in believed.cuts if base == "auto" else believed.cuts[-1:]:
        found = _before(cut, samples, sizes, believed, knots)
        if found is not None:
            fits[cut.end] = found
    if found is None:
        return None
    share = 1.0 if base == "curve" else _share(samples, sizes, believed, fits)
    if share < SMALLEST_SHARE:
        return None
    cut = believed.cuts[-1]
    line = found.slope, found.intercept
    beside = _effects(samples, cut, believed, sizes)
    fitted = fit_curve(samples, beside, knots, line=line, stiffness=found.stiffness)
    return None if fitted is None else ScoreCurve(fitted.as_base(share), found.as_base(share), share)


def score_curve_beside(samples: Samples, beside: Floats) -> ScoreCurve | None:
    """Returns the best curve beside given effects, believed in full; None if the rows want a straight line.

    Arguments:
        samples: The rows.
        beside: What the effects add on every row.
    """
    knots = score_knots(samples.logits, N_KNOTS, samples.weights, samples.shards)
    fitted = fit_curve(samples, beside, knots) if knots.size >= FEWEST_KNOTS else None
    return None if fitted is None else ScoreCurve(fitted.as_base(1.0), fitted.as_base(1.0), 1.0)


def _before(
    cut: Cut, samples: Samples, sizes: NDArray[np.int64], believed: CarryOver, knots: Floats
) -> FittedCurve | None:
    """Returns the curve of the rows before a cut."""
    older = samples.take(believed.blocks.rows(0, cut.end))
    line = cut.found.slope, cut.found.intercept
    return fit_curve(older, _effects(older, cut, believed, sizes), knots, line=line)


def _effects(samples: Samples, cut: Cut, believed: CarryOver, sizes: NDArray[np.int64]) -> Floats:
    return _added(samples, cut.found.shifts * np.repeat(believed.in_place, sizes), cut.found.offsets)


def _added(samples: Samples, shifts: Floats, offsets: NDArray[np.int64]) -> Floats:
    assert samples.features is not None
    return add_shifts(np.zeros(samples.n_rows), samples.features, shifts, offsets)


def _share(samples: Samples, sizes: NDArray[np.int64], believed: CarryOver, fits: dict[int, FittedCurve]) -> float:
    """Returns the share of the bends that held after the cuts' gaps."""

    def said(cut: Cut, later: Samples) -> tuple[Floats, Contributions]:
        found = fits[cut.end]
        line = found.slope * later.logits + found.intercept
        return line + _effects(later, cut, believed, sizes), (found.curve(later.logits) - line)[:, None]

    cuts = [cut for cut in believed.cuts if cut.end in fits]
    judged = judged_rows(samples, cuts, believed.blocks, said)
    return float(solve_shares(judged, np.array([PRIOR_CURVE])).values[0])
