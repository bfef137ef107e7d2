"""What of each field's effect is carried into the future, and why: temporal shrinkage of field effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.logistic import score_and_one, solve_logistic, solve_shift
from monocal.carry_over.blocks import TimeBlocks, clock_hours, follows_the_hour
from monocal.carry_over.shares import Origin, rolling_origin_fits, solve_shares, validation_rows
from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.fields import FieldSchema
from monocal.core.scores import Floats
from monocal.wide.solver import LARGEST_PENALTY, N_ROUNDS, Penalty, Search, WideParameters, solve_with_penalties

Carry = Literal["auto", "none"] | Mapping[Any, float]
"""`auto` learns every field's share, `none` carries all effects in full, a mapping gives the shares of some fields (by
position) and learns the others."""

SMALLEST_SHARE = 0.15
"""A field whose share is below leaves the model."""

ENOUGH_RECURRENCE = 0.2
"""A field fewer of whose later rows have a known value is confounded with time."""

PRIOR_RECURRING, PRIOR_CONFOUNDED = 1.0, 0.5
"""The prior share, without evidence. Nothing in the rows distinguishes a value that never came again from the one
stretch of time it was seen in, so half of such a field is carried: that splits the risk. Where times show that the
field is the hour, its values will recur, and it has the prior of the others."""


@final
@dataclass(frozen=True)
class CarryOver:
    """Shares of the fields' effects that are carried into forecasts, one entry per field.

    Attributes:
        shares: Share of the effect that is carried, 0 to 1.
        errors: Standard error of a learned share; NaN where it was given or nothing could be learned.
        recurrence: Share of later rows whose value had rows before.
        given: Whether the user gave the share.
        blocks: The time blocks.
        origins: The fits that were validated; empty if the rows did not allow any.
    """

    shares: Floats
    errors: Floats
    recurrence: Floats
    given: NDArray[np.bool_]
    blocks: TimeBlocks
    origins: tuple[Origin, ...] = ()

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which fields stay in the model."""
        return self.given & (self.shares > 0.0) | (self.shares >= SMALLEST_SHARE)

    @property
    def confounded_with_time(self) -> NDArray[np.bool_]:
        """Which fields stand for time itself, because their values do not recur."""
        return self.recurrence < ENOUGH_RECURRENCE

    @property
    def fitted(self) -> NDArray[np.bool_]:
        """Which fields stand in the fit: those kept, and as a nuisance those that are confounded with time."""
        return self.kept | self.confounded_with_time

    @property
    def carried(self) -> Floats:
        """The share of each field's effect in forecasts."""
        return np.where(self.kept, self.shares, 0.0)

    @property
    def nuisance_weight(self) -> Floats:
        """The share of each field's effect while slope and network are set.

        An hour that never came again is in the way of the score's slope, whatever the share of the next such hour.
        """
        return np.where(self.confounded_with_time, 1.0, self.carried)

    def as_arrays(self, schema: FieldSchema) -> dict[str, NDArray[Any]]:
        """Returns the table that models keep and show; fields of numbers have knots in place of values."""
        return {
            "field": np.arange(len(schema)),
            "share": self.carried,
            "error": self.errors,
            "returning": self.recurrence,
            "given": self.given,
            "n_values": schema.n_values,
        }


def check_carry(carry: Carry, n_fields: int) -> Floats:
    """Returns the given share of every field, NaN where it is to be learned; refuses what is neither.

    Example:
        >>> check_carry({1: 0.0}, 3).tolist()
        [nan, 0.0, nan]
    """
    if isinstance(carry, str):
        if carry not in ("auto", "none"):
            raise InvalidInput.of(
                "carry", repr(carry), '"auto", "none" or shares by field', 'for example carry={"hour": 1.0}'
            )
        return np.full(n_fields, 1.0 if carry == "none" else np.nan)
    given = np.full(n_fields, np.nan)
    for field, share in carry.items():
        place = int(field) if str(field).isdigit() else -1
        if not 0 <= place < n_fields:
            raise InvalidInput.of(
                "carry", repr(field), f"the position of a field, 0 … {n_fields - 1}", "name fields through monocal.fit"
            )
        if not 0.0 <= share <= 1.0:
            raise InvalidInput.of("carry", share, "a share between 0 and 1", "1 keeps the field, 0 leaves it out")
        given[place] = share
    return given


def carry_by_position(carry: Mapping[Any, float], names: Sequence[str]) -> dict[int, float]:
    """Returns shares by field name as shares by position, refusing a name that is none.

    Example:
        >>> carry_by_position({"hour": 1.0}, ["site", "hour"])
        {1: 1.0}
    """
    for name in carry:
        if name not in names:
            raise UnknownName.among("field of carry", str(name), names)
    return {list(names).index(name): share for name, share in carry.items()}


