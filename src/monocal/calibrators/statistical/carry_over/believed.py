"""What of each field's effect is carried into the future, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.statistical.carry_over.chain import Cut, forward_chain, judged_rows
from monocal.calibrators.statistical.carry_over.periods import clock_hours, follows_the_hour
from monocal.calibrators.statistical.carry_over.shares import solve_shares
from monocal.calibrators.statistical.carry_over.time_blocks import TimeBlocks
from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.samples import Samples
from monocal.core.spaces import Floats

Carry = Literal["auto", "none"] | Mapping[Any, float]
"""`auto` learns every field's share, `none` believes all effects in full, a mapping gives the shares of some fields (by
position) and learns the others."""

SMALLEST_SHARE = 0.15
"""A field whose share is below leaves the model."""

RETURNING_ENOUGH = 0.2
"""A field fewer of whose later rows have a known value cannot be told from time."""

PRIOR_RETURNING, PRIOR_CALENDAR = 1.0, 0.5
"""What is believed of a share without evidence. Nothing in the rows can tell a value that never came back from the one
stretch of time it was seen in, so half of such a field is believed: that splits the risk. Where times show that the
field is the hour, its values will come back, and it is believed like others."""


@final
@dataclass(frozen=True)
class CarryOver:
    """What the chain believed, one entry per field.

    Attributes:
        shares: Share of the effect that is carried, 0 to 1.
        errors: Standard error of a learned share; NaN where it was given or nothing could be learned.
        returning: Share of later rows whose value had rows before.
        given: Whether the user gave the share.
        blocks: The time blocks.
        cuts: The chain's fits; empty if the rows did not allow any.
    """

    shares: Floats
    errors: Floats
    returning: Floats
    given: NDArray[np.bool_]
    blocks: TimeBlocks
    cuts: tuple[Cut, ...] = ()

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which fields stay in the model."""
        return self.given & (self.shares > 0.0) | (self.shares >= SMALLEST_SHARE)

    @property
    def calendar(self) -> NDArray[np.bool_]:
        """Which fields cannot be told from time, because their values do not come back."""
        return self.returning < RETURNING_ENOUGH

    @property
    def fitted(self) -> NDArray[np.bool_]:
        """Which fields stand in the fit: those kept, and as a nuisance those that cannot be told from time."""
        return self.kept | self.calendar

    @property
    def carried(self) -> Floats:
        """The share of each field's effect in forecasts."""
        return np.where(self.kept, self.shares, 0.0)

    @property
    def in_place(self) -> Floats:
        """The share of each field's effect while slope, network and level are set.

        An hour that never came back is in the way of the score's slope, whatever one believes of the next such hour.
        """
        return np.where(self.calendar, 1.0, self.carried)

    def as_arrays(self, sizes: NDArray[np.int64], n_knots: Sequence[int] | None = None) -> dict[str, NDArray[Any]]:
        """Returns the table that models keep and show; fields of numbers have knots in place of values."""
        known = np.asarray(sizes) - 1
        return {
            "share": self.carried,
            "error": self.errors,
            "returning": self.returning,
            "given": self.given,
            "n_values": known if n_knots is None else np.where(np.asarray(n_knots) > 0, n_knots, known),
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


def carry_among(carry: Carry, columns: Sequence[int]) -> Carry:
    """Returns the same wish for a method that looks at some fields only, with the fields counted among those.

    Example:
        >>> carry_among({2: 0.5, 3: 0.0}, [1, 2])
        {1: 0.5}
    """
    if isinstance(carry, str):
        return carry
    places = {str(column): place for place, column in enumerate(columns)}
    return {places[str(field)]: share for field, share in carry.items() if str(field) in places}


def learn_carry_over(
    samples: Samples, sizes: NDArray[np.int64], carry: Carry = "auto", l2: float | None = None
) -> CarryOver:
    """Learns one share per field on rows that came later than those its effect was learned from.

    Rows within one shock are one observation, however many they are: an effect that ten thousand rows of one afternoon
    agree on says nothing about the next day. So wide fits on the rows before a few cuts are judged on what came after a
    gap, and each field's effect is believed to the share that held there (`solve_shares`). If the given times are all
    the same, no row is later than another and nothing can be learned: half of every effect is believed.

    Arguments:
        samples: Rows with features, in time order.
        sizes: How many ids each field has.
        carry: Which shares are learned.
        l2: A penalty for all fields; None learns one per field.
    """
    n_fields = len(sizes)
    given = check_carry(carry, n_fields)
    blocks = TimeBlocks.of(samples)
    nothing = np.full(n_fields, np.nan)
    if blocks.one_moment and np.isnan(given).any():
        # every field is one that cannot be told from time: its values were seen in one stretch of it
        shares = np.where(np.isnan(given), PRIOR_CALENDAR, given)
        return CarryOver(shares, nothing, np.zeros(n_fields), ~np.isnan(given), blocks)
    if not np.isnan(given).any():
        return CarryOver(given, nothing, nothing, ~np.isnan(given), blocks)
    cuts = forward_chain(samples, sizes, blocks, l2)
    if not cuts:
        return CarryOver(np.where(np.isnan(given), 1.0, given), nothing, nothing, ~np.isnan(given), blocks)
    returning = cuts[-1].returning(samples, blocks)
    found = solve_shares(judged_rows(samples, cuts, blocks), _prior(samples, returning), given)
    errors = np.where(np.isnan(given), found.errors, np.nan)
    return CarryOver(found.values, errors, returning, ~np.isnan(given), blocks, tuple(cuts))


def _prior(samples: Samples, returning: Floats) -> Floats:
    assert samples.features is not None
    prior = np.where(returning >= RETURNING_ENOUGH, PRIOR_RETURNING, PRIOR_CALENDAR)
    hours = clock_hours(samples.times, samples.shards)
    if hours is not None:
        for field in np.flatnonzero(prior == PRIOR_CALENDAR):
            if follows_the_hour(samples.features[:, field], hours, samples.shards):
                prior[field] = PRIOR_RETURNING
    return prior
