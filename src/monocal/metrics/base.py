"""What a metric is: rows become a state, states merge, a state has a value; and replicates of the same rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.scores import Floats
from monocal.metrics.forecast import Forecast


@dataclass(frozen=True)
class Goal:
    """Where a metric wants to be.

    Example:
        >>> toward(1.0).is_better(0.98, than=1.10), minimize.is_better(0.2, than=0.1)
        (True, False)
    """

    kind: Literal["minimize", "maximize", "toward"]
    target: float = 0.0

    def loss(self, value: float) -> float:
        """Returns a number that is smaller for a better value."""
        if self.kind == "maximize":
            return -value
        return abs(value - self.target) if self.kind == "toward" else value

    def is_better(self, value: float, *, than: float) -> bool:
        return self.loss(value) < self.loss(than)


minimize = Goal("minimize")
maximize = Goal("maximize")


def toward(target: float) -> Goal:
    """The goal of being close to `target`."""
    return Goal("toward", target)


S = TypeVar("S")
Rows = NDArray[np.intp]
Blocks = NDArray[np.integer[Any]]


class Replay(ABC, Generic[S]):
    """Rows prepared for replicates."""

    @abstractmethod
    def relabelled(self, positive_rows: Rows) -> S:
        """Returns the state if exactly these rows had label 1."""

    @abstractmethod
    def reweighted(self, blocks: Blocks, counts: Floats) -> Iterator[S]:
        """Yields one state per row of `counts`: a row of the forecast in block b counts `counts[r, b]` times more.

        Arguments:
            blocks: The block of each row, `(n,)`.
            counts: How often each block was drawn in each replicate, `(n_replicates, n_blocks)`.
        """


@final
class FromScratch(Replay[S]):
    """Summarizes all rows again in every replicate: right for any metric, fast for none."""

    def __init__(self, summarize: Callable[[Forecast], S], forecast: Forecast) -> None:
        self._summarize, self._forecast = summarize, forecast

    def relabelled(self, positive_rows: Rows) -> S:
        labels = np.zeros(self._forecast.n_rows)
        labels[positive_rows] = 1.0
        return self._summarize(self._forecast.with_labels(labels))

    def reweighted(self, blocks: Blocks, counts: Floats) -> Iterator[S]:
        weights = self._forecast.weights
        for count in counts:
            drawn = count[blocks]
            yield self._summarize(self._forecast.with_weights(drawn if weights is None else weights * drawn))


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

    A subclass is a frozen dataclass, so that equal options compare equal, and writes `summarize` and `merge`.
    It may write `replay` to make intervals and noise floors cheap; without it each replicate starts from scratch.
    """

    @property
    def bounded(self) -> bool:
        """Whether the state stays small however many rows come (given the number of field values and groups)."""
        return True

    @abstractmethod
    def summarize(self, forecast: Forecast) -> S:
        """Returns the state of these rows."""

    @abstractmethod
    def merge(self, a: S, b: S) -> S:
        """Returns the state of both sets of rows together."""

    def replay(self, forecast: Forecast) -> Replay[Any]:
        """Prepares the rows for many replicates in which only labels or only weights change.

        Their states may be of another kind, which only the metric's value has to understand.
        """
        return FromScratch(self.summarize, forecast)

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

    def __post_init__(self) -> None:
        self._summary()  # checks the options when they are given, not when they are used

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
    def value(self, state: Any) -> Value:
        """Returns the number, or NaN with a reason."""
        return self._value(state)

    @final
    def of(self, forecast: Forecast) -> Value:
        """Returns the value on all rows of a forecast, in one call."""
        return self._value(self._summary().of_all(forecast))

    @abstractmethod
    def _summary(self) -> Summary[S]: ...

    @abstractmethod
    def _value(self, state: Any) -> Value: ...


AnyMetric = Metric[Any]


def check_positive_count(argument: str, count: int) -> None:
    """Refuses a number of bins, views or cells below one."""
    if count < 1:
        raise InvalidInput.of(argument, count, "a whole number ≥ 1", "leave it out to use the default")


def by_summary(metrics: Mapping[str, AnyMetric]) -> dict[Summary[Any], list[str]]:
    """Returns which of the named metrics live off the same state.

    Example:
        >>> from monocal.metrics import metric
        >>> list(by_summary({name: metric(name) for name in ("ece", "auc", "mce")}).values())
        [['ece', 'mce'], ['auc']]
    """
    names: dict[Summary[Any], list[str]] = {}
    for name, metric in metrics.items():
        names.setdefault(metric.summary, []).append(name)
    return names


def values_of(metrics: Mapping[str, AnyMetric], forecast: Forecast) -> dict[str, Value]:
    """Returns every metric's value, with one state per distinct summary, one at a time in memory.

    Arguments:
        metrics: Metrics by the names that their values shall have.
        forecast: The rows.

    Example:
        >>> from monocal.metrics import metric
        >>> rows = Forecast.of([0, 1], [0.2, 0.8])
        >>> round(values_of({"error": metric("ece")}, rows)["error"].number, 6)
        0.2
    """
    values: dict[str, Value] = {}
    for summary, names in by_summary(metrics).items():
        state = summary.of_all(forecast)
        values.update({name: metrics[name].value(state) for name in names})
        del state  # or it would live on until the next one is complete
    return {name: values[name] for name in metrics}
