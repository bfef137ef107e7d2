"""The logistic fit from which training starts, and the exact refit of the shifts afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monocal.calibrators.neural.context import Weights
from monocal.calibrators.statistical.wide_solver import solve_wide
from monocal.core.samples import Samples
from monocal.core.spaces import Floats

START_TOLERANCE = 1e-6
"""The start need not be exact, because the network is trained on top of it."""

REFIT_TOLERANCE = 1e-7
MAX_ITERATIONS = 100


@dataclass(frozen=True)
class Start:
    """What training starts from.

    Attributes:
        slope: Applied to the ranker's logit before the curve.
        intercept: Added to it.
        shifts: One per id, field after field; None without a wide part.
    """

    slope: float = 1.0
    intercept: float = 0.0
    shifts: Floats | None = None

    def entering(self, samples: Samples) -> Samples:
        """Returns the rows with their logits as they enter the curve."""
        if self.slope == 1.0 and self.intercept == 0.0:
            return samples
        return samples.with_logits(self.slope * samples.logits + self.intercept)


def logistic_start(samples: Samples, sizes: Sequence[int] | None, l2: float) -> Start:
    """Fits slope, intercept and, if there are sizes, one shift per field value."""
    wide = sizes is not None and samples.features is not None
    found = solve_wide(
        samples.logits,
        samples.known_labels,
        samples.weights_or_ones,
        samples.features if wide and samples.features is not None else np.zeros((samples.n_rows, 0), dtype=np.int32),
        np.asarray(sizes if wide else [], dtype=np.int64),
        l2=l2,
        tolerance=START_TOLERANCE,
        max_iterations=MAX_ITERATIONS,
    )
    return Start(found.slope, found.intercept, found.shifts if wide else None)


def refit_shifts(curve_logits: Floats, samples: Samples, sizes: Sequence[int], l2: float, start: Floats) -> Weights:
    """Finds the best shifts and intercept beside a trained curve, held fixed: a convex problem, solved on all rows.

    Arguments:
        curve_logits: The curve's logit of every row, without shifts.
        samples: All rows.
        sizes: How many ids each field has.
        l2: Penalty on the shifts.
        start: The shifts during training.
    """
    assert samples.features is not None
    found = solve_wide(
        curve_logits,
        samples.known_labels,
        samples.weights_or_ones,
        samples.features,
        np.asarray(sizes, dtype=np.int64),
        l2=l2,
        tolerance=REFIT_TOLERANCE,
        max_iterations=MAX_ITERATIONS,
        slope_is_free=False,
        start=start,
    )
    return {
        "wide.shifts": found.shifts,
        "wide.offsets": found.offsets,
        "wide.intercept": np.array([found.intercept]),
    }
