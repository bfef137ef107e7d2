"""Temporal shrinkage of a neural fit: which fields the network may see, and how much of it lasts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.base_curve import Base
from monocal.calibrators.recent_intercept import solve_shift
from monocal.calibrators.statistical.carry_over import (
    CarryOver,
    LaterRows,
    ScoreCurve,
    block_level,
    fit_carried,
    learn_carry_over,
    learn_score_curve,
    line_beside,
    solve_shares,
    with_left_out,
)
from monocal.calibrators.statistical.field_shrinkage import LARGEST_PENALTY, Penalty, solve_shrunk
from monocal.calibrators.statistical.wide_solver import WideParameters, field_offsets
from monocal.core.samples import Samples
from monocal.core.spaces import Floats
from monocal.neural.fitted import Weights
from monocal.neural.fitting.presets import FitSettings
from monocal.neural.fitting.warm_start import (
    MAX_ITERATIONS,
    REFIT_ROUNDS,
    REFIT_TOLERANCE,
    START_TOLERANCE,
    Start,
    split_off_recent,
)
from monocal.ops.numpy_ops import add_shifts

SMALLEST_NETWORK_SHARE = 0.05
"""A network with a smaller share is left out."""

NETWORK_PRIOR = 0.5
"""The network's share without evidence; 0 if every row is of the same moment, because all fields are then confounded
with time."""

Trained = tuple[Weights, dict[str, Any]]
"""A map's arrays, and how its training went."""


class TrainMap(Protocol):
    """Trains a map on top of a start."""

    def __call__(
        self,
        rows: Samples,
        held_out: Samples | None,
        start: Start,
        hidden: NDArray[np.bool_] | None = None,
        *,
        is_trial: bool = False,
    ) -> Trained:
        """Returns the trained map.

        Arguments:
            rows: The rows to train on.
            held_out: Rows that choose when to stop.
            start: Slope, intercept and shifts that stay while the map is trained.
            hidden: Fields whose values all count as unseen in the map's context; None for none.
            is_trial: Whether the map is only trained to be evaluated on later rows.
        """
        ...


@final
@dataclass(frozen=True)
class CarryOverFit:
    """A neural fit with shares.

    Attributes:
        weights: All arrays.
        history: How the last training went.
        shares: The table of shares that models keep and show.
        level: What the newest rows ask for beside it.
        curve: The curve along which the score enters; None if it enters as it is.
    """

    weights: Weights
    history: dict[str, Any]
    shares: dict[str, NDArray[Any]]
    level: float
    curve: ScoreCurve | None


def fit_with_carry_over(
    samples: Samples,
    sizes: list[int],
    settings: FitSettings,
    l2: Penalty,
    base: Base,
    train: TrainMap,
    logits: Callable[[Weights, Samples], Floats],
) -> CarryOverFit:
    """Learns shares on later rows, then fits everything on all rows and multiplies it by those shares.

    1. Shares of the fields, and which fields the network may see.
    2. A trial: a network trained on the rows before the last cut; its share is what of it held on the rows after.
    3. The wide fit on all rows, from which the last training starts.
    4. The last training, on all rows; none where the trial's share is 0.
    5. Shifts refitted beside the network, scaled by their shares; the level of the newest rows.

    Arguments:
        samples: All rows, with features, in time order.
        sizes: How many ids each field has.
        settings: Of the preset.
        l2: Penalty on the shifts, or `auto`.
        base: How the score enters; `auto` asks for a curve only where the network is left out.
        train: Trains a map.
        logits: Calibrated logits of rows, from a map's arrays.
    """
    counts = np.asarray(sizes, dtype=np.int64)
    penalty = None if l2 == "auto" else float(l2)
    carry_over = learn_carry_over(samples, counts, settings.carry, penalty)
    curve = learn_score_curve(samples, counts, carry_over, base, penalty) if base == "curve" else None
    hidden = hidden_fields(carry_over)
    weights: Weights = {}
    history: dict[str, Any] = {}
    share = 0.0 if carry_over.blocks.one_moment else NETWORK_PRIOR
    if carry_over.cuts:
        rows = samples if curve is None else curve.applied_at_cut(samples)
        older, start = start_at_cut(rows, sizes, carry_over)
        weights, history = train(older, None, start, hidden, is_trial=True)
        del older  # in shards a copy
        later = carry_over.cuts[-1].later(rows, carry_over.blocks)
        share = network_share(logits(weights, later), start, later, carry_over)
        del rows, later
    if share < SMALLEST_NETWORK_SHARE and base == "auto":
        # a network that is in use bends by itself, and starts best from a straight line
        curve = learn_score_curve(samples, counts, carry_over, base, penalty)
    samples = samples if curve is None else curve.applied(samples)
    start = _start_on_all_rows(samples, counts, carry_over, penalty)
    if share >= SMALLEST_NETWORK_SHARE:
        weights, history = train(*split_off_recent(samples, settings.stopping_share), start, hidden)
    else:
        share = 0.0
        if not weights:
            weights, history = train(samples, None, start, hidden)
        weights["affine"] = np.array([start.slope, start.intercept])
    weights["mix"] = np.array([share])
    shifts, in_place = carried_shifts(logits(weights, samples), samples, sizes, l2, start, carry_over)
    level = block_level(in_place, samples, carry_over.blocks)
    shares = carry_over.as_arrays(counts, samples.numeric_knots) | {"network": np.array([share])}
    return CarryOverFit(weights | shifts, history, shares, level, curve)


