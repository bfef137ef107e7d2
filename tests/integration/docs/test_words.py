"""Pages are short: words are counted as a reader meets them, without code, numbers and the targets of links."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if "decisions" not in path.parts)
"""The site without decisions, which pages link to; reference pages are made from docstrings."""


def words(path):
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->|\]\([^)]*\)", " ", text, flags=re.DOTALL)
    return len(re.findall(r"[^\W\d_][\w.,:/'’-]*", text))


def test_the_readme_has_at_most_600_words():
    assert words(ROOT / "README.md") <= 600


def test_no_page_has_more_than_700_words():
    assert {path.name: words(path) for path in PAGES if words(path) > 700} == {}


def test_the_site_has_at_most_20000_words():
    assert sum(map(words, PAGES)) <= 20_000


def test_the_changelog_of_a_version_has_at_most_1000_words():
    newest = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("\n## ")[2].partition("\n## ")[0]
    assert len(newest.split()) <= 1_000
