"""Turns formulas into MathML while the site is built, so that no script has to be loaded to read them."""

from __future__ import annotations

import html
import re
from typing import Any

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', flags=re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Replaces every formula of a finished page."""
    return _FORMULA.sub(_as_mathml, content)


def _as_mathml(found: re.Match[str]) -> str:
    from latex2mathml.converter import convert

    formula = html.unescape(found[3]).strip()
    return convert(formula, display="inline" if found[2] == "(" else "block")
