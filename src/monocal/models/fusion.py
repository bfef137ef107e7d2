"""Several calibrated probabilities into one ranking score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.spaces import Floats

_MODERATE = 1e100


@final
@dataclass(frozen=True)
class Fusion:
    r"""A weighted sum of powers of calibrated probabilities.

    .. math:: \mathrm{fused} = \sum_k w_k\, s_k'^{\gamma_k}

    Example:
        >>> fusion = Fusion(weights={"click": 1.0, "long_view": 2.0}, powers={"long_view": 0.5})
        >>> fusion.fuse({"click": np.array([0.1]), "long_view": np.array([0.04])}).round(3).tolist()
        [0.5]
    """

    weights: Mapping[str, float]
    powers: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for task, weight in self.weights.items():
            if not np.isfinite(weight):
                raise InvalidInput.of(
                    f"fusion weight of {task!r}", weight, "a finite number", "give each task a weight"
                )
        for task, power in self.powers.items():
            if task not in self.weights:
                raise UnknownName.among("task of fusion powers", task, self.weights)
            if not (np.isfinite(power) and power > 0.0):
                raise InvalidInput.of(f"fusion power of {task!r}", power, "a positive number", "1 leaves it linear")

    @cached_property
    def is_moderate(self) -> bool:
        """Whether the weights are so small that no probabilities make the fused score, or its square, infinite."""
        return sum(map(abs, self.weights.values())) < _MODERATE

    def fuse(self, probabilities: Mapping[str, Floats]) -> Floats:
        """Returns the fused score of every row."""
        total: Floats | None = None
        for task, weight in self.weights.items():
            if task not in probabilities:
                raise UnknownName.among("task of fusion weights", task, probabilities)
            power = self.powers.get(task, 1.0)
            p = probabilities[task]
            term = weight * (p if power == 1.0 else p**power)
            total = term if total is None else total + term
        if total is None:
            raise InvalidInput.of("fusion weights", "no task", "at least one task", "name the tasks to fuse")
        return total

    def as_dict(self) -> dict[str, Any]:
        return {"weights": dict(self.weights), "powers": dict(self.powers)}
