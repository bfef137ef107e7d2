"""Errors by how often a row's value was seen in the fit: what a model is worth on new and rare values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.core.log_loss import log_losses
from monocal.core.spaces import Floats, logit

LEAST_SEEN = (0, 1, 10, 100, 1_000)
"""Where bands of counts begin: never, once to nine times, and so on."""

_QUANTILE = 1.96


@final
@dataclass(frozen=True)
class SeenBand:
    """Rows whose value of one field had about as many rows in the fit.

    Attributes:
        least: The value had at least so many rows in the fit.
        most: And at most so many; None has no limit.
        n_rows: Rows of the band, counted with their weights.
        n_positive: Positives among them.
        log_loss: Stage ("before", "after") to the mean log-loss.
        pcoc: Stage to predicted over observed positives; NaN without positives.
        noise: How far from 1 chance alone takes PCOC in 95 of 100 such bands if the last forecast is right.
    """

    least: int
    most: int | None
    n_rows: float
    n_positive: float
    log_loss: dict[str, float]
    pcoc: dict[str, float]
    noise: float

    @property
    def title(self) -> str:
        """The band in words."""
        if self.most is None:
            return f"{self.least:,} or more"
        return "never" if self.most == 0 else f"{self.least:,} to {self.most:,}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def by_times_seen(
    times_seen: NDArray[Any], labels: ArrayLike, stages: Mapping[str, Floats], weights: ArrayLike | None = None
) -> list[SeenBand]:
    """Returns the bands that have rows, from values never seen to frequent ones.

    Arguments:
        times_seen: How many rows of the fit had this row's value.
        labels: 0 or 1.
        stages: Forecasts by name, the last one the best.
        weights: How often each row counts.

    Example:
        >>> seen, labels = np.array([0, 0, 5, 5]), np.array([0, 1, 1, 1])
        >>> bands = by_times_seen(seen, labels, {"after": np.array([0.4, 0.4, 0.9, 0.9])})
        >>> [(band.title, band.n_rows, band.pcoc["after"]) for band in bands]
        [('never', 2.0, 0.8), ('1 to 9', 2.0, 0.9)]
    """
    y = np.asarray(labels, dtype=np.float64)
    w = np.ones(y.shape[0]) if weights is None else np.asarray(weights, dtype=np.float64)
    band = np.searchsorted(LEAST_SEEN, times_seen, side="right") - 1

    def sums(column: Floats) -> Floats:
        return np.bincount(band, column, len(LEAST_SEEN)).astype(np.float64)

    rows, positives = sums(w), sums(w * y)
    losses = {name: sums(w * log_losses(logit(p), y)) for name, p in stages.items()}
    predicted = {name: sums(w * p) for name, p in stages.items()}
    best = list(stages.values())[-1]
    spread = np.sqrt(sums(w**2 * best * (1.0 - best)))
    found = []
    for place, least in enumerate(LEAST_SEEN):
        if rows[place] > 0.0:
            observed = positives[place] if positives[place] > 0.0 else np.nan
            found.append(
                SeenBand(
                    least,
                    LEAST_SEEN[place + 1] - 1 if place + 1 < len(LEAST_SEEN) else None,
                    float(rows[place]),
                    float(positives[place]),
                    {name: float(loss[place] / rows[place]) for name, loss in losses.items()},
                    {name: float(expected[place] / observed) for name, expected in predicted.items()},
                    float(_QUANTILE * spread[place] / observed),
                )
            )
    return found
