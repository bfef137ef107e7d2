"""The architecture page: its picture is drawn from these sources, and its walks can be walked."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "monocal"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def hook():
    spec = importlib.util.spec_from_file_location("architecture_hook", ROOT / "docs" / "hooks" / "architecture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def walks():
    text = PAGE.split("## Four walks")[1]
    parts = re.split(r"^### (.+)$", text, flags=re.MULTILINE)[1:]
    return {
        name: re.findall(r"^\d+\. `([\w/]+\.py)`", body, flags=re.MULTILINE)
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


WALKS = walks()


def module_of(path):
    return "monocal." + path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def reached_from(path, imports_of):
    """The modules that a file imports, and those that the packages among them hand on."""
    reached, new = set(), imports_of(SOURCE / path)
    while new:
        reached |= new
        packages = [SOURCE / Path(*module.split(".")[1:]) / "__init__.py" for module in new]
        new = {module for package in packages if package.is_file() for module in imports_of(package)} - reached
    return reached


def test_picture_is_the_one_of_these_sources():
    drawing = hook()
    assert drawing.PICTURE.read_text(encoding="utf-8") == drawing.draw(), "run python docs/hooks/architecture.py"


def test_every_room_is_in_the_table():
    rooms = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()}
    table = PAGE.split("## Rooms")[1].split("## Arrows")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)} == rooms


def test_there_are_four_walks():
    assert list(WALKS) == ["fit", "apply", "/v1/calibrate", "report"]
    assert all(len(walk) >= 8 for walk in WALKS.values())


@pytest.mark.parametrize("walk", WALKS)
def test_every_file_of_a_walk_is_imported_by_one_before_it(walk):
    imports_of = hook().imports_of
    known = set()
    for number, path in enumerate(WALKS[walk]):
        assert (SOURCE / path).is_file(), path
        assert number == 0 or module_of(path) in known, f"nothing before it imports {path}"
        known |= reached_from(path, imports_of)


@pytest.mark.parametrize("walk", WALKS)
def test_no_walk_enters_a_room_twice(walk):
    rooms = [path.split("/")[0] for path in WALKS[walk] if not path.startswith("core/")]
    entered = [room for number, room in enumerate(rooms) if number == 0 or rooms[number - 1] != room]
    assert len(entered) == len(set(entered)), entered