def learn_carry_over(data: Dataset, carry: Carry = "auto", l2: Penalty = "auto") -> CarryOver:
    """Learns one share per field on rows that came later than those its effect was learned from.

    Rows within one shock are one observation, however many they are: an effect that ten thousand rows of one afternoon
    agree on says nothing about the next day. So wide fits on the rows before a few origins are validated on what came
    after a gap, and each field's effect is carried to the share that held there (`solve_shares`). If the given times
    are all the same, no row is later than another and nothing can be learned: half of every effect is carried.

    Arguments:
        data: Rows with fields, in time order.
        carry: Which shares are learned.
        l2: A penalty for all fields; `auto` learns one per field.
    """
    n_fields = len(data.fields)
    wanted = check_carry(carry, n_fields)
    given = ~np.isnan(wanted)
    blocks = TimeBlocks.of(data)
    unknown = np.full(n_fields, np.nan)
    if given.all():
        return CarryOver(wanted, unknown, unknown, given, blocks)
    if blocks.one_moment:
        # every field is confounded with time: its values were seen in one stretch of it
        return CarryOver(np.where(given, wanted, PRIOR_CONFOUNDED), unknown, np.zeros(n_fields), given, blocks)
    origins = rolling_origin_fits(data, blocks, l2)
    if not origins:
        return CarryOver(np.where(given, wanted, 1.0), unknown, unknown, given, blocks)
    recurrence = origins[-1].recurrence(data, blocks)
    found = solve_shares(validation_rows(data, origins, blocks), _prior(data, recurrence), wanted)
    errors = np.where(given, np.nan, found.errors)
    return CarryOver(found.values, errors, recurrence, given, blocks, tuple(origins))


def _prior(data: Dataset, recurrence: Floats) -> Floats:
    assert data.ids is not None
    prior = np.where(recurrence >= ENOUGH_RECURRENCE, PRIOR_RECURRING, PRIOR_CONFOUNDED)
    hours = clock_hours(data)
    if hours is not None:
        for field in np.flatnonzero(prior == PRIOR_CONFOUNDED):
            if follows_the_hour(data, data.ids[:, data.fields.places[field]], hours):
                prior[field] = PRIOR_RECURRING
    return prior


# Effects on all rows, and what of them is carried into forecasts

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
    start, first, n_rounds = None, None, N_ROUNDS
    if carry_over is not None and carry_over.origins:
        last = carry_over.origins[-1]
        start, first, n_rounds = last.found, last.penalties, FINAL_ROUNDS
    found, penalties = solve_fitted(data, carry_over, l2, search, start, first, n_rounds)
    if carry_over is None:
        return EffectFit(found, found.shifts, penalties, None)
    nuisance = found.shifts * data.fields.by_id(carry_over.nuisance_weight)
    return EffectFit(line_beside(data, replace(found, shifts=nuisance)), found.shifts, penalties, carry_over)


def solve_fitted(
    data: Dataset,
    carry_over: CarryOver | None,
    l2: Penalty,
    search: Search,
    start: WideParameters | None,
    first: Floats | None,
    n_rounds: int,
) -> tuple[WideParameters, Floats]:
    """Returns parameters and penalties of all fields; those that left have no shifts and the largest penalty.

    Arguments:
        data: Rows in time order.
        carry_over: Shares of all fields; None fits all of them.
        l2: As for `solve_with_penalties`, like the others.
        search: When each solve stops.
        start: Where the first solve starts, with the shifts of all fields.
        first: Where the estimate of penalties starts, one per field.
        n_rounds: How often they are updated.
    """
    if carry_over is None:
        return solve_with_penalties(data, l2, search, start, first=first, n_rounds=n_rounds)
    fitted, own = np.flatnonzero(carry_over.fitted), data.fields.by_id(carry_over.fitted)
    if start is not None:
        start = replace(start, shifts=start.shifts[own], curvature=start.curvature[own])
    if first is not None:
        first = first[fitted]
    found, learned = solve_with_penalties(data.with_fields(fitted), l2, search, start, first=first, n_rounds=n_rounds)
    shifts, curvature = np.zeros(data.fields.n_ids), np.zeros(data.fields.n_ids)
    shifts[own], curvature[own] = found.shifts, found.curvature
    penalties = np.full(len(data.fields), LARGEST_PENALTY)
    penalties[fitted] = learned
    return replace(found, shifts=shifts, curvature=curvature), penalties


def line_beside(data: Dataset, effects: WideParameters) -> WideParameters:
    """Sets slope (0 or above) and intercept beside shifts that stay."""
    beside = data.fields.add_shifts(np.zeros(data.n_rows), data.ids, effects.shifts)
    slope, intercept = solve_logistic(data, score_and_one, constraints=np.array([[1.0, 0.0]]), offset=beside)
    return replace(effects, slope=max(float(slope), 0.0), intercept=float(intercept))
