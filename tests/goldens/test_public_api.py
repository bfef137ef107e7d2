"""What users may import, with every signature, as one readable file; a change of it is seen in review.

After a change that is meant: `python tests/goldens/test_public_api.py` writes the file again.
"""

import importlib
import inspect
import re
from pathlib import Path

SNAPSHOT = Path(__file__).parent / "public_api.txt"

MODULES = {
    "monocal": None,
    "monocal.calibrators": None,
    "monocal.calibrators.platt": ["Uncalibrated", "Platt", "Temperature", "Beta"],
    "monocal.calibrators.gauss_gamma": ["Gauss", "Gamma"],
    "monocal.calibrators.binned": ["Histogram", "Isotonic", "Sir"],
    "monocal.calibrators.per_segment": ["PerSegment"],
    "monocal.wide.calibrator": ["WideLogistic"],
    "monocal.neural": None,
    "monocal.metrics": None,
    "monocal.models": None,
    "monocal.models.apply": ["apply_model"],
    "monocal.models.onnx": ["ExportResult", "export_onnx"],
    "monocal.evaluation.evaluate": ["evaluate"],
    "monocal.evaluation.result": ["Evaluation", "EvaluationOptions"],
    "monocal.evaluation.paired": ["Comparison", "compare_evaluations"],
    "monocal.evaluation.fields": ["FieldTable", "field_table"],
    "monocal.evaluation.table": ["TableEvaluation", "evaluate_table"],
    "monocal.evaluation.compare": ["MethodComparison", "compare"],
    "monocal.evaluation.verdict": ["Check", "Limits", "Verdict"],
    "monocal.reports.calibrate": ["Calibration", "calibrate"],
    "monocal.monitoring.gate": ["GateVerdict", "gate"],
    "monocal.monitoring.refresh": ["Refresh", "refresh"],
    "monocal.monitoring.registry": [
        "Registry",
        "Step",
        "inspect_registry",
        "is_registry",
        "promote",
        "read_registry",
        "rollback",
    ],
    "monocal.monitoring.watch": ["Alarm", "Watch", "watch"],
    "monocal.reports": None,
    "monocal.reports.plots": [
        "curves_plot",
        "drift_plot",
        "effect_plot",
        "rates_plot",
        "ratio_plot",
        "reliability_plot",
    ],
    "monocal.reports.svg": ["Drawing"],
    "monocal.neural.losses": [
        "CrossEntropy",
        "FieldCalibrationLoss",
        "Loss",
        "SmoothCalibrationLoss",
        "SquaredError",
        "WeightedSum",
    ],
    "monocal.serving": None,
    "monocal.tables.roles": ["Roles"],
    "monocal.core.monotonicity": ["assert_monotone", "probe_logits", "MonotoneCheck", "NotMonotone"],
    "monocal.core.errors": ["MonocalError", "InvalidInput", "UnknownName", "ArtefactError", "MonocalWarning"],
    "monocal.tables.source": ["open_table"],
    "monocal.lab.prepare.encoder": ["encode_log"],
    "monocal.lab.prepare.encoded_log": ["EncodedLog"],
    "monocal.lab.rankers.scored_log": ["ScoredLog"],
    "monocal.testing": None,
    "monocal.lab.simulator": None,
    "monocal.lab.rankers": None,
    "monocal.lab.sources": None,
}
"""The modules that guides and the reference import from, and which of their names; None means the export list."""


def public_api():
    """Returns one paragraph per module: names, signatures, and the public methods and properties of classes.

    What stands in two modules is written out in the first; methods that a class inherits from one that is listed,
    too, stand there.
    """
    modules = {name: importlib.import_module(name) for name in MODULES}
    homes = {}
    for module_name, module in modules.items():
        for name in _names(module):
            value = getattr(module, name)
            if callable(value):
                homes.setdefault(id(value), module_name)
    parts = []
    for module_name, module in modules.items():
        lines = [module_name]
        for name in sorted(_names(module)):
            value = getattr(module, name)
            home = homes.get(id(value), module_name)
            lines += _described(name, value, homes) if home == module_name else [f"  {name}: as in {home}"]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _names(module):
    return MODULES[module.__name__] or module.__all__


def _described(name, value, homes):
    if inspect.isclass(value):
        yield f"  class {name}{_signature(value)}"
        for member, found in sorted(_members(value, homes), key=lambda pair: pair[0]):
            kind = "property " if isinstance(found, property) else ""
            yield f"    {kind}{member}{'' if kind else _signature(getattr(value, member))}"
    elif callable(value):
        yield f"  {name}{_signature(value)}"
    else:
        yield f"  {name}: {type(value).__name__}"


def _members(kind, homes):
    for base in kind.__mro__:
        if base.__module__.startswith("monocal") and (base is kind or id(base) not in homes):
            for name, found in vars(base).items():
                is_method = isinstance(found, property | classmethod | staticmethod) or inspect.isfunction(found)
                if is_method and not name.startswith("_"):
                    yield name, found


def _signature(value):
    try:
        return re.sub(r"(: |-> )(['\"])(.*?)\2(?=[,)]| =|$)", r"\1\3", str(inspect.signature(value)))
    except (TypeError, ValueError):
        return "(…)"


def test_public_names_and_signatures_are_the_agreed_ones():
    agreed = SNAPSHOT.read_text(encoding="utf-8").splitlines()
    found = public_api().splitlines()
    missing, new = [name for name in agreed if name not in found], [name for name in found if name not in agreed]
    assert found == agreed, (
        "the public interface changed; gone or altered:\n  "
        + "\n  ".join(missing)
        + "\nnew or altered:\n  "
        + "\n  ".join(new)
        + "\nIf that is meant: deprecate what is gone (see CONTRIBUTING.md), then run this file by python"
    )


if __name__ == "__main__":
    SNAPSHOT.write_text(public_api(), encoding="utf-8")
