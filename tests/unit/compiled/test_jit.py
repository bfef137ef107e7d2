"""The compiled loops where their machine code cannot be kept."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import monocal
from monocal.compiled.jit import compiled

pytest.importorskip("numba")
SOURCE = Path(monocal.__file__).parent
USE = """
import numpy as np
from monocal.compiled.dense import add_products
out = np.zeros((1, 2), np.float32)
add_products(np.float32([[1, 2]]), np.float32([[3, 4], [5, 6]]), out)
print(out.tolist(), type(add_products._cache).__name__)
"""
FILES = ["__init__.py", "compiled/__init__.py", "compiled/jit.py", "compiled/dense.py"]


def copy_of_the_kernels(folder):
    for name in FILES:
        target = folder / "monocal" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if name == "__init__.py":
            target.write_text('"""A part of monocal."""\n', encoding="utf-8")
        else:
            shutil.copy(SOURCE / name, target)
    return folder


def run(place, home):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    environment |= {"PYTHONPATH": str(place), "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, "-c", USE], env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture
def no_home(tmp_path):
    """A home in which nothing can be created, not even by root: it is a file."""
    home = tmp_path / "home"
    home.write_text("", encoding="utf-8")
    return home


def test_loops_run_on_a_read_only_installation_without_a_home(tmp_path, no_home):
    place = copy_of_the_kernels(tmp_path / "installed")
    # a file where numba wants a folder refuses writers of every rank, as a read-only disk does
    (place / "monocal" / "compiled" / "__pycache__").write_text("", encoding="utf-8")
    result = run(place, no_home)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[[13.0, 16.0]] NullCache"


def test_loops_run_from_a_zip_file_without_a_home(tmp_path, no_home):
    place = copy_of_the_kernels(tmp_path / "installed")
    with zipfile.ZipFile(tmp_path / "monocal.zip", "w") as archive:
        for name in FILES:
            archive.write(place / "monocal" / name, f"monocal/{name}")
    result = run(tmp_path / "monocal.zip", no_home)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("[[13.0, 16.0]]")


def test_loops_are_kept_where_there_is_a_place(tmp_path, no_home):
    place = copy_of_the_kernels(tmp_path / "installed")
    result = run(place, no_home)
    assert result.stdout.strip() == "[[13.0, 16.0]] FunctionCache", result.stderr
    assert list((place / "monocal" / "compiled" / "__pycache__").glob("*.nbi"))


def test_without_numba_a_loop_is_the_function_itself(monkeypatch):
    monkeypatch.setattr("monocal.compiled.jit.numba_is_installed", lambda: False)

    def double(value):
        return 2.0 * value

    assert compiled()(double) is double
