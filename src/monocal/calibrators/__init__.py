"""Every calibrator by name, and how to make one."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from monocal.calibrators.base import Calibrator, LogitCalibrator
from monocal.calibrators.contract import Tags
from monocal.calibrators.params import check_arguments, parameter_names
from monocal.calibrators.registry import CALIBRATORS
from monocal.core.errors import UnknownName

if TYPE_CHECKING:
    from monocal.calibrators.classifier import NotFitted, as_classifier

__all__ = [
    "CALIBRATORS",
    "Calibrator",
    "LogitCalibrator",
    "MethodInfo",
    "NotFitted",
    "Tags",
    "as_classifier",
    "calibrator",
    "methods",
]


def __getattr__(name: str) -> Any:
    """Loads what needs scikit-learn when it is first used."""
    homes = {"as_classifier": "classifier", "NotFitted": "classifier"}
    if name not in homes:
        raise AttributeError(f"module 'monocal.calibrators' has no attribute {name!r}")
    return getattr(import_module(f"monocal.calibrators.{homes[name]}"), name)


@dataclass(frozen=True)
class MethodInfo:
    """One method.

    Attributes:
        name: What `calibrator` calls it.
        summary: One line about it.
        tags: Its promises.
    """

    name: str
    summary: str
    tags: Tags


def calibrator(method: str, /, **arguments: Any) -> Calibrator:
    """Returns an unfitted calibrator by name.

    Arguments:
        method: One of `methods()`.
        arguments: What the method's class takes; an unknown one is refused with the nearest known, an impossible value
            with the possible ones.

    Example:
        >>> calibrator("histogram", n_bins=20)
        HistogramCalibrator(n_bins=20)
        >>> calibrator("isotonik")
        Traceback (most recent call last):
        ...
        monocal.core.errors.UnknownName: method: got 'isotonik'; ... Hint: did you mean 'isotonic'?
    """
    kind = CALIBRATORS.named(method)
    known = parameter_names(kind)
    for name in arguments:
        if name not in known:
            raise UnknownName.among(f"argument of {method!r}", name, known)
    check_arguments(kind, arguments)
    made = kind(**arguments)
    _ = made.tags  # a method around another one makes that, too, which refuses what it cannot be
    return made


def methods() -> list[MethodInfo]:
    """Lists every method with one line and its promises.

    Example:
        >>> [method.name for method in methods()][:3]
        ['none', 'histogram', 'isotonic']
    """
    return [
        MethodInfo(name, (kind.__doc__ or "").strip().splitlines()[0], kind().tags)
        for name, kind in CALIBRATORS.items()
    ]
