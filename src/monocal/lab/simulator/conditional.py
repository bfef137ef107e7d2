"""A calibration map whose whole shape depends on the features: the case that needs a feature-aware monotone model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.core.fields import Ids
from monocal.core.scores import Floats, sigmoid
from monocal.lab.simulator.distortions import Distortion, FieldSpace
from monocal.lab.simulator.field_distortions import Tables, sum_over_fields, value_table

_INVERSION_STEPS = 150
_INVERSION_TOLERANCE = 1e-12


@final
@dataclass(frozen=True)
class ConditionalMonotone(Distortion):
    r"""The truth is a slope, a shift and smooth steps of the score, all of which depend on the features.

    .. math:: z_{true} = b(x) + a(x)\,z_{score} + \sum_k h_k(x)\,\sigma\!\left(\frac{z_{score}-c_k(x)}{w_k(x)}\right)

    Slopes, heights and widths are positive (log-normal over feature rows), so the map rises strictly for a fixed
    feature row; a small width is a jump, a large one a gentle bend. Every parameter's dependence on the features is
    a sum of normal numbers over the fields, scaled to standard deviation 1 and then multiplied by its spread.
    Scores from truth have no closed form; they are found by bracketed Newton steps to 1e-12.

    Arguments:
        fields: The names of the fields that matter; empty means all.
        n_steps: How many steps.
        height: Typical height of a step, in logits.
        place: The score logit around which steps lie; several are spaced by `spacing`.
        spacing: Distance between neighbouring steps.
        width: Typical width of a step, in logits.
        slope: Typical slope away from the steps.
        shift: Mean of b(x).
        slope_spread: Standard deviation of ln a(x).
        shift_spread: Standard deviation of b(x).
        height_spread: Standard deviation of ln h(x).
        place_spread: Standard deviation of c(x).
        width_spread: Standard deviation of ln w(x).
    """

    fields: tuple[str, ...] = ()
    n_steps: int = 1
    height: float = 2.0
    place: float = -2.5
    spacing: float = 1.5
    width: float = 0.2
    slope: float = 1.0
    shift: float = 0.0
    slope_spread: float = 0.25
    shift_spread: float = 0.3
    height_spread: float = 0.6
    place_spread: float = 0.6
    width_spread: float = 0.5

    def __post_init__(self) -> None:
        for name in ("height", "width", "slope"):
            if not getattr(self, name) > 0.0:
                raise InvalidInput.of(
                    f"ConditionalMonotone.{name}", getattr(self, name), "a positive number", "use an Affine instead"
                )

    def _draw(self, space: FieldSpace) -> dict[str, Tables]:
        places = [space.index(name) for name in self.fields] or list(range(len(space.fields)))
        names = ["slope", "shift"] + [
            f"{part}{k}" for k in range(self.n_steps) for part in ("height", "place", "width")
        ]
        scale = 1.0 / np.sqrt(len(places))
        return {name: tuple((place, scale * value_table(space, place, name)) for place in places) for name in names}

    def _to_truth(self, logits: Floats, features: Ids, _elapsed: Floats, drawn: dict[str, Tables]) -> Floats:
        return self._map(features, drawn).value(logits)

    def _to_scores(self, logits: Floats, features: Ids, _elapsed: Floats, drawn: dict[str, Tables]) -> Floats:
        return self._map(features, drawn).inverse(logits)

    def _map(self, features: Ids, drawn: dict[str, Tables]) -> _StepMap:
        def normal(name: str) -> Floats:
            return sum_over_fields(features, drawn[name])

        return _StepMap(
            slope=self.slope * np.exp(self.slope_spread * normal("slope")),
            shift=self.shift + self.shift_spread * normal("shift"),
            heights=[self.height * np.exp(self.height_spread * normal(f"height{k}")) for k in range(self.n_steps)],
            places=[
                self.place + self.spacing * (k - (self.n_steps - 1) / 2) + self.place_spread * normal(f"place{k}")
                for k in range(self.n_steps)
            ],
            widths=[self.width * np.exp(self.width_spread * normal(f"width{k}")) for k in range(self.n_steps)],
        )


@final
@dataclass(frozen=True)
class _StepMap:
    """One strictly rising map per row."""

    slope: Floats
    shift: Floats
    heights: list[Floats]
    places: list[Floats]
    widths: list[Floats]

    def value(self, logits: Floats) -> Floats:
        total = self.shift + self.slope * logits
        for height, place, width in zip(self.heights, self.places, self.widths, strict=True):
            total += height * sigmoid((logits - place) / width)
        return total

    def inverse(self, targets: Floats) -> Floats:
        high = (targets - self.shift) / self.slope
        low = high - sum(self.heights, start=np.zeros_like(targets)) / self.slope
        guess = 0.5 * (low + high)
        for turn in range(_INVERSION_STEPS):
            error = self.value(guess) - targets
            high = np.where(error > 0.0, guess, high)
            low = np.where(error > 0.0, low, guess)
            step = error / self._derivative(guess)
            open_rows = np.abs(step) > _INVERSION_TOLERANCE
            if not open_rows.any():
                break
            newton = guess - step
            # In a step's exponential tail Newton creeps by one width at a time, so every third turn halves the bracket.
            inside = (newton > low) & (newton < high) & (turn % 3 != 2)
            guess = np.where(open_rows, np.where(inside, newton, 0.5 * (low + high)), guess)
        return guess

    def _derivative(self, logits: Floats) -> Floats:
        total = self.slope.copy()
        for height, place, width in zip(self.heights, self.places, self.widths, strict=True):
            share = sigmoid((logits - place) / width)
            total += height / width * share * (1.0 - share)
        return total
