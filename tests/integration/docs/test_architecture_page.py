"""The architecture page: its picture is drawn from these sources, and its tables name what is there."""

import importlib.util
import re
from pathlib import Path

import monocal

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "monocal"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def hook():
    spec = importlib.util.spec_from_file_location("architecture_hook", ROOT / "docs" / "hooks" / "architecture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def first_cells(section):
    table = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)]


def test_picture_is_the_one_of_these_sources():
    drawing = hook()
    assert drawing.PICTURE.read_text(encoding="utf-8") == drawing.draw(), "run python docs/hooks/architecture.py"


def test_every_package_is_in_the_table():
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()}
    assert set(first_cells("Packages")) == packages


def test_eight_concepts_are_classes_where_the_page_says():
    concepts = first_cells("Eight concepts")
    assert len(concepts) == 8
    for concept in concepts:
        line = next(line for line in PAGE.splitlines() if line.startswith(f"| `{concept}`"))
        path = re.search(r"`([\w/]+\.py)`", line)[1]
        module = importlib.import_module(f"{monocal.__name__}.{path.removesuffix('.py').replace('/', '.')}")
        assert isinstance(getattr(module, concept), type), concept
