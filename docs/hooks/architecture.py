"""Draws the rooms of the house and who imports whom, from the sources: `python docs/hooks/architecture.py`."""

from __future__ import annotations

import ast
import html
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "monocal"
PICTURE = ROOT / "docs" / "images" / "rooms.svg"

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


def room_imports() -> dict[str, set[str]]:
    """Returns which rooms each room imports."""
    rooms = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file())
    uses: dict[str, set[str]] = {}
    for room in rooms:
        modules = {module for path in (SOURCE / room).rglob("*.py") for module in imports_of(path)}
        uses[room] = {module.split(".")[1] for module in modules} & set(rooms) - {room}
    return uses


def without_shortcuts(uses: dict[str, set[str]]) -> dict[str, set[str]]:
    """Leaves out an arrow if a longer way leads to the same room.

    Example:
        >>> without_shortcuts({"a": {"b", "c"}, "b": {"c"}, "c": set()})
        {'a': {'b'}, 'b': {'c'}, 'c': set()}
    """

    def below(room: str) -> set[str]:
        return {lower for used_room in uses[room] for lower in {used_room} | below(used_room)}

    return {
        room: {target for target in used if not any(target in below(other) for other in used)}
        for room, used in uses.items()
    }


def layers() -> list[list[str]]:
    """Returns the rooms from top to bottom, as the import linter is told."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    return [[name.strip().removeprefix("monocal.") for name in row.split("|")] for row in contracts[0]["layers"]]


def draw() -> str:
    """Returns the picture: one box per room, in layers, and an arrow to every room that is imported directly."""
    arrows = without_shortcuts(room_imports())
    rows = layers()
    n_columns = max(len(row) for row in rows)
    total = n_columns * (_WIDTH + _GAP) + 260
    places = {}
    for level, row in enumerate(rows):
        left = (total - len(row) * _WIDTH - (len(row) - 1) * _GAP) / 2
        # single rooms step aside in turn, so that arrows past them are seen
        aside = 0 if len(row) > 1 else (-96, 0, 96, 0)[level % 4]
        for column, room in enumerate(row):
            places[room] = (left + aside + column * (_WIDTH + _GAP), 16 + level * _ROW)
    height = 16 + len(rows) * _ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height}" role="img" '
        'font-family="sans-serif" font-size="14">',
        "<title>Rooms of the package; an arrow points to a room that is imported</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#607d8b"/></marker></defs>',
    ]
    for room, used in arrows.items():
        for lower in sorted(used):
            parts.append(_arrow(places[room], places[lower]))
    for room, (x, y) in places.items():
        name = html.escape(room)
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
        raise SystemExit("docs/images/rooms.svg is out of date. Hint: python docs/hooks/architecture.py")


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