def _start_on_all_rows(
    samples: Samples, counts: NDArray[np.int64], carry_over: CarryOver, penalty: float | None
) -> Start:
    found = fit_carried(
        samples, counts, carry_over, l2=penalty, tolerance=START_TOLERANCE, max_iterations=MAX_ITERATIONS
    )
    return Start(found.line.slope, found.line.intercept, found.line.shifts, found.penalties)


def hidden_fields(carry_over: CarryOver) -> NDArray[np.bool_]:
    """Returns the fields the network must not look at: those that left, and those confounded with time."""
    return ~carry_over.kept | carry_over.calendar


def start_at_cut(samples: Samples, sizes: Sequence[int], carry_over: CarryOver) -> tuple[Samples, Start]:
    """Returns the rows before the last cut and the carried wide fit on them."""
    cut = carry_over.cuts[-1]
    older = samples.take(carry_over.blocks.rows(0, cut.end))
    in_place = cut.found.shifts * np.repeat(carry_over.in_place, sizes)
    found = line_beside(replace(cut.found, shifts=in_place), older)
    return older, Start(found.slope, found.intercept, found.shifts, cut.penalties)


def network_share(curve_logits: Floats, start: Start, later: Samples, carry_over: CarryOver) -> float:
    """Returns how much of the curve's departure from its straight start held on later rows.

    Arguments:
        curve_logits: The curve's logit of every later row, without shifts.
        start: What the curve was trained on top of.
        later: The rows after the gap.
        carry_over: Has the time blocks and the cut.
    """
    assert later.features is not None
    assert start.shifts is not None
    line = start.slope * later.logits + start.intercept
    cut = carry_over.cuts[-1]
    offsets = cut.found.offsets
    block = carry_over.blocks.block_of_rows(cut.begin) - cut.begin
    rows = LaterRows(
        offset=add_shifts(line, later.features, start.shifts, offsets),
        contributions=(curve_logits - line)[:, None],
        labels=later.known_labels,
        weights=later.weights,
        levels=block,
        blocks=block,
        shards=later.shards,
    )
    return float(solve_shares(rows, np.array([NETWORK_PRIOR])).values[0])


def carried_shifts(
    map_logits: Floats, samples: Samples, sizes: Sequence[int], l2: Penalty, start: Start, carry_over: CarryOver
) -> tuple[Weights, Floats]:
    """Finds the best shifts beside the map, scales them by their shares, and makes the total right.

    Returns the arrays, and the logit of every row with what stands in place without being carried (`with_left_out`).

    Arguments:
        map_logits: The map's logit of every row, without shifts.
        samples: All rows.
        sizes: How many ids each field has.
        l2: Penalty on the shifts, or `auto`.
        start: The shifts during training and their penalties.
        carry_over: Shares of all fields.
    """
    assert samples.features is not None
    assert start.shifts is not None
    assert start.penalties is not None
    counts = np.asarray(sizes, dtype=np.int64)
    fitted = np.flatnonzero(carry_over.fitted)
    own = np.repeat(carry_over.fitted, counts)
    labels, weights = samples.known_labels, samples.weights
    first = start.shifts[own]
    found, learned = solve_shrunk(
        map_logits,
        labels,
        weights,
        samples.features,
        counts[fitted],
        first=start.penalties[fitted],
        n_rounds=REFIT_ROUNDS if l2 == "auto" else 0,
        start=WideParameters(1.0, 0.0, first, field_offsets(counts[fitted]), np.zeros_like(first)),
        slope_is_free=False,
        tolerance=REFIT_TOLERANCE,
        max_iterations=MAX_ITERATIONS,
        n_knots=None if samples.numeric_knots is None else [samples.numeric_knots[field] for field in fitted],
        columns=fitted,
        shards=samples.shards,
    )
    offsets = field_offsets(counts)
    full = np.zeros(int(offsets[-1]))
    full[own] = found.shifts
    shifts = full * np.repeat(carry_over.carried, counts)
    penalties = np.full(len(counts), LARGEST_PENALTY)
    penalties[fitted] = learned
    total = add_shifts(map_logits, samples.features, shifts, offsets)
    intercept = solve_shift(total, labels, weights, samples.shards)
    arrays = {
        "wide.shifts": shifts,
        "wide.offsets": offsets,
        "wide.intercept": np.array([intercept]),
        "wide.penalties": penalties,
    }
    total += intercept
    return arrays, with_left_out(total, samples, counts, full, carry_over)
