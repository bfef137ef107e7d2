"""Small changes to source files that a test should notice."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is not": "is", "is": "is not"}
ARITHMETIC = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.Pow: ("**", "*")}
CALLS = {"max": "min", "min": "max", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}


@dataclass(frozen=True)
class Mutant:
    """One change: in `path`, the characters from `start` to `end` become `text`."""

    path: str
    line: int
    start: int
    end: int
    was: str
    text: str

    def apply(self, source: str) -> str:
        return source[: self.start] + self.text + source[self.end :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}  {self.was!r} -> {self.text!r}"


def mutants_of(path: Path, name: str) -> list[Mutant]:
    """Lists every mutant of a file; docstrings, annotations, messages and decorators are left alone."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = source.splitlines(keepends=True)

    def at(line: int, column: int) -> int:
        # ast counts columns in bytes
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    skipped = _skipped(tree)
    found: list[Mutant] = []

    def add(node: ast.AST, start: int, end: int, text: str) -> None:
        found.append(Mutant(name, node.lineno, start, end, source[start:end], text))

    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, right = node.left, node.comparators[0]
            start, end = at(left.end_lineno, left.end_col_offset), at(right.lineno, right.col_offset)
            sign = source[start:end].strip()
            if sign in COMPARISONS:
                add(node, start, end, f" {COMPARISONS[sign]} ")
        elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            start = at(node.left.end_lineno, node.left.end_col_offset)
            end = at(node.right.lineno, node.right.col_offset)
            sign, other = ARITHMETIC[type(node.op)]
            gap = source[start:end]
            if gap.count(sign) == 1:
                place = start + gap.index(sign)
                add(node, place, place + len(sign), other)
        elif isinstance(node, ast.BoolOp):
            sign, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            start = at(node.values[0].end_lineno, node.values[0].end_col_offset)
            end = at(node.values[1].lineno, node.values[1].col_offset)
            if source[start:end].count(sign) == 1:
                place = start + source[start:end].index(sign)
                add(node, place, place + len(sign), other)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
            start, end = at(node.lineno, node.col_offset), at(node.operand.lineno, node.operand.col_offset)
            add(node, start, end, "")
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
            start, end = at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)
            if isinstance(node.value, bool):
                add(node, start, end, str(not node.value))
            elif isinstance(node.value, int):
                add(node, start, end, str(node.value + 1))
            else:
                add(node, start, end, repr(node.value * 1.5 + (node.value == 0.0)))
        elif isinstance(node, ast.If | ast.IfExp):
            test = node.test
            start, end = at(test.lineno, test.col_offset), at(test.end_lineno, test.end_col_offset)
            add(node, start, end, "(False)")
        elif isinstance(node, ast.Call):
            callee = node.func
            called = callee.attr if isinstance(callee, ast.Attribute) else getattr(callee, "id", "")
            if called in CALLS:
                end = at(callee.end_lineno, callee.end_col_offset)
                add(node, end - len(called), end, CALLS[called])
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            start, end = at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)
            add(node, start, end, "pass")
    return [mutant for mutant in found if mutant.was != mutant.text and _compiles(mutant.apply(source))]


def _skipped(tree: ast.AST) -> set[int]:
    skipped: set[int] = set()

    def skip(node: ast.AST | None) -> None:
        if node is not None:
            skipped.update(id(child) for child in ast.walk(node))

    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            skip(getattr(node, "returns", None))
            for decorator in node.decorator_list:
                skip(decorator)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            skip(node.annotation)
        elif isinstance(node, ast.Raise | ast.Assert) or _is_beside_the_point(node):
            skip(node)
    return skipped


def _is_beside_the_point(node: ast.AST) -> bool:
    """Tells what no test should hold: words of warnings, options of style, imports for types."""
    if isinstance(node, ast.If):
        return getattr(node.test, "id", "") == "TYPE_CHECKING"
    if isinstance(node, ast.keyword):
        return node.arg in ("stacklevel", "strict")
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "warn"


def _compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True
