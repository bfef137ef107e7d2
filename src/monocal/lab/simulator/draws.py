"""Named streams of random numbers, and categorical fields with power-law traffic."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.scores import Floats

Key = tuple[str | int, ...]


def random_stream(*key: str | int) -> np.random.Generator:
    """Returns a generator that depends on the whole key and on nothing else.

    Every table of a world and every block of rows has a key of its own, so nothing depends on the order in
    which things are drawn, and the global generator is untouched.

    Example:
        >>> a, b = random_stream("rows", 0, 7), random_stream("rows", 0, 7)
        >>> bool((a.random(3) == b.random(3)).all()), bool(random_stream("rows", 1, 7).random() == a.random())
        (True, False)
    """
    digest = hashlib.blake2b(repr(key).encode(), digest_size=32).digest()
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(np.frombuffer(digest, "<u4").tolist())))


FieldSource = Literal["row", "user", "attribute", "hour", "weekday"]

_CALENDAR_SIZES = {"hour": 24, "weekday": 7}
_CALENDAR_NAMES = {"hour": "an hour of the day", "weekday": "a weekday"}


@dataclass(frozen=True)
class Field:
    """One categorical field of a simulated log.

    Ids run from 1 to `size` in order of popularity; 0 is left to values nobody has seen.

    Arguments:
        name: The column's name.
        size: How many values there are.
        exponent: How steep the traffic is: value k gets a share that falls like k to the power of minus this.
        effect: Standard deviation over the values of what the field adds to the true logit.
        drift: Standard deviation of how much a value's effect moves from the first to the last row.
        shape: `random` draws one normal number per value; `falling` makes the effect fall with the logarithm
            of the id, as a position in a list does.
        source: Where the value of a row comes from: drawn for each `row`, the `user` itself, a fixed
            `attribute` of the user, the `hour` of the day, or the `weekday` (1 is Monday).
        arriving: Share of the values that come up only after the log has begun, at a random moment each; until then
            a value that was there from the start takes their traffic.
    """

    name: str
    size: int
    exponent: float = 1.0
    effect: float = 0.0
    drift: float = 0.0
    shape: Literal["random", "falling"] = "random"
    source: FieldSource = "row"
    arriving: float = 0.0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InvalidInput.of("Field.size", self.size, "at least one value", "give the field a positive size")
        wanted = _CALENDAR_SIZES.get(self.source, self.size)
        if self.size != wanted:
            raise InvalidInput.of(
                "Field.size", self.size, f"{wanted} values for {_CALENDAR_NAMES[self.source]}", f"use size={wanted}"
            )
        if not 0.0 <= self.arriving < 1.0:
            raise InvalidInput.of("Field.arriving", self.arriving, "a share in [0, 1)", "use 0.3 for three in ten")

    def effects(self, key: Key) -> Floats:
        """Returns what each id adds to the true logit, `(size + 1,)`, centred by traffic; id 0 adds nothing."""
        return _centred(self._raw_effects(key), self, self.effect)

    def drifts(self, key: Key) -> Floats:
        """Returns how far each id's effect moves over the whole log, `(size + 1,)`."""
        return _centred(random_stream(*key, "drift", self.name).standard_normal(self.size), self, self.drift)

    def arrivals(self, key: Key) -> tuple[Floats, NDArray[np.int32]]:
        """Returns when each id comes up, as a share of the log's time, and which id takes its traffic until then."""
        random = random_stream(*key, "arrival", self.name)
        moments = np.zeros(self.size + 1)
        # the most popular value is always there, so that somebody can take the traffic
        late = 1 + np.flatnonzero(random.random(self.size) < self.arriving)
        late = late[late > 1]
        moments[late] = random.random(late.size)
        before = np.arange(self.size + 1, dtype=np.int32)
        there = np.setdiff1d(before[1:], late)
        before[late] = random.choice(there, late.size)
        return moments, before

    def _raw_effects(self, key: Key) -> Floats:
        if self.shape == "falling":
            ranks: Floats = -np.log(np.arange(1, self.size + 1, dtype=np.float64))
            return ranks
        return random_stream(*key, "effect", self.name).standard_normal(self.size)


def draw_power_law(uniforms: Floats, size: int, exponent: float) -> NDArray[np.int32]:
    r"""Turns uniform numbers into ids 1…size whose frequency falls like a power of the id.

    .. math:: P(k) = \int_k^{k+1} x^{-s}\,dx \Big/ \int_1^{N+1} x^{-s}\,dx

    The integral has a closed inverse, so a million values need no table.

    Example:
        >>> draw_power_law(np.array([0.0, 0.5, 0.999999]), size=1000, exponent=1.0).tolist()
        [1, 31, 1000]
    """
    top = float(size + 1)
    if abs(exponent - 1.0) < 1e-9:
        values = np.exp(uniforms * np.log(top))
    else:
        rest = 1.0 - exponent
        values = (1.0 + uniforms * (top**rest - 1.0)) ** (1.0 / rest)
    ids: NDArray[np.int32] = np.minimum(values, size).astype(np.int32)
    return ids


def power_law_shares(size: int, exponent: float) -> Floats:
    """Returns the probability of each id 1…size under `draw_power_law`.

    Example:
        >>> power_law_shares(3, 1.0).round(3).tolist()
        [0.5, 0.292, 0.208]
    """
    edges = np.arange(1, size + 2, dtype=np.float64)
    if abs(exponent - 1.0) < 1e-9:
        mass = np.log(edges)
    else:
        mass = edges ** (1.0 - exponent) / (1.0 - exponent)
    shares: Floats = np.diff(mass) / (mass[-1] - mass[0])
    return shares


def _centred(raw: Floats, field: Field, scale: float) -> Floats:
    table = np.zeros(field.size + 1)
    if scale == 0.0:
        return table
    even = field.source in _CALENDAR_SIZES
    shares = np.full(field.size, 1 / field.size) if even else power_law_shares(field.size, field.exponent)
    raw = raw - float((shares * raw).sum())
    spread = np.sqrt(float((shares * raw**2).sum()))
    # One value has no spread; it then adds nothing instead of dividing by zero.
    table[1:] = raw * (scale / spread) if spread > 0 else 0.0
    return table
