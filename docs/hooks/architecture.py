"""Draws the packages and who imports whom, from the sources: `python docs/hooks/architecture.py`."""

from __future__ import annotations

import ast
import html
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "monocal"
PICTURE = ROOT / "docs" / "images" / "packages.svg"

_WIDTH, _HEIGHT, _GAP, _ROW = 118, 34, 26, 74


def imports_of(path: Path) -> set[str]:
    """Returns the modules of this package that a file imports, with those that are imported inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {name for name in found if name.startswith("monocal.")}


def package_imports() -> dict[str, set[str]]:
    """Returns which packages each package imports."""
    packages = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file())
    uses: dict[str, set[str]] = {}
    for package in packages:
        modules = {module for path in (SOURCE / package).rglob("*.py") for module in imports_of(path)}
        uses[package] = {module.split(".")[1] for module in modules} & set(packages) - {package}
    return uses


def without_shortcuts(uses: dict[str, set[str]]) -> dict[str, set[str]]:
    """Leaves out an arrow if a longer way leads to the same package.

    Example:
        >>> without_shortcuts({"a": {"b", "c"}, "b": {"c"}, "c": set()})
        {'a': {'b'}, 'b': {'c'}, 'c': set()}
    """

    def below(package: str) -> set[str]:
        found: set[str] = set()
        new = set(uses[package])
        while new:
            found |= new
            new = {lower for used in new for lower in uses[used]} - found
        return found

    def is_shortcut(package: str, target: str, other: str) -> bool:
        # packages that import each other are one step
        return target in below(other) and other not in below(target) and package not in below(other)

    return {
        package: {target for target in used if not any(is_shortcut(package, target, other) for other in used)}
        for package, used in uses.items()
    }


def layers() -> list[list[str]]:
    """Returns the packages from top to bottom, as import-linter reads them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    rows = settings["contracts"][0]["layers"]
    return [[name.strip().removeprefix("monocal.") for name in re.split(r"[|:]", row)] for row in rows]


def draw() -> str:
    """Returns the picture: one box per package, in layers, and an arrow to every package that is imported directly."""
    arrows = without_shortcuts(package_imports())
    rows = layers()
    n_columns = max(len(row) for row in rows)
    total = n_columns * (_WIDTH + _GAP) + 260
    places = {}
    for level, row in enumerate(rows):
        left = (total - len(row) * _WIDTH - (len(row) - 1) * _GAP) / 2
        # single boxes step aside in turn, so that arrows past them are seen
        aside = 0 if len(row) > 1 else (-96, 0, 96, 0)[level % 4]
        for column, package in enumerate(row):
            places[package] = (left + aside + column * (_WIDTH + _GAP), 16 + level * _ROW)
    height = 16 + len(rows) * _ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height}" role="img" '
        'font-family="sans-serif" font-size="14">',
        "<title>Packages; an arrow points to a package that is imported</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#607d8b"/></marker></defs>',
    ]
    for package, used in arrows.items():
        for lower in sorted(used):
            parts.append(_arrow(places[package], places[lower]))
    for package, (x, y) in places.items():
        name = html.escape(package)
        parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="5" fill="#eceff1" stroke="#607d8b"/>'
            f'<text x="{x + _WIDTH / 2:g}" y="{y + 22:g}" text-anchor="middle" fill="#263238">{name}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _arrow(upper: tuple[float, float], lower: tuple[float, float]) -> str:
    x1, y1 = upper[0] + _WIDTH / 2, upper[1] + _HEIGHT
    x2, y2 = lower[0] + _WIDTH / 2, lower[1]
    halfway = (y2 - y1) / 2
    return (
        f'<path d="M{x1:g} {y1:g}C{x1:g} {y1 + halfway:g} {x2:g} {y2 - halfway:g} {x2:g} {y2 - 1:g}" '
        'fill="none" stroke="#90a4ae" marker-end="url(#tip)"/>'
    )


def on_pre_build(**_: object) -> None:
    """Stops the build of the site if the committed picture is not the one of these sources."""
    if PICTURE.read_text(encoding="utf-8") != draw():
        raise SystemExit("docs/images/packages.svg is out of date. Hint: python docs/hooks/architecture.py")


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
