"""Import paths of version 0.1 that moved: they still work, with a warning that names the new home."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED: dict[str, tuple[str, ...]] = {
    "monocal.data": (
        "monocal.tables.stream",
        "monocal.logs.encoder",
        "monocal.logs.encoded_log",
        "monocal.logs.splits",
        "monocal.vocabulary.vocabulary",
        "monocal.core.batches",
        "monocal.lab.sources",
    ),
    "monocal.data.tables": ("monocal.tables.stream",),
    "monocal.data.schema": (),
    "monocal.data.encoder": ("monocal.logs.encoder",),
    "monocal.data.encoded_log": ("monocal.logs.encoded_log",),
    "monocal.data.splits": ("monocal.logs.splits",),
    "monocal.data.batches": ("monocal.core.batches",),
    "monocal.data.vocabulary": ("monocal.vocabulary.vocabulary",),
    "monocal.data.sources": ("monocal.lab.sources",),
    "monocal.data.simulator": ("monocal.lab.simulator",),
    "monocal.data.simulator.log": ("monocal.lab.simulator.log",),
    "monocal.data.simulator.stream": ("monocal.lab.simulator.stream",),
    "monocal.data.simulator.worlds": ("monocal.lab.simulator.worlds",),
    "monocal.evaluation": ("monocal.judging", "monocal.findings.build", "monocal.report"),
    "monocal.evaluation.evaluate": ("monocal.judging.evaluate",),
    "monocal.evaluation.report": ("monocal.judging.report",),
    "monocal.evaluation.compare": ("monocal.judging.compare",),
    "monocal.evaluation.compare_methods": ("monocal.judging.compare_methods",),
    "monocal.evaluation.field_table": ("monocal.judging.field_table",),
    "monocal.evaluation.figures": ("monocal.report.figures",),
    "monocal.evaluation.figures.curves": ("monocal.report.figures",),
    "monocal.evaluation.figures.drift": ("monocal.report.figures",),
    "monocal.evaluation.figures.heat_map": ("monocal.report.figures",),
    "monocal.evaluation.figures.pcoc_by_value": ("monocal.report.figures",),
    "monocal.evaluation.figures.reliability": ("monocal.report.figures",),
    "monocal.evaluation.html_report": ("monocal.findings.build", "monocal.report"),
    "monocal.evaluation.html_report.build": ("monocal.findings.build",),
    "monocal.evaluation.html_report.report_data": ("monocal.findings.report_data",),
    "monocal.evaluation.html_report.write": ("monocal.report",),
    "monocal.evaluation.html_report.sections": (),
    "monocal.evaluation.html_report.sections.cells": ("monocal.judging.cells",),
    "monocal.evaluation.html_report.sections.spread": ("monocal.judging.spread",),
    "monocal.nn": (
        "monocal.calibrators.neural.torch_maps",
        "monocal.lab.reconstructions.adacalib_map",
        "monocal.lab.reconstructions.mcnet_map",
    ),
    "monocal.rankers": ("monocal.lab.rankers", "monocal.logs.scored_log"),
}
"""For each old module, the modules where its public names are now, in the order in which they are searched."""

RENAMED: dict[str, tuple[str, str]] = {
    "monocal.data.LogSchema": ("monocal.core.roles", "Roles"),
    "monocal.data.schema.LogSchema": ("monocal.core.roles", "Roles"),
}
"""Names that changed on the way: the new module and the new name, which takes the same arguments."""


class MovedModules(MetaPathFinder, Loader):
    """Stands in for modules of `MOVED` with ones that hold nothing and pass every name on to its new home.

    Example:
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     from monocal.data.simulator import simulate_log
        >>> str(caught[-1].message)
        'monocal.data.simulator.simulate_log is now monocal.lab.simulator.simulate_log; the old path goes in 1.0'
        >>> simulate_log.__module__
        'monocal.lab.simulator.log'
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Knows the old modules and no other."""
        del path, target
        return ModuleSpec(fullname, self, is_package=True) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        """Gives the stand-in its way of finding names."""
        old = module.__name__
        module.__doc__ = f"Moved to {_places(old)}."

        def look_up(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(f"module {old!r} has no attribute {name!r}")
            candidates = [RENAMED[f"{old}.{name}"]] if f"{old}.{name}" in RENAMED else [(m, name) for m in MOVED[old]]
            for home, new in candidates:
                found = getattr(import_module(home), new, None)
                if found is not None:
                    warnings.warn(
                        f"{old}.{name} is now {home}.{new}; the old path goes in 1.0", DeprecationWarning, stacklevel=2
                    )
                    return found
            raise AttributeError(f"module {old!r} moved to {_places(old)}, without {name!r}")

        module.__dict__["__getattr__"] = look_up


def install() -> None:
    """Lets the old paths be found, after every path that exists."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())


def _places(old: str) -> str:
    return ", ".join(MOVED[old]) or "other modules"
