"""Ways in which a ranker's score misses the truth: the base, and those that treat every row alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from monocal.core.errors import InvalidInput, check_known
from monocal.core.fields import Ids
from monocal.core.scores import Floats
from monocal.lab.simulator.draws import Field, Key


@dataclass(frozen=True)
class FieldSpace:
    """What a distortion may know of a world: its fields, their true effects, and the key of its random tables."""

    fields: tuple[Field, ...]
    effects: tuple[Floats, ...]
    key: Key

    def index(self, name: str) -> int:
        names = [field.name for field in self.fields]
        check_known("field", name, names)
        return names.index(name)

    def within(self, label: str | int) -> FieldSpace:
        """The same fields with tables of their own."""
        return FieldSpace(self.fields, self.effects, (*self.key, label))


class Distortion(ABC):
    """A map from the true logit to the score's logit, strictly increasing for a fixed feature row.

    A distortion is a description; `bind` draws its tables for a world and gives a `BoundDistortion` that computes.
    Because every distortion can be undone, the ideal calibration of its scores is known exactly.
    """

    @final
    def bind(self, space: FieldSpace) -> BoundDistortion:
        """Draws the tables this distortion needs from the world's seed."""
        return BoundDistortion(self, self._draw(space.within(type(self).__name__)))

    def _draw(self, _space: FieldSpace) -> Any:
        return None

    @abstractmethod
    def _to_scores(self, logits: Floats, features: Ids, elapsed: Floats, drawn: Any) -> Floats: ...

    @abstractmethod
    def _to_truth(self, logits: Floats, features: Ids, elapsed: Floats, drawn: Any) -> Floats: ...


@final
@dataclass(frozen=True)
class BoundDistortion:
    """A distortion with its tables: computes scores from truth and truth from scores.

    Attributes:
        distortion: What was drawn for.
        drawn: Its tables.
    """

    distortion: Distortion
    drawn: Any

    def to_scores(self, logits: ArrayLike, features: Ids, elapsed: ArrayLike = 0.5) -> Floats:
        """Returns the score logit of each true logit.

        Arguments:
            logits: True logits, one per row.
            features: Field ids, one row each.
            elapsed: How much of the log's time has passed, 0 to 1; matters only to drift.
        """
        given = np.asarray(logits, dtype=np.float64)
        return self.distortion._to_scores(given, features, _spread(elapsed, given), self.drawn)

    def to_truth(self, logits: ArrayLike, features: Ids, elapsed: ArrayLike = 0.5) -> Floats:
        """Returns the true logit of each score logit: the ideal calibration. Arguments as in `to_scores`."""
        given = np.asarray(logits, dtype=np.float64)
        return self.distortion._to_truth(given, features, _spread(elapsed, given), self.drawn)


class Shift(Distortion):
    """A distortion that adds something to the logit which does not depend on the logit."""

    @abstractmethod
    def _shift(self, features: Ids, elapsed: Floats, drawn: Any) -> Floats | float: ...

    @final
    def _to_scores(self, logits: Floats, features: Ids, elapsed: Floats, drawn: Any) -> Floats:
        return logits + self._shift(features, elapsed, drawn)

    @final
    def _to_truth(self, logits: Floats, features: Ids, elapsed: Floats, drawn: Any) -> Floats:
        return logits - self._shift(features, elapsed, drawn)


@final
@dataclass(frozen=True)
class Affine(Distortion):
    r"""Stretches and shifts every logit: :math:`z_{score} = a\,z_{true} + b`.

    Platt scaling undoes it with slope 1/a and intercept −b/a. The default changes nothing.

    Arguments:
        slope: a > 0; below 1 the ranker is too timid, above 1 too sure of itself.
        intercept: b; above 0 the ranker promises too much.

    Example:
        >>> from monocal.lab.simulator import simulate_log
        >>> log = simulate_log(1000, distortion=Affine(slope=0.5, intercept=0.5))
        >>> bool(np.allclose(log.logits, 0.5 * log.true_logits + 0.5))
        True
    """

    slope: float = 1.0
    intercept: float = 0.0

    def __post_init__(self) -> None:
        if not self.slope > 0.0:
            raise InvalidInput.of(
                "Affine.slope", self.slope, "a positive number", "a ranker that sorts backwards cannot be calibrated"
            )

    def _to_scores(self, logits: Floats, _features: Ids, _elapsed: Floats, _drawn: Any) -> Floats:
        return self.slope * logits + self.intercept

    def _to_truth(self, logits: Floats, _features: Ids, _elapsed: Floats, _drawn: Any) -> Floats:
        return (logits - self.intercept) / self.slope


@final
@dataclass(frozen=True)
class NegativeSampling(Shift):
    r"""What a ranker says that saw only a share r of the negatives: :math:`z_{score} = z_{true} - \ln r`.

    Its odds are 1/r too high; `sampling_rate=r` undoes it exactly.

    Arguments:
        rate: The share of negatives kept, in (0, 1].
    """

    rate: float

    def __post_init__(self) -> None:
        if not 0.0 < self.rate <= 1.0:
            raise InvalidInput.of(
                "NegativeSampling.rate", self.rate, "the share of negatives kept, in (0, 1]", "use 0.1 for one in ten"
            )

    def _shift(self, _features: Ids, _elapsed: Floats, _drawn: Any) -> float:
        return float(-np.log(self.rate))


@final
@dataclass(frozen=True)
class Drift(Shift):
    r"""A ranker that grows stale: :math:`z_{score} = z_{true} + a\,(\tau - 1/2)` with τ the share of time passed.

    Arguments:
        amount: a, the change of the bias from the first row to the last.
    """

    amount: float

    def _shift(self, _features: Ids, elapsed: Floats, _drawn: Any) -> Floats:
        return self.amount * (elapsed - 0.5)


@final
@dataclass(frozen=True)
class Compose(Distortion):
    """Several distortions, the first nearest to the truth.

    Each part draws tables of its own, so the same part may occur twice. No parts: nothing is changed.

    Arguments:
        parts: The distortions in the order in which they act on the true logit.
    """

    parts: tuple[Distortion, ...] = ()

    def __init__(self, *parts: Distortion) -> None:
        object.__setattr__(self, "parts", parts)

    def _draw(self, space: FieldSpace) -> tuple[BoundDistortion, ...]:
        return tuple(part.bind(space.within(place)) for place, part in enumerate(self.parts))

    def _to_scores(self, logits: Floats, features: Ids, elapsed: Floats, drawn: tuple[BoundDistortion, ...]) -> Floats:
        for part in drawn:
            logits = part.to_scores(logits, features, elapsed)
        return logits

    def _to_truth(self, logits: Floats, features: Ids, elapsed: Floats, drawn: tuple[BoundDistortion, ...]) -> Floats:
        for part in reversed(drawn):
            logits = part.to_truth(logits, features, elapsed)
        return logits


def _spread(elapsed: ArrayLike, logits: Floats) -> Floats:
    return np.broadcast_to(np.asarray(elapsed, dtype=np.float64), logits.shape)
