"""From the dialect of our docstrings to that of the site: formulas between dollar signs, examples as code."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_BLOCK = re.compile(r"^([ \t]*)\.\. math::[ \t]*(.*(?:\n(?:\1[ \t]+\S.*))*)", flags=re.MULTILINE)
_INLINE = re.compile(r":math:`([^`]+)`")
_EXAMPLE = re.compile(r"^([ \t]*)Example:[ \t]*$", flags=re.MULTILINE)


def for_the_site(docstring: str) -> str:
    """Returns the docstring with formulas between dollar signs and its example under the head the parser knows.

    Example:
        >>> for_the_site("The rate :math:`p` is\\n\\n.. math:: p = a\\n          + b")
        'The rate $p$ is\\n\\n$$p = a + b$$'
    """

    def block(found: re.Match[str]) -> str:
        formula = " ".join(line.strip() for line in found[2].splitlines())
        return f"{found[1]}$${formula}$$"

    return _EXAMPLE.sub(r"\1Examples:", _INLINE.sub(r"$\1$", _BLOCK.sub(block, docstring)))


class Formulas(Extension):
    """Rewrites everything that has a docstring."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = for_the_site(obj.docstring.value)
