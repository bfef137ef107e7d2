"""A table as plain text, for reports that are printed."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(lines: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines with their columns aligned.

    Example:
        >>> text_table([("metric", "value"), ("ece", "0.01")])
        ['metric  value', 'ece     0.01']
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
