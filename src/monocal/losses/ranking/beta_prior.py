"""Click rates of users and items with a Beta prior, for values that were seen a few times only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma

from monocal.core.errors import InvalidInput
from monocal.core.spaces import Floats

_MOST_MASS = 1e4
"""Rates that vary less than chance would drive a + b to infinity."""

_SMALL = 1e-8


@final
@dataclass(frozen=True)
class BetaPrior:
    r"""A Beta(a, b) distribution of click rates over the values of a field.

    Example:
        >>> prior = BetaPrior.fit(n=[20, 30, 25, 40], clicks=[1, 12, 2, 4])
        >>> round(prior.a, 4), round(prior.b, 4)
        (1.7151, 8.8446)
        >>> prior.posterior_means([20, 0], [1, 0]).round(4).tolist()
        [0.0888, 0.1624]
    """

    a: float
    b: float

    @classmethod
    def fit(
        cls,
        n: ArrayLike,
        clicks: ArrayLike,
        start: tuple[float, float] = (5.0, 5.0),
        max_iterations: int = 10_000,
        tolerance: float = 1e-10,
    ) -> BetaPrior:
        r"""Maximises the likelihood of the counts by a fixed point.

        .. math:: a \leftarrow a\,\frac{\sum \psi(c + a) - \psi(a)}{\sum \psi(n + a + b) - \psi(a + b)}, \qquad
            b \leftarrow b\,\frac{\sum \psi(n - c + b) - \psi(b)}{\sum \psi(n + a + b) - \psi(a + b)}

        Arguments:
            n: Impressions of each value.
            clicks: Clicks of each value.
            start: Where to start.
            max_iterations: Steps allowed.
            tolerance: Stops when neither number moves by more.
        """
        shown, clicked = np.asarray(n, dtype=np.float64), np.asarray(clicks, dtype=np.float64)
        if shown.shape != clicked.shape or np.any(clicked > shown) or np.any(clicked < 0):
            raise InvalidInput.of("clicks", clicks, "between 0 and n, one per value", "count both on the same rows")
        a, b = start
        for _ in range(max_iterations):
            below = np.sum(digamma(shown + a + b) - digamma(a + b)) + _SMALL
            next_a = a * (np.sum(digamma(clicked + a) - digamma(a)) + _SMALL) / below
            next_b = b * (np.sum(digamma(shown - clicked + b) - digamma(b)) + _SMALL) / below
            moved = max(abs(next_a - a), abs(next_b - b))
            a, b = float(next_a), float(next_b)
            if a + b > _MOST_MASS:
                a, b = a * _MOST_MASS / (a + b), b * _MOST_MASS / (a + b)
                break
            if moved < tolerance:
                break
        return cls(a, b)

    def posterior_means(self, n: ArrayLike, clicks: ArrayLike) -> Floats:
        """Returns the click rate of each value after its counts; the prior's mean for one that was never seen."""
        shown, clicked = np.asarray(n, dtype=np.float64), np.asarray(clicks, dtype=np.float64)
        means: Floats = (clicked + self.a) / (shown + self.a + self.b)
        return means
