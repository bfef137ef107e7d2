"""Every calibrator by name, and how to make one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from monocal.calibrators.base import Calibrator, LogitCalibrator
from monocal.calibrators.contract import Tags
from monocal.calibrators.registry import CALIBRATORS, MethodInfo, calibrator, methods

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
