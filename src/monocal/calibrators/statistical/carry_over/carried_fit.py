"""The wide fit on all rows, with every field's effect carried to its share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.statistical.carry_over.believed import CarryOver
from monocal.calibrators.statistical.field_shrinkage import LARGEST_PENALTY, N_ROUNDS, solve_shrunk
from monocal.calibrators.statistical.logistic_solver import solve_logistic
from monocal.calibrators.statistical.wide_solver import WideParameters, add_shifts, field_offsets, solve_wide
from monocal.core.samples import Samples
from monocal.core.spaces import Floats

FINAL_ROUNDS = 2


def fit_carried(
    samples: Samples,
    sizes: NDArray[np.int64],
    believed: CarryOver,
    *,
    l2: float | None,
    tolerance: float,
    max_iterations: int,
) -> tuple[WideParameters, Floats]:
    """Fits shifts of the kept fields on all rows, scales them by their shares, and sets the line beside them.

    Returns the parameters over all fields (shifts of fields that left are 0) and the penalties of all fields (of those
    that left the largest one).

    Arguments:
        samples: Rows with features, in time order.
        sizes: How many ids each field has.
        believed: Shares of all fields.
        l2: A penalty for all fields; None learns one per field.
        tolerance: As for `solve_wide`.
        max_iterations: As for `solve_wide`.
    """
    assert samples.features is not None
    kept = np.flatnonzero(believed.kept)
    features = samples.features if kept.size == len(sizes) else np.ascontiguousarray(samples.features[:, kept])
    rows = samples.logits, samples.known_labels, samples.weights_or_ones, features, sizes[kept]
    options: dict[str, Any] = {"tolerance": tolerance, "max_iterations": max_iterations}
    offsets = field_offsets(sizes)
    own = np.repeat(believed.kept, sizes)
    start, first = None, None
    if believed.cuts:
        last = believed.cuts[-1]
        first = last.penalties[kept]
        start = replace(
            last.found,
            shifts=last.found.shifts[own],
            offsets=field_offsets(sizes[kept]),
            curvature=last.found.curvature[own],
        )
    if l2 is None:
        n_rounds = FINAL_ROUNDS if believed.cuts else N_ROUNDS
        found, learned = solve_shrunk(*rows, first=first, n_rounds=n_rounds, start=start, **options)
    else:
        learned = np.full(kept.size, l2)
        found = solve_wide(*rows, l2=learned, start=start, **options)
    shifts = np.zeros(int(offsets[-1]))
    shifts[own] = found.shifts * np.repeat(believed.shares[kept], sizes[kept])
    curvature = np.zeros_like(shifts)
    curvature[own] = found.curvature
    penalties = np.full(len(sizes), LARGEST_PENALTY)
    penalties[kept] = learned
    carried = WideParameters(found.slope, found.intercept, shifts, offsets, curvature, found.n_evaluations)
    return line_beside(carried, samples), penalties


def line_beside(carried: WideParameters, samples: Samples) -> WideParameters:
    """Sets slope (0 or above) and intercept beside shifts that stay."""
    assert samples.features is not None
    beside = add_shifts(np.zeros(samples.n_rows), samples.features, carried.shifts, carried.offsets)
    design = np.column_stack([samples.logits, np.ones(samples.n_rows)])
    slope, intercept = solve_logistic(
        design, samples.known_labels, samples.weights_or_ones, constraints=np.array([[1.0, 0.0]]), offset=beside
    )
    return replace(carried, slope=max(float(slope), 0.0), intercept=float(intercept))
