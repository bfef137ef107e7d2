"""What a neural fit carries forward: which fields the network may see, and to which share it is believed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.base_curve import Base
from monocal.calibrators.neural.arrays.context_table import Weights
from monocal.calibrators.neural.fitting.presets import FitSettings
from monocal.calibrators.neural.fitting.steps import Steps, Wish
from monocal.calibrators.neural.fitting.warm_start import (
    MAX_ITERATIONS,
    REFIT_ROUNDS,
    REFIT_TOLERANCE,
    START_TOLERANCE,
    Start,
    split_off_recent,
)
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
from monocal.calibrators.statistical.wide_solver import WideParameters, add_shifts, field_offsets
from monocal.core.samples import Samples
from monocal.core.spaces import Floats

SMALLEST_NETWORK_SHARE = 0.05
"""A network believed to less than this is left out."""

NETWORK_PRIOR = 0.5
"""What is believed of the network without evidence; nothing at all if every row is of the same moment, since the
network then has nothing but fields that cannot be told from time to look at."""


@final
@dataclass(frozen=True)
class BelievedFit:
    """A neural fit with shares.

    Attributes:
        weights: All arrays.
        history: How the last training went.
        believed: The table of shares that models keep and show.
        level: What the newest rows ask for beside it.
        curve: The curve along which the score enters; None if it enters as it is.
    """

    weights: Weights
    history: dict[str, Any]
    believed: dict[str, NDArray[Any]]
    level: float
    curve: ScoreCurve | None


def believed_steps(
    samples: Samples,
    sizes: list[int],
    settings: FitSettings,
    l2: Penalty,
    base: Base,
    logits: Callable[[Weights, Samples], Floats],
) -> Steps[BelievedFit]:
    """Learns shares on later rows, then fits everything on all rows, believed to those shares.

    Arguments:
        samples: All rows, with features, in time order.
        sizes: How many ids each field has.
        settings: Of the preset.
        l2: Penalty on the shifts, or `auto`.
        base: How the score enters; `auto` asks for a curve only where the network is left out.
        logits: Calibrated logits of rows, from a map's arrays.
    """
    counts = np.asarray(sizes, dtype=np.int64)
    penalty = None if l2 == "auto" else float(l2)
    believed = learn_carry_over(samples, counts, settings.carry, penalty)
    curve = learn_score_curve(samples, counts, believed, base, penalty) if base == "curve" else None
    hidden = hidden_fields(believed)
    weights: Weights = {}
    history: dict[str, Any] = {}
    share = 0.0 if believed.blocks.one_moment else NETWORK_PRIOR

    @cache
    def last_wish(curve: ScoreCurve | None) -> Wish:
        rows = samples if curve is None else curve.applied(samples)
        fitted = fit_carried(
            rows, counts, believed, l2=penalty, tolerance=START_TOLERANCE, max_iterations=MAX_ITERATIONS
        )
        start = Start(fitted.line.slope, fitted.line.intercept, fitted.line.shifts, fitted.penalties)
        return Wish(*split_off_recent(rows, settings.stopping_share), start, hidden)

    if believed.cuts:
        rows = samples if curve is None else curve.applied_at_cut(samples)
        older, start = start_at_cut(rows, sizes, believed)
        weights, history = yield Wish(older, None, start, hidden, is_trial=True, following=partial(last_wish, curve))
        del older  # in shards a copy
        later = believed.cuts[-1].later(rows, believed.blocks)
        share = network_share(logits(weights, later), start, later, believed)
        del rows, later
    if share < SMALLEST_NETWORK_SHARE and base == "auto":
        # a network that is believed bends by itself, and starts best from a straight line
        curve = learn_score_curve(samples, counts, believed, base, penalty)
    start = last_wish(curve).start
    samples = samples if curve is None else curve.applied(samples)
    if share < SMALLEST_NETWORK_SHARE:
        share = 0.0
        if not weights:
            weights, history = yield Wish(samples, None, start, hidden)
        weights["affine"] = np.array([start.slope, start.intercept])
    else:
        weights, history = yield last_wish(curve)
    weights["mix"] = np.array([share])
    shifts, in_place = carried_shifts(logits(weights, samples), samples, sizes, l2, start, believed)
    level = block_level(in_place, samples, believed.blocks)
    return BelievedFit(
        weights | shifts,
        history,
        believed.as_arrays(counts, samples.numeric_knots) | {"network": np.array([share])},
        level,
        curve,
    )


def hidden_fields(believed: CarryOver) -> NDArray[np.bool_]:
    """Returns the fields the network must not look at: those that left, and those that cannot be told from time."""
    return ~believed.kept | believed.calendar


def start_at_cut(samples: Samples, sizes: Sequence[int], believed: CarryOver) -> tuple[Samples, Start]:
    """Returns the rows before the last cut and the carried wide fit on them."""
    cut = believed.cuts[-1]
    older = samples.take(believed.blocks.rows(0, cut.end))
    in_place = cut.found.shifts * np.repeat(believed.in_place, sizes)
    found = line_beside(replace(cut.found, shifts=in_place), older)
    return older, Start(found.slope, found.intercept, found.shifts, cut.penalties)


def network_share(curve_logits: Floats, start: Start, later: Samples, believed: CarryOver) -> float:
    """Returns how much of the curve's departure from its straight start held on later rows.

    Arguments:
        curve_logits: The curve's logit of every later row, without shifts.
        start: What the curve was trained on top of.
        later: The rows after the gap.
        believed: Has the time blocks and the cut.
    """
    assert later.features is not None
    assert start.shifts is not None
    line = start.slope * later.logits + start.intercept
    cut = believed.cuts[-1]
    offsets = cut.found.offsets
    block = believed.blocks.block_of_rows(cut.begin) - cut.begin
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
    map_logits: Floats, samples: Samples, sizes: Sequence[int], l2: Penalty, start: Start, believed: CarryOver
) -> tuple[Weights, Floats]:
    """Finds the best shifts beside the map, scales them by their shares, and makes the total right.

    Returns the arrays, and the logit of every row with what stands in place without being carried (`with_left_out`).

    Arguments:
        map_logits: The map's logit of every row, without shifts.
        samples: All rows.
        sizes: How many ids each field has.
        l2: Penalty on the shifts, or `auto`.
        start: The shifts during training and their penalties.
        believed: Shares of all fields.
    """
    assert samples.features is not None
    assert start.shifts is not None
    assert start.penalties is not None
    counts = np.asarray(sizes, dtype=np.int64)
    fitted = np.flatnonzero(believed.fitted)
    own = np.repeat(believed.fitted, counts)
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
    shifts = full * np.repeat(believed.carried, counts)
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
    return arrays, with_left_out(total, samples, counts, full, believed)
