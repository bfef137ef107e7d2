"""Rules of the house that no linter knows."""

import ast
import importlib
import inspect
import tomllib
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


def _loop_variables(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            yield from (name.id for name in ast.walk(node.target) if isinstance(name, ast.Name))
        elif isinstance(node, ast.Lambda):
            yield from (argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg))


def _identifiers(tree):
    for node in ast.walk(tree):
        found = (getattr(node, part, None) for part in ("id", "name", "arg", "attr", "asname"))
        yield from (name for name in found if isinstance(name, str))


def test_the_rule_of_names_notices_what_it_forbids():
    tree = ast.parse("[f(one) for one in rows]\nfor at, one in rows: pass\nkey = lambda one: one\nlevel_bend = 1")
    assert list(_loop_variables(tree)).count("one") == 3
    assert "level_bend" in list(_identifiers(tree))


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_names_tell_what_they_hold(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert "one" not in list(_loop_variables(tree)), "name a loop's variable after what the loop goes through"
    assert not [name for name in _identifiers(tree) if "bend" in name.lower()], "w p (1 − p) is a curvature"


def _imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_one_file_knows_torch_distributed():
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if any(name.startswith("torch.distributed") for name in _imports(path))
    }
    assert found == {"core/process_group.py"}


def test_every_room_but_spark_is_kept_from_pyspark():
    settings = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {contract["name"]: contract for contract in settings["tool"]["importlinter"]["contracts"]}
    ignored = {line for contract in contracts.values() for line in contract.get("ignore_imports", ())}
    assert ignored == {"monocal.core.process_group -> torch"}
    named = contracts["Only the package spark and one file of the command line know pyspark"]["source_modules"]
    inside = [path.stem for folder in (SOURCE, SOURCE / "cli") for path in folder.iterdir() if path.name[0] != "_"]
    exempt = {"spark", "cli", "engines", "py"}
    assert {name.split(".")[-1] for name in named} == set(inside) - exempt


def test_compiled_loops_that_are_named_by_text_are_there():
    found = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "loop_for":
                function, module = node.args[1].id, node.args[2].value
                found.append(module)
                assert callable(getattr(importlib.import_module(module), function))
    assert sorted(found) == [
        "monocal.compiled.wide",
        "monocal.compiled.wide",
        "monocal.lab.reconstructions.mlplatt_loop",
    ]
