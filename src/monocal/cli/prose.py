"""Docstrings for a terminal: sentences are wrapped, formulas and code are left as they are."""

from __future__ import annotations

import itertools
import re
from textwrap import wrap

WIDTH = 80
_AS_IT_IS = (">>>", "...", ".. math")
_TYPED = re.compile(r"--[\w-]+ '[^']*'|--[\w-]+ \S+|'[^']*'")
_HELD = "\0"


def wrapped(text: str, width: int = WIDTH) -> str:
    """Returns a docstring whose sentences fit a width; lines of one indentation are one paragraph.

    Example:
        >>> print(wrapped("Joins the centres of bins\\nwith lines.\\n\\nReferences:\\n    Deng et al. 2020.", 24))
        Joins the centres of
        bins with lines.
        <BLANKLINE>
        References:
            Deng et al. 2020.
    """
    return "\n\n".join(_block(block, width) for block in text.split("\n\n"))


def folded(text: str, width: int = WIDTH) -> str:
    """Returns lines that fit a width; what goes on is indented by four more than its line.

    No word is broken, and an option stays beside its value, so that it can be typed as it stands.

    Example:
        >>> print(folded("fields: site_id (1,800), ad_id (500)", 28))
        fields: site_id (1,800),
            ad_id (500)
        >>> print(folded("hour was left out; --set 'carry={\\"hour\\": 1.0}' keeps it", 28))
        hour was left out;
            --set 'carry={"hour": 1.0}'
            keeps it
    """
    return "\n".join(_folded_line(line, width) for line in text.split("\n"))


def _folded_line(line: str, width: int) -> str:
    indent = " " * (len(line) - len(line.lstrip()))
    further = indent + "    "
    held = _TYPED.sub(lambda typed: typed.group().replace(" ", _HELD), line)
    lines = wrap(held, width, subsequent_indent=further, break_long_words=False, break_on_hyphens=False)
    return line if len(line) <= width else "\n".join(lines).replace(_HELD, " ")


def _block(block: str, width: int) -> str:
    lines = block.split("\n")
    if any(line.lstrip().startswith(_AS_IT_IS) for line in lines):
        return block
    told: list[str] = []
    for paragraph in _paragraphs(lines):
        indent = " " * (len(paragraph[0]) - len(paragraph[0].lstrip()))
        hanging = indent + "  " * paragraph[0].lstrip().startswith("- ")
        joined = " ".join(line.strip() for line in paragraph)
        told += wrap(joined, width, initial_indent=indent, subsequent_indent=hanging) or [""]
    return "\n".join(told)


def _paragraphs(lines: list[str]) -> list[list[str]]:
    """A new one begins with a point of a list, and where the indentation changes other than by a point's own."""
    found: list[list[str]] = []
    for before, line in itertools.pairwise(["", *lines]):
        indents = [len(text) - len(text.lstrip()) for text in (before, line)]
        goes_on = indents[0] == indents[1] or (indents[1] == indents[0] + 2)
        if found and goes_on and not line.lstrip().startswith("- "):
            found[-1].append(line)
        else:
            found.append([line])
    return found
