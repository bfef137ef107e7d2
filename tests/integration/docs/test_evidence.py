"""The evidence page and the README's table say what benchmarks/results say, and nothing else."""

import json
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EVIDENCE = runpy.run_path(str(ROOT / "docs" / "hooks" / "evidence.py"))
PAGE = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
AGAIN = "run python docs/hooks/evidence.py"


@pytest.mark.parametrize("page", EVIDENCE["PAGES"], ids=lambda page: page.name)
def test_tables_are_those_of_the_results(page):
    text = page.read_text("utf-8")
    assert "<!-- table: " in text
    assert EVIDENCE["with_tables"](text) == text, AGAIN


def test_figures_are_those_of_the_results():
    for name, drawn in EVIDENCE["figures"]().items():
        assert (EVIDENCE["IMAGES"] / name).read_text("utf-8") == drawn, f"{name}: {AGAIN}"
        assert name in PAGE
        assert len(drawn) < 60_000


def test_numbers_of_the_text_are_values_of_the_rows_that_it_names():
    assert EVIDENCE["unfounded"](PAGE) == []
    wrong = PAGE.replace("0.77 of what came", "0.78 of what came").replace("With 65 positives", "With 66 positives")
    assert EVIDENCE["unfounded"](wrong) == ["0.78", "66"]
    assert EVIDENCE["unfounded"]("A number without rows: 0.5") == ["0.5"]


def test_the_page_is_short():
    text = re.sub(r"^\|.*$", "", re.sub(r"<!--.*?-->", "", PAGE), flags=re.MULTILINE)
    assert len(text.split()) <= 700


def test_every_row_says_with_which_code_it_was_measured():
    sets = sorted((ROOT / "benchmarks" / "results").iterdir())
    assert len(sets) <= 12
    for path in sets:
        assert path.suffix == ".jsonl"
        for line in path.read_text("utf-8").splitlines():
            assert json.loads(line)["code"], path.name
