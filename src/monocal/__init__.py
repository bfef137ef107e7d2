"""monocal turns the scores of a ranking or CTR model into probabilities one can bid, budget and fuse with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from monocal.core import __version__

if TYPE_CHECKING:
    from monocal.calibrators import calibrator as calibrator
    from monocal.calibrators import methods as methods
    from monocal.calibrators.binned import Histogram as Histogram
    from monocal.calibrators.binned import Isotonic as Isotonic
    from monocal.calibrators.binned import Sir as Sir
    from monocal.calibrators.gauss_gamma import Gamma as Gamma
    from monocal.calibrators.gauss_gamma import Gauss as Gauss
    from monocal.calibrators.per_segment import PerSegment as PerSegment
    from monocal.calibrators.platt import Beta as Beta
    from monocal.calibrators.platt import Platt as Platt
    from monocal.calibrators.platt import Temperature as Temperature
    from monocal.calibrators.platt import Uncalibrated as Uncalibrated
    from monocal.evaluation.compare import compare as compare
    from monocal.evaluation.evaluate import evaluate as evaluate
    from monocal.lab.simulator import simulate_log as simulate_log
    from monocal.models import load_model
    from monocal.models.apply import apply_model
    from monocal.models.fit import fit as fit
    from monocal.models.onnx import export_onnx as export_onnx
    from monocal.models.wrap import Calibrated as Calibrated
    from monocal.models.wrap import wrap as wrap
    from monocal.monitoring.gate import gate as gate
    from monocal.monitoring.refresh import refresh as refresh
    from monocal.monitoring.registry import Registry as Registry
    from monocal.monitoring.watch import watch as watch
    from monocal.neural.methods import Desc as Desc
    from monocal.neural.methods import Fac as Fac
    from monocal.neural.methods import Sbcr as Sbcr
    from monocal.neural.methods import Umc as Umc
    from monocal.reports import report as report
    from monocal.reports.calibrate import calibrate as calibrate
    from monocal.reports.figures import CalibrationDisplay as CalibrationDisplay
    from monocal.tables.roles import Roles as Roles
    from monocal.wide.calibrator import WideLogistic as WideLogistic

    apply, load = apply_model, load_model

_HOMES = {
    "Calibrated": ("monocal.models.wrap", "Calibrated"),
    "Roles": ("monocal.tables.roles", "Roles"),
    "CalibrationDisplay": ("monocal.reports.figures", "CalibrationDisplay"),
    "apply": ("monocal.models.apply", "apply_model"),
    "calibrate": ("monocal.reports.calibrate", "calibrate"),
    "calibrator": ("monocal.calibrators", "calibrator"),
    "methods": ("monocal.calibrators", "methods"),
    "compare": ("monocal.evaluation.compare", "compare"),
    "evaluate": ("monocal.evaluation.evaluate", "evaluate"),
    "export_onnx": ("monocal.models.onnx", "export_onnx"),
    "fit": ("monocal.models.fit", "fit"),
    "gate": ("monocal.monitoring.gate", "gate"),
    "load": ("monocal.models", "load_model"),
    "refresh": ("monocal.monitoring.refresh", "refresh"),
    "Registry": ("monocal.monitoring.registry", "Registry"),
    "simulate_log": ("monocal.lab.simulator", "simulate_log"),
    "watch": ("monocal.monitoring.watch", "watch"),
    "wrap": ("monocal.models.wrap", "wrap"),
    "report": ("monocal.reports", "report"),
}

_METHODS = [
    *("Uncalibrated", "Histogram", "Isotonic", "Sir", "Platt", "Temperature", "Beta", "Gauss", "Gamma"),
    *("WideLogistic", "PerSegment", "Umc", "Fac", "Sbcr", "Desc"),
]

__all__ = ["__version__", *_HOMES, *_METHODS]


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used, so that `import monocal` stays light."""
    from importlib import import_module

    if name in _METHODS:
        found = import_module("monocal.calibrators.registry").own_class(name)
    elif name in _HOMES:
        module, attribute = _HOMES[name]
        found = getattr(import_module(module), attribute)
    else:
        raise AttributeError(f"module 'monocal' has no attribute {name!r}; it has {', '.join(sorted(__all__))}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
