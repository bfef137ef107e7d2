"""The logistic fit from which training starts, and the exact refit of the shifts afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from monocal.calibrators.fit_rows import has_both_classes
from monocal.calibrators.statistical.field_shrinkage import FIRST_PENALTY, Penalty, solve_shrunk
from monocal.calibrators.statistical.wide_solver import WideParameters, field_offsets, solve_wide
from monocal.core.samples import Samples
from monocal.core.spaces import Floats
from monocal.neural.fitted import Weights
from monocal.ops.numpy_ops import add_shifts

START_TOLERANCE = 1e-6
"""The start need not be exact, because the network is trained on top of it."""

REFIT_TOLERANCE = 1e-7
REFIT_ROUNDS = 2
"""Beside the trained curve shifts scatter less than beside a straight line, so penalties move once more."""

MAX_ITERATIONS = 100


@dataclass(frozen=True)
class Start:
    """What training starts from.

    Attributes:
        slope: Applied to the ranker's logit before the curve.
        intercept: Added to it.
        shifts: One per id, field after field; None without a wide part.
        penalties: One per field.
    """

    slope: float = 1.0
    intercept: float = 0.0
    shifts: Floats | None = None
    penalties: Floats | None = None

    def entering(self, samples: Samples) -> Samples:
        """Returns the rows with their logits as they enter the curve."""
        if self.slope == 1.0 and self.intercept == 0.0:
            return samples
        return samples.with_logits(self.slope * samples.logits + self.intercept)

    def beside(self, samples: Samples, sizes: Sequence[int]) -> Floats:
        """Returns what the shifts add on every row."""
        nothing = np.zeros(samples.n_rows)
        if self.shifts is None or samples.features is None:
            return nothing
        return add_shifts(nothing, samples.features, self.shifts, field_offsets(np.asarray(sizes, dtype=np.int64)))


def logistic_start(samples: Samples, sizes: Sequence[int] | None, l2: Penalty) -> Start:
    """Fits slope, intercept and, if there are sizes, one shift per field value.

    Arguments:
        samples: The rows.
        sizes: How many ids each field has; None fits slope and intercept alone.
        l2: Penalty on the shifts, or `auto` to learn one per field.
    """
    wide = sizes is not None and samples.features is not None
    features = samples.features if wide and samples.features is not None else np.zeros((samples.n_rows, 0), np.int32)
    rows = samples.logits, samples.known_labels, samples.weights, features
    counts = np.asarray(sizes if wide else [], dtype=np.int64)
    options: dict[str, Any] = {"tolerance": START_TOLERANCE, "max_iterations": MAX_ITERATIONS, "shards": samples.shards}
    options["n_knots"] = samples.numeric_knots if wide else None
    if wide and l2 == "auto":
        found, penalties = solve_shrunk(*rows, counts, **options)
    else:
        penalties = np.full(len(counts), FIRST_PENALTY if l2 == "auto" else l2)
        found = solve_wide(*rows, counts, l2=penalties, **options)
    return Start(found.slope, found.intercept, found.shifts if wide else None, penalties)


def refit_shifts(curve_logits: Floats, samples: Samples, sizes: Sequence[int], l2: Penalty, start: Start) -> Weights:
    """Finds the best shifts and intercept beside a trained curve, held fixed: a convex problem, solved on all rows.

    Arguments:
        curve_logits: The curve's logit of every row, without shifts.
        samples: All rows.
        sizes: How many ids each field has.
        l2: Penalty on the shifts, or `auto`.
        start: The shifts during training and their penalties.
    """
    assert samples.features is not None
    assert start.shifts is not None
    counts = np.asarray(sizes, dtype=np.int64)
    found, penalties = solve_shrunk(
        curve_logits,
        samples.known_labels,
        samples.weights,
        samples.features,
        counts,
        first=start.penalties,
        n_rounds=REFIT_ROUNDS if l2 == "auto" else 0,
        start=WideParameters(1.0, 0.0, start.shifts, field_offsets(counts), np.zeros_like(start.shifts)),
        slope_is_free=False,
        tolerance=REFIT_TOLERANCE,
        max_iterations=MAX_ITERATIONS,
        n_knots=samples.numeric_knots,
        shards=samples.shards,
    )
    return {
        "wide.shifts": found.shifts,
        "wide.offsets": found.offsets,
        "wide.intercept": np.array([found.intercept]),
        "wide.penalties": penalties,
    }


def split_off_recent(samples: Samples, share: float) -> tuple[Samples, Samples | None]:
    """Holds out the most recent share of rows, unless the older ones would be left with one class."""
    if share <= 0.0:
        return samples, None
    older, recent = samples.split_recent(share)
    if not has_both_classes(older):
        return samples, None
    return older, recent
