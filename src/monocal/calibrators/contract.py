"""What a calibrator promises, the rows it takes, and the errors of what it cannot do; tests hold it to every word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput
from monocal.core.fields import Ids
from monocal.core.scores import Floats


@dataclass(frozen=True)
class Tags:
    """Promises of one calibrator.

    Attributes:
        monotone: Whether a higher score never gets a lower probability *for a fixed feature row*: `strict` (a
            higher one wherever float64 can tell them apart), `weak` (ties allowed) or `none`.
            With features two impressions may still swap, so AUC can move.
        features: Whether field ids are `unused`, `optional` or `required`.
        keeps_mean: The mean prediction on the fitting rows equals their observed rate: PCOC there is 1.
        deterministic: The same rows and seed give the same numbers.
        weights_exactly: Integer weights give the same fit as repeated rows. Where false (training by mini-batches),
            weights enter every loss and statistic that way, but the batches differ.
        reconstruction: No released code exists; this follows public summaries.
    """

    monotone: Literal["strict", "weak", "none"]
    features: Literal["unused", "optional", "required"] = "unused"
    keeps_mean: bool = False
    deterministic: bool = True
    weights_exactly: bool = True
    reconstruction: bool = False

    @property
    def uses_features(self) -> bool:
        return self.features != "unused"

    def as_dict(self) -> dict[str, str | bool]:
        return asdict(self)


RowScorer = Callable[[Floats, Ids], Floats]
"""A fitted calibrator as one function, for thousands of small calls a second: probabilities of logits and field ids.

Rows were checked already: finite float64 logits after the sampling correction, ids ≥ 0 `(n, F)`, int32 and
C-contiguous, in the field order of `fit` (ids that were not there count as unseen; F = 0 for a model without fields). A
row's answer depends on that row alone: neither on the rows beside it nor on how many there are. Hence offline and
online numbers agree to the last bit."""


_REFUSALS = {
    "numbers": (
        "numeric",
        "one that can use numeric fields: umc, sbcr, fac, desc, mcnet or wide_logistic",
        "choose one of them, or put the numbers into classes and name those under fields=",
    ),
    "refresh": (
        "model",
        "one that can go on from its last fit",
        "fit it anew on a window of recent rows, or use umc, wide_logistic, platt or isotonic",
    ),
    "interval": ("interval", "one with intervals of rows", "use wide_logistic, umc or another network"),
    "onnx": (
        "model",
        "one that can be exported to ONNX",
        "serve it with monocal serve, or give its class the method _map",
    ),
}
"""What is asked for to the argument that asks, what was expected and a hint."""


def refusal(asked: Literal["numbers", "refresh", "interval", "onnx"], method: str) -> InvalidInput:
    """Returns the error of a method that has no use for fields of numbers, or cannot do one of the others.

    Example:
        >>> str(refusal("interval", "platt")).split("; ")[0]
        "interval: got the method 'platt'"
    """
    argument, wanted, hint = _REFUSALS[asked]
    return InvalidInput.of(argument, f"the method {method!r}", wanted, hint)


# Rows of a fit


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


# What a fit learned


@dataclass
class CalibratorState:
    """What a fitted calibrator knows: `arrays` go to safetensors, `values` to the JSON manifest.

    Attributes:
        arrays: Numeric arrays by name; nested ones are joined with a slash.
        values: Numbers, strings, booleans, lists and nested calibrators' descriptions.
    """

    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)


def pack(learned: dict[str, Any]) -> CalibratorState:
    """Sorts learned attributes into arrays and values.

    Example:
        >>> state = pack({"slope_": 2.0, "knots_": np.array([0.0, 1.0])})
        >>> state.values, list(state.arrays)
        ({'slope_': 2.0}, ['knots_'])
    """
    state = CalibratorState()
    for name, value in learned.items():
        if isinstance(value, np.ndarray):
            state.arrays[name] = value
        elif isinstance(value, dict) and value and all(isinstance(array, np.ndarray) for array in value.values()):
            state.arrays.update({f"{name}/{key}": array for key, array in value.items()})
        else:
            state.values[name] = value.item() if isinstance(value, np.generic) else value
    return state


def unpack(state: CalibratorState) -> dict[str, Any]:
    """Undoes `pack`."""
    learned: dict[str, Any] = dict(state.values)
    for name, array in state.arrays.items():
        owner, _, key = name.partition("/")
        if key:
            learned.setdefault(owner, {})[key] = array
        else:
            learned[name] = array
    return learned


def with_prefix(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def without_prefix(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    start = prefix + "/"
    return {name[len(start) :]: array for name, array in arrays.items() if name.startswith(start)}
