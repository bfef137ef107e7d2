"""Rules of the house that no linter knows."""

import ast
import importlib
import inspect
import tomllib
from pathlib import Path

import monocal
from monocal.calibrators import CALIBRATORS, Calibrator

SOURCE = Path(monocal.__file__).parent
FILES = {path.relative_to(SOURCE): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


def test_no_file_is_called_utils_or_helper():
    assert not [path for path in FILES if path.stem in ("utils", "helper", "helpers", "common", "misc")]


def test_every_file_says_what_it_is_about():
    assert [str(path) for path, tree in FILES.items() if not ast.get_docstring(tree)] == []


def test_every_calibrator_is_abstract_or_final_and_in_the_list_of_methods():
    def walk(kind):
        for child in kind.__subclasses__():
            yield child
            yield from walk(child)

    listed = set(CALIBRATORS.values())  # reading the list imports every method
    written = {kind for kind in walk(Calibrator) if kind.__module__.startswith("monocal.")}
    written = {kind for kind in written if not inspect.isabstract(kind)}
    assert written == listed
    assert [kind.__name__ for kind in written if not getattr(kind, "__final__", False)] == []


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


def test_names_tell_what_they_hold():
    unnamed = [str(path) for path, tree in FILES.items() if "one" in _loop_variables(tree)]
    assert unnamed == [], "name a loop's variable after what the loop goes through"
    bends = [str(path) for path, tree in FILES.items() if any("bend" in name.lower() for name in _identifiers(tree))]
    assert bends == [], "w p (1 − p) is a curvature"


def _who_imports(package):
    for path, tree in FILES.items():
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            if any(f"{name}.".startswith(f"{package}.") for name in names):
                yield path


def test_one_file_knows_torch_distributed():
    assert set(_who_imports("torch.distributed")) == {Path("core/process_group.py")}


def test_layers_have_few_exceptions():
    settings = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    ignored = {line for contract in contracts for line in contract.get("ignore_imports", ())}
    drawings = {f"monocal.{part} -> monocal.reports.figures" for part in ("models.model", "evaluation.*")}
    assert ignored == {"monocal.core.process_group -> torch", *drawings}


def test_the_room_spark_and_one_file_of_the_command_line_know_pyspark():
    found = set(_who_imports("pyspark"))
    assert {path for path in found if path.parts[0] != "spark"} == {Path("cli/engines.py")}


def test_compiled_loops_that_are_named_by_text_are_there():
    found = []
    for tree in FILES.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "loop_for":
                function, module = node.args[1].id, node.args[2].value
                found.append(module)
                assert callable(getattr(importlib.import_module(module), function))
    assert found
