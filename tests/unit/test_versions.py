"""The lowest versions that are tested are the lowest that are allowed."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_lowest_versions_are_the_ones_of_the_metadata():
    extras = [PROJECT["optional-dependencies"][name] for name in ("neural", "report", "export")]
    needed = [*PROJECT["dependencies"], *(dependency for extra in extras for dependency in extra)]
    allowed = dict(re.fullmatch(r"([\w-]+)>=([\d.]+)(?:,<[\d.]+)?", dependency).groups() for dependency in needed)
    lines = (ROOT / "lowest.txt").read_text(encoding="utf-8").splitlines()
    tested = dict(re.fullmatch(r"([\w-]+)==([\d.]+)", line).groups() for line in lines if not line.startswith("#"))
    assert tested.pop("click").startswith("8.2"), "not named by us: typer's own floor is older than what works"
    assert {name: numbers(version) for name, version in tested.items()} == {
        name: numbers(version) for name, version in allowed.items()
    }


def test_the_pin_of_torch_is_within_its_range():
    pinned = re.search(r"^torch==([\d.]+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)[
        1
    ]
    low, high = re.search(r"torch>=([\d.]+),<([\d.]+)", str(PROJECT["optional-dependencies"]["neural"])).groups()
    assert numbers(low) <= numbers(pinned) < numbers(high)


def numbers(version):
    found = [int(part) for part in version.split(".")]
    return found + [0] * (3 - len(found))
