"""What rows a calibrator can be fitted on, and what it remembers of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.core.samples import Samples
from monocal.core.sampling import SamplingRate
from monocal.core.team import Shards


def has_both_classes(samples: Samples) -> bool:
    """Says whether rows of positive weight have both labels."""
    labels = samples.known_labels if samples.weights is None else samples.known_labels[samples.weights > 0.0]
    return bool(labels.size) and bool(labels.min() != labels.max())


def check_both_classes(samples: Samples, shards: Shards | None = None) -> None:
    """Refuses rows of one class, among all members of a team."""
    if shards is not None and shards.n > 1:
        y, w = samples.known_labels, samples.weights_or_ones
        seen = np.array([np.max(w * (y == label), initial=0.0) for label in (0.0, 1.0)])
        if (shards.team.most(seen) > 0.0).all():
            return
    if not has_both_classes(samples):
        raise InvalidInput.of(
            "labels",
            f"only {int(samples.known_labels[0])}s in {samples.n_rows} rows",
            "both 0 and 1 among rows with positive weight",
            'widen the time window until both occur, or keep the score as it is with method "none"',
        )


def check_shards(method: str, fits_in_shards: bool, given: Mapping[str, Any]) -> None:
    """Refuses to fit in shards what needs all rows in one place."""
    if not fits_in_shards:
        raise InvalidInput.of(
            "method", repr(method), 'one that is fitted in shards, "wide_logistic"', "fit it on one machine"
        )
    for name, value in given.items():
        if value is not None and value:
            raise InvalidInput.of(name, value, "nothing for a fit in shards", "leave it out, or use one machine")


def no_numbers(method: str) -> InvalidInput:
    """Returns the error of a method that has no use for fields of numbers."""
    return InvalidInput.of(
        "numeric",
        f"the method {method!r}",
        "one that can use numeric fields: umc, sbcr or wide_logistic",
        "choose one of them, or put the numbers into classes and name those under fields",
    )


def no_refresh_of_numbers(method: str) -> InvalidInput:
    """Returns the error of a refresh of smooth shifts, which have no filter from day to day."""
    return InvalidInput.of(
        "model",
        f"the method {method!r} with numeric fields",
        "a model of categories alone",
        "fit it anew on a window of recent rows",
    )


def no_refresh(method: str) -> InvalidInput:
    """Returns the error of a method that cannot go on from its last fit."""
    return InvalidInput.of(
        "model",
        f"the method {method!r}",
        "one that can go on from its last fit",
        "fit it anew on a window of recent rows, or use umc, wide_logistic, platt or isotonic",
    )


def remembered_rate(sampling_rate: SamplingRate) -> float | str | None:
    """Returns what predict needs to know about the rate of a fit."""
    if sampling_rate is None:
        return None
    return float(sampling_rate) if np.ndim(sampling_rate) == 0 else "per row"  # type: ignore[arg-type]
