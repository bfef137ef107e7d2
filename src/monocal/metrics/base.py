"""What a metric is: rows become a state, states merge, a state has a value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar, final

from monocal.core.errors import InvalidInput
from monocal.core.goals import Goal
from monocal.metrics.forecast import Forecast
from monocal.metrics.replay import FromScratch, Replay

S = TypeVar("S")


@final
@dataclass(frozen=True)
class Value:
    """A metric's number; when it is undefined the number is NaN and the reason says why.

    Attributes:
        number: The value, or NaN.
        reason: Why the number is NaN; empty otherwise.
        details: Further numbers that belong to it, such as the parts of a decomposition.

    Example:
        >>> Value.undefined("no rows")
        Value(number=nan, reason='no rows', details={})
    """

    number: float
    reason: str = ""
    details: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def undefined(cls, reason: str, details: Mapping[str, float] | None = None) -> Value:
        return cls(float("nan"), reason, details or {})


class Summary(ABC, Generic[S]):
    """How rows become a state. Metrics with equal summaries share one pass over the rows.

    A subclass is a frozen dataclass, so that equal options compare equal, and writes `_summarize` and `_merge`.
    It may write `_replay` to make intervals and noise floors cheap; without it each replicate starts from scratch.
    """

    @property
    @final
    def bounded(self) -> bool:
        """Whether the state stays small however many rows come (given the number of field values and groups)."""
        return self._bounded()

    @final
    def summarize(self, forecast: Forecast) -> S:
        return self._summarize(forecast)

    @final
    def merge(self, a: S, b: S) -> S:
        """Returns the state of both sets of rows together."""
        return self._merge(a, b)

    @final
    def replay(self, forecast: Forecast) -> Replay[S]:
        """Prepares the rows for many replicates in which only labels or only weights change."""
        return self._replay(forecast)

    @final
    def of_all(self, forecast: Forecast) -> S:
        """Returns the state of all rows, adding them up in slices where the state allows it."""
        if not self.bounded:
            return self.summarize(forecast)
        chunks = forecast.chunks()
        state = self.summarize(next(chunks))
        for chunk in chunks:
            state = self.merge(state, self.summarize(chunk))
        return state

    def _bounded(self) -> bool:
        return True

    @abstractmethod
    def _summarize(self, forecast: Forecast) -> S: ...

    @abstractmethod
    def _merge(self, a: S, b: S) -> S: ...

    def _replay(self, forecast: Forecast) -> Replay[S]:
        return FromScratch(self._summarize, forecast)


@dataclass(frozen=True)
class Metric(ABC, Generic[S]):
    """A number that says how good a forecast is, computed from a state that can be merged.

    Streaming, merging partial results and distributing the work come free: `summarize` any pieces, `merge`
    their states in any order, and ask for the `value` once. A subclass is a frozen dataclass whose fields are its
    options; it names itself and its goal, and writes `_summary` and `_value`.
    """

    name: ClassVar[str]
    goal: ClassVar[Goal]
    limits: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    """The smallest and largest number the metric can take; intervals stay inside."""

    has_floor: ClassVar[bool] = True
    """Whether every perfect forecast of the same rows has about the same value. False for scores that also reward
    knowing more (log-loss, AUC): what they would be for a perfect forecast depends on what it knows."""

    @property
    @final
    def summary(self) -> Summary[S]:
        """How this metric adds up rows."""
        return self._summary()

    @final
    def summarize(self, forecast: Forecast) -> S:
        """Returns the state of these rows."""
        return self._summary().summarize(forecast)

    @final
    def merge(self, a: S, b: S) -> S:
        """Returns the state of both sets of rows together."""
        return self._summary().merge(a, b)

    @final
    def value(self, state: S) -> Value:
        """Returns the number, or NaN with a reason."""
        return self._value(state)

    @final
    def of(self, forecast: Forecast) -> Value:
        """Returns the value on all rows of a forecast, in one call."""
        return self._value(self._summary().of_all(forecast))

    @abstractmethod
    def _summary(self) -> Summary[S]: ...

    @abstractmethod
    def _value(self, state: S) -> Value: ...


AnyMetric = Metric[Any]


def check_positive_count(argument: str, count: int) -> None:
    """Refuses a number of bins, views or cells below one."""
    if count < 1:
        raise InvalidInput.of(argument, count, "a whole number ≥ 1", "leave it out to use the default")
