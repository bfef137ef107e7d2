"""monocal turns the scores of a ranking or CTR model into probabilities one can bid, budget and fuse with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from monocal.core import __version__

if TYPE_CHECKING:
    from monocal.calibrators import calibrator as calibrator
    from monocal.calibrators import methods as methods
    from monocal.evaluation.compare_methods import compare_methods as compare_methods
    from monocal.evaluation.evaluate import evaluate as evaluate
    from monocal.evaluation.table import fit_and_evaluate as fit_and_evaluate
    from monocal.lab.simulator import simulate_log as simulate_log
    from monocal.models import load_model
    from monocal.models.apply import apply_model
    from monocal.models.fit import fit as fit
    from monocal.models.wrap import Calibrated as Calibrated
    from monocal.models.wrap import wrap as wrap
    from monocal.monitoring.gate import gate as gate
    from monocal.reports import write_report as write_report

    apply, load = apply_model, load_model

_HOMES = {
    "Calibrated": ("monocal.models.wrap", "Calibrated"),
    "apply": ("monocal.models.apply", "apply_model"),
    "calibrator": ("monocal.calibrators", "calibrator"),
    "methods": ("monocal.calibrators", "methods"),
    "compare_methods": ("monocal.evaluation.compare_methods", "compare_methods"),
    "evaluate": ("monocal.evaluation.evaluate", "evaluate"),
    "fit": ("monocal.models.fit", "fit"),
    "fit_and_evaluate": ("monocal.evaluation.table", "fit_and_evaluate"),
    "gate": ("monocal.monitoring.gate", "gate"),
    "load": ("monocal.models", "load_model"),
    "simulate_log": ("monocal.lab.simulator", "simulate_log"),
    "wrap": ("monocal.models.wrap", "wrap"),
    "write_report": ("monocal.reports", "write_report"),
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used, so that `import monocal` stays light."""
    if name not in _HOMES:
        raise AttributeError(f"module 'monocal' has no attribute {name!r}; it has {', '.join(sorted(_HOMES))}")
    from importlib import import_module

    module, attribute = _HOMES[name]
    found = getattr(import_module(module), attribute)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
