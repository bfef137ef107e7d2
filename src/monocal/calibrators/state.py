"""Learned state as plain arrays and JSON values, so that every calibrator is saved the same way, without pickle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
