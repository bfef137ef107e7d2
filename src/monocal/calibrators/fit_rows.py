"""What rows a calibrator can be fitted on, and what it remembers of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.calibrators.contract import Tags
from monocal.core.errors import InvalidInput
from monocal.core.samples import Samples, check_labels
from monocal.core.samples import check_features as check_ids
from monocal.core.sampling import SamplingRate
from monocal.core.soft_labels import has_soft
from monocal.core.team import Shards


def has_both_classes(samples: Samples) -> bool:
    """Says whether rows of positive weight have both labels, among all members of a team."""
    labels = samples.known_labels if samples.weights is None else samples.known_labels[samples.weights > 0.0]
    seen = np.array([np.any(labels == 0.0), np.any(labels == 1.0)], dtype=np.float64)
    return bool(samples.in_shards.team.most(seen).all())


def check_both_classes(samples: Samples) -> None:
    """Refuses rows of one class."""
    if not has_both_classes(samples):
        raise InvalidInput.of(
            "labels",
            f"only {int(samples.known_labels[:1].sum())}s in {samples.n_rows} rows",
            "both 0 and 1 among rows with positive weight",
            'widen the time window until both occur, or keep the score as it is with method "none"',
        )


def check_features(method: str, tags: Tags, samples: Samples, n_fields: int | None = None) -> None:
    """Refuses rows without the fields that a method needs, or with another number of them than its fit saw."""
    if tags.features == "required" and samples.features is None:
        raise InvalidInput.of(
            "features", None, f"field ids, which {method!r} needs", "pass features=, or choose another method"
        )
    given = 0 if samples.features is None else samples.features.shape[1]
    if n_fields is not None and tags.uses_features and given != n_fields:
        raise InvalidInput.of(
            "features",
            f"{given} fields",
            f"the {n_fields} fields that fit saw, in the same order",
            "pass the same columns as at fit",
        )


def check_shards(method: str, fits_in_shards: bool, shards: Shards, looks_at_time: bool) -> None:
    """Refuses to fit in shards what needs all rows in one place."""
    if not fits_in_shards:
        wish = "one that is fitted in shards: wide_logistic, umc, sbcr, fac, desc, mcnet"
        raise InvalidInput.of("method", repr(method), wish, "fit it on one machine")
    if looks_at_time and shards.order is None:
        raise InvalidInput.of(
            "time",
            None,
            f"a column that tells older rows from newer ones, for {method!r} with carry, recent_share or guard",
            'name the column, or set carry="none", recent_share=0 and guard=False',
        )


def samples_of_fit(
    scores: ArrayLike,
    labels: ArrayLike,
    shards: Shards | None,
    *,
    times: ArrayLike | None,
    soft_labels: bool,
    **columns: Any,
) -> Samples:
    """Returns the checked rows of a fit; in shards they keep their order, and a member may have none."""
    if shards is None or shards.n == 1:
        samples = Samples.of(scores, labels, times=times, soft_labels=soft_labels, **columns)
    else:
        samples = _rows_in_shards(scores, labels, shards, times, soft_labels, columns)
    check_both_classes(samples)
    return samples


def _rows_in_shards(
    scores: ArrayLike,
    labels: ArrayLike,
    shards: Shards,
    times: ArrayLike | None,
    soft_labels: bool,
    columns: Mapping[str, Any],
) -> Samples:
    """Returns a member's rows with their shards, whose edges follow where soft labels are cut."""
    weights, moments = columns["weights"], _moments(times)
    if np.size(scores) and (weights is None or np.any(weights)):
        samples = Samples.of(scores, **columns)
        known = check_labels(labels, samples.n_rows, soft=soft_labels)
        samples = replace(samples, labels=known, times=moments, shards=shards)
    else:
        samples = _no_rows(shards, moments, columns)
    if soft_labels and shards.team.most(np.array([float(has_soft(samples.known_labels))]))[0]:
        # weights where another member has some: rows must have the same bits wherever they are
        samples = replace(samples, weights=samples.weights_or_ones).with_hard_labels()
    return samples


def _no_rows(shards: Shards, times: NDArray[np.int64] | None, columns: Mapping[str, Any]) -> Samples:
    """Returns the rows of a member that has none, or none that counts."""
    nothing, none, knots = np.zeros(0), slice(0, 0), columns["numeric_knots"]
    ids = None if columns["features"] is None else check_ids(np.asarray(columns["features"])[none], 0)
    return Samples(
        nothing,
        nothing,
        ids,
        None if columns["weights"] is None else nothing,
        None if times is None else times[none],
        None if knots is None or not any(knots) else tuple(knots),
        shards.kept(none),
    )


def _moments(times: ArrayLike | None) -> NDArray[np.int64] | None:
    """Returns times as whole numbers, which members of a team can compare; dates as microseconds."""
    if times is None:
        return None
    column = np.asarray(times)
    if column.dtype.kind == "M":
        return column.astype("datetime64[us]").astype(np.int64)
    if column.dtype.kind not in "iu":
        raise InvalidInput.of(
            "times", f"values of type {column.dtype}", "dates or whole numbers for a fit in shards", "round them"
        )
    return column.astype(np.int64)


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
