"""Puts tables of benchmarks/results into pages, so that a page cannot say other numbers than the last run."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

_SHOWN = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "tables.py"))["shown"]
_PLACE = re.compile(r"^<!-- results: ([a-z_]+)(?: ([a-z_]+))? -->$", flags=re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replaces every `<!-- results: set table -->` by that table, `<!-- results: set -->` by all tables of the set."""
    return _PLACE.sub(lambda found: _SHOWN(found[1], found[2]), markdown)
