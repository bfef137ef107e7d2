"""Docstrings and signatures tell the same story."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import monocal

SOURCE = Path(monocal.__file__).parent
API = Path(__file__).parents[1] / "goldens" / "public_api.txt"
_SECTION = re.compile(r"^( *)(Arguments|Attributes):[ ]*\n((?:\1 +\S.*\n|\s*\n)*)", flags=re.MULTILINE)
_ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*):(?: |$)")


def documented(docstring):
    """Returns the names under `Arguments:` and `Attributes:`."""
    names = set()
    for _, _, body in _SECTION.findall(inspect.cleandoc(docstring or "") + "\n"):
        lines = [line for line in body.splitlines() if line.strip()]
        indent = min((len(line) - len(line.lstrip()) for line in lines), default=0)
        for line in lines:
            entry = _ENTRY.match(line[indent:])
            if entry and not line[indent : indent + 1].isspace():
                names.update(name.strip(" *") for name in entry[1].split(","))
    return names


def described_nodes():
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and "Arguments:" in (
                ast.get_docstring(node) or ""
            ):
                yield f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}", node


def test_every_documented_argument_exists():
    unknown = {}
    for where, node in described_nodes():
        spec = node.args
        every = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.vararg, spec.kwarg]
        # a verb may describe an option that it only hands on, which its decorator names
        taken = {word.value for call in node.decorator_list for word in getattr(call, "args", ()) if _is_text(word)}
        known = taken | {argument.arg for argument in every if argument}
        unknown[where] = documented(ast.get_docstring(node)) - known
    assert len(unknown) > 100
    assert {where: names for where, names in unknown.items() if names} == {}


def _is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def public_callables():
    """Returns what the list of the public interface names, with the public methods of its classes."""
    module = None
    for line in API.read_text(encoding="utf-8").splitlines():
        if line.startswith("monocal"):
            module = importlib.import_module(line)
        entry = re.match(r"  (?:class )?(\w+)\(", line)
        value = getattr(module, entry[1]) if entry else None
        if inspect.isfunction(value) or (inspect.isclass(value) and value.__module__.startswith("monocal")):
            yield f"{module.__name__}.{entry[1]}", value
            if inspect.isclass(value):
                for member, method in vars(value).items():
                    if inspect.isfunction(method) and not member.startswith("_"):
                        yield f"{module.__name__}.{entry[1]}.{member}", method


PUBLIC = dict(public_callables())


def words_about(value):
    if not inspect.isclass(value):
        return documented(inspect.getdoc(value))  # a method without a docstring of its own is as its base has it
    return set().union(
        *(documented(kind.__doc__) | documented(kind.__init__.__doc__) for kind in value.__mro__ if kind is not object)
    )


def undocumented(value):
    """Returns the arguments of `value` that its docstring says nothing about."""
    if inspect.isclass(value) and (issubclass(value, Exception) or getattr(value, "_is_protocol", False)):
        return set()
    if "Arguments as in" in (value.__doc__ or ""):
        return set()
    parameters = inspect.signature(value).parameters
    arguments = [name for name in parameters if name not in ("self", "args", "kwargs") and not name.startswith("_")]
    described = words_about(value)
    if not described and all(name in (value.__doc__ or "") for name in arguments[1:]):
        return set()  # one argument, or a sentence that names the others, needs no list
    return set(arguments) - described


def test_every_public_argument_is_documented():
    assert len(PUBLIC) > 100
    missing = {where: undocumented(value) for where, value in PUBLIC.items()}
    assert {where: names for where, names in missing.items() if names} == {}


def test_every_documented_argument_of_a_class_exists():
    unknown = {}
    for where, value in PUBLIC.items():
        if inspect.isclass(value) and not issubclass(value, Exception):
            source = inspect.getsource(value)
            known = set(inspect.signature(value).parameters) | set(re.findall(r"self\.(\w+)\b.*=", source))
            known |= set(getattr(value, "__annotations__", ())) | set(dir(value))
            learned = {name for name in documented(value.__doc__) if name.endswith("_")}
            unknown[where] = documented(value.__doc__) - learned - known
    assert len(unknown) > 20
    assert {where: names for where, names in unknown.items() if names} == {}
