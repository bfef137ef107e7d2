"""What rows a calibrator can be fitted on, and what it remembers of them."""

from __future__ import annotations

import numpy as np

from monocal.calibrators.contract import Tags
from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput
from monocal.core.sampling import SamplingRate


def check_both_classes(data: Dataset) -> None:
    """Refuses rows of one class."""
    if not data.has_both_classes:
        raise InvalidInput.of(
            "labels",
            f"only {int(data.labels[:1].sum())}s in {data.n_rows} rows",
            "both 0 and 1 among rows with positive weight",
            'widen the time window until both occur, or keep the score as it is with method "none"',
        )


def check_features(method: str, tags: Tags, data: Dataset, n_fields: int | None = None) -> None:
    """Refuses rows without the fields that a method needs, or with another number of them than its fit saw."""
    if tags.features == "required" and data.ids is None:
        raise InvalidInput.of(
            "features", None, f"field ids, which {method!r} needs", "pass features=, or choose another method"
        )
    given = 0 if data.ids is None else data.ids.shape[1]
    if n_fields is not None and tags.uses_features and given != n_fields:
        raise InvalidInput.of(
            "features",
            f"{given} fields",
            f"the {n_fields} fields that fit saw, in the same order",
            "pass the same columns as at fit",
        )


def check_partition(method: str, fits_in_parts: bool, looks_at_time: bool, data: Dataset) -> None:
    """Refuses to fit rows in parts by what needs all of them in one place."""
    if data.partition is None or data.partition.n == 1:
        return
    if not fits_in_parts:
        expected = "one that is fitted in shards: wide_logistic, umc, sbcr, fac, desc"
        raise InvalidInput.of("method", repr(method), expected, "fit it on one machine")
    if looks_at_time and data.partition.order is None:
        raise InvalidInput.of(
            "time",
            None,
            f"a column that orders rows by time, for {method!r} with carry, recent_share or guard",
            'name the column, or set carry="none", recent_share=0 and guard=False',
        )


def remembered_rate(sampling_rate: SamplingRate) -> float | str | None:
    """Returns what predict needs to know about the rate of a fit."""
    if sampling_rate is None:
        return None
    return float(sampling_rate) if np.ndim(sampling_rate) == 0 else "per row"  # type: ignore[arg-type]


def rate_to_use(given: SamplingRate, remembered: float | str | None) -> SamplingRate:
    """Returns the rate of a prediction: the given one, else the single one of the fit."""
    if given is not None:
        return given
    if isinstance(remembered, str):
        raise InvalidInput.of(
            "sampling_rate", None, "one rate per row, as at fit", "pass the rate of every row to predict, too"
        )
    return remembered
