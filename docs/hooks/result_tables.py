"""Puts tables of benchmarks/results into pages, so that a page cannot say other numbers than the last run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
_PLACE = re.compile(r"^<!-- results: ([a-z_]+\.md) -->$", flags=re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replaces every `<!-- results: name.md -->` by that file, its headings one step lower."""
    return _PLACE.sub(lambda found: _lowered(_RESULTS / found[1]), markdown)


def _lowered(path: Path) -> str:
    return re.sub(r"^#", "##", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
