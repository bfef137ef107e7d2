"""Rules of the house that no linter knows."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import monocal
from monocal.calibrators import CALIBRATORS, Calibrator

SOURCE = Path(monocal.__file__).parent


def test_no_file_is_called_utils_or_helper():
    assert not [path for path in SOURCE.rglob("*.py") if path.stem in ("utils", "helper", "helpers", "common", "misc")]


def test_every_calibrator_file_is_exported():
    for kind in ("statistical", "neural"):
        for path in (SOURCE / "calibrators" / kind).rglob("*.py"):
            module = importlib.import_module(".".join(["monocal", *path.relative_to(SOURCE).with_suffix("").parts]))
            for value in vars(module).values():
                defined_here = inspect.isclass(value) and value.__module__ == module.__name__
                if defined_here and issubclass(value, Calibrator) and not inspect.isabstract(value):
                    assert CALIBRATORS.get(value.name) is value, f"{value.__name__} is not exported"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_file_says_what_it_is_about(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), "no module docstring"


def test_every_calibrator_is_abstract_or_final():
    def walk(kind):
        for child in kind.__subclasses__():
            yield child
            yield from walk(child)

    for kind in walk(Calibrator):
        if kind.__module__.startswith("monocal.") and not inspect.isabstract(kind):
            assert getattr(kind, "__final__", False), f"{kind.__name__} is neither abstract nor final"


def test_public_names_have_docstrings():
    for name in monocal.__all__:
        if name != "__version__":
            assert inspect.getdoc(getattr(monocal, name)), name
