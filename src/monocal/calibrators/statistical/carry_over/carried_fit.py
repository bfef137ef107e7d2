"""The wide fit on all rows, and what of it is carried into forecasts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.logistic import solve_logistic
from monocal.calibrators.recent_intercept import solve_shift
from monocal.calibrators.statistical.carry_over.believed import CarryOver
from monocal.calibrators.statistical.field_shrinkage import LARGEST_PENALTY, N_ROUNDS, solve_shrunk
from monocal.calibrators.statistical.wide_solver import WideParameters, field_offsets, solve_wide
from monocal.core.samples import Samples
from monocal.core.spaces import Floats
from monocal.ops.numpy_ops import add_shifts

FINAL_ROUNDS = 2


@final
@dataclass(frozen=True)
class CarriedFit:
    """A wide fit on all rows, before anything is taken off its effects.

    Attributes:
        line: Slope and intercept beside the effects in place, and those effects over all fields.
        shifts: The effects in full, before any share.
        penalties: One per field; the largest one for fields that left.
    """

    line: WideParameters
    shifts: Floats
    penalties: Floats

    def forecast(self, samples: Samples, sizes: NDArray[np.int64], believed: CarryOver) -> WideParameters:
        """Returns the parameters with every effect at its carried share and an intercept that fits the total."""
        assert samples.features is not None
        shifts = self.shifts * np.repeat(believed.carried, sizes)
        total = add_shifts(self.line.slope * samples.logits, samples.features, shifts, self.line.offsets)
        intercept = solve_shift(total, samples.known_labels, samples.weights, samples.shards)
        return replace(self.line, shifts=shifts, intercept=intercept)


def fit_carried(
    samples: Samples,
    sizes: NDArray[np.int64],
    believed: CarryOver,
    *,
    l2: float | None,
    tolerance: float,
    max_iterations: int,
) -> CarriedFit:
    """Fits the effects of all fields that stay, scales them by their shares, and sets the line beside them.

    Arguments:
        samples: Rows with features, in time order.
        sizes: How many ids each field has.
        believed: Shares of all fields.
        l2: A penalty for all fields; None learns one per field.
        tolerance: As for `solve_wide`.
        max_iterations: As for `solve_wide`.
    """
    assert samples.features is not None
    fitted = np.flatnonzero(believed.fitted)
    rows = samples.logits, samples.known_labels, samples.weights, samples.features, sizes[fitted]
    options: dict[str, Any] = {"tolerance": tolerance, "max_iterations": max_iterations, "shards": samples.shards}
    options["columns"] = fitted
    if samples.numeric_knots is not None:
        options["n_knots"] = tuple(samples.numeric_knots[field] for field in fitted)
    offsets = field_offsets(sizes)
    own = np.repeat(believed.fitted, sizes)
    start, first = None, None
    if believed.cuts:
        last = believed.cuts[-1]
        first = last.penalties[fitted]
        start = replace(
            last.found,
            shifts=last.found.shifts[own],
            offsets=field_offsets(sizes[fitted]),
            curvature=last.found.curvature[own],
        )
    if l2 is None:
        n_rounds = FINAL_ROUNDS if believed.cuts else N_ROUNDS
        found, learned = solve_shrunk(*rows, first=first, n_rounds=n_rounds, start=start, **options)
    else:
        learned = np.full(fitted.size, l2)
        found = solve_wide(*rows, l2=learned, start=start, **options)
    shifts, curvature = np.zeros(int(offsets[-1])), np.zeros(int(offsets[-1]))
    shifts[own], curvature[own] = found.shifts, found.curvature
    penalties = np.full(len(sizes), LARGEST_PENALTY)
    penalties[fitted] = learned
    in_place = shifts * np.repeat(believed.in_place, sizes)
    line = WideParameters(found.slope, found.intercept, in_place, offsets, curvature, found.n_evaluations)
    return CarriedFit(line_beside(line, samples), shifts, penalties)


def with_left_out(
    logits: Floats, samples: Samples, sizes: NDArray[np.int64], shifts: Floats, believed: CarryOver
) -> Floats:
    """Returns logits plus what stands in place beyond what is carried: of fields that cannot be told from time.

    Arguments:
        logits: One per row.
        samples: The rows.
        sizes: How many ids each field has.
        shifts: The effects in full.
        believed: Shares of all fields.
    """
    rest = np.repeat(believed.in_place - believed.carried, sizes) * shifts
    if samples.features is None or not rest.any():
        return logits
    return add_shifts(logits, samples.features, rest, field_offsets(sizes))


@final
@dataclass(frozen=True)
class Line:
    """The columns of slope and intercept, made for the rows that one asks for.

    Attributes:
        logits: One per row.
    """

    logits: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        return self.logits.shape[0], 2

    def __getitem__(self, rows: slice, /) -> Floats:
        some = self.logits[rows]
        return np.column_stack([some, np.ones(some.shape[0])])


def line_beside(carried: WideParameters, samples: Samples) -> WideParameters:
    """Sets slope (0 or above) and intercept beside shifts that stay."""
    assert samples.features is not None
    beside = add_shifts(np.zeros(samples.n_rows), samples.features, carried.shifts, carried.offsets)
    slope, intercept = solve_logistic(
        Line(samples.logits),
        samples.known_labels,
        samples.weights,
        constraints=np.array([[1.0, 0.0]]),
        offset=beside,
        shards=samples.shards,
    )
    return replace(carried, slope=max(float(slope), 0.0), intercept=float(intercept))
