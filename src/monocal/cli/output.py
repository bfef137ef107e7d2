"""What a verb prints: results on standard output, remarks on standard error, tables and texts of 80 columns."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import typer

from monocal.core.numbers import plain_values

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH = 80


def remark(*said: object) -> None:
    """Says things to the person watching, each on a line of its own, None not at all; results never go this way."""
    for text in said:
        if text is not None:
            typer.echo(str(text), err=True)


def print_json(result: Any) -> None:
    """Writes one JSON document to standard output; a number that is not defined becomes null.

    Example:
        >>> print_json({"ece": float("nan"), "n_rows": 3})
        {
         "ece": null,
         "n_rows": 3
        }
    """
    sys.stdout.write(json.dumps(plain_values(result), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    notes: Sequence[str] = (),
    *,
    left: int = 1,
    tight: bool = False,
) -> None:
    """Writes a table, as wide as the terminal; in a pipe, 80 columns.

    Arguments:
        title: What the table shows.
        columns: The headings.
        rows: One text per cell.
        notes: Lines below the table.
        left: How many columns from the left hold words; the others hold numbers.
        tight: Leaves one space between columns instead of two.
    """
    from rich import box
    from rich.table import Table

    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 0 if tight else 1, 0, 0), show_edge=False
    )
    for index, heading in enumerate(columns):
        table.add_column(heading, justify="left" if index < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = _console()
    console.print(table)
    for note in notes:
        console.print(note, highlight=False, markup=False)


def print_lines(text: str) -> None:
    """Writes text to standard output as it is."""
    sys.stdout.write(text.rstrip("\n") + "\n")


def folded(text: str) -> str:
    """Returns lines that fit a terminal; what goes on is indented by four more than its line, and no word is broken.

    Example:
        >>> print(folded("fields: " + ", ".join(f"field_{number} (1,000)" for number in range(1, 6))))
        fields: field_1 (1,000), field_2 (1,000), field_3 (1,000), field_4 (1,000),
            field_5 (1,000)
    """
    return "\n".join(_fold(line) for line in text.split("\n"))


def in_shell_lines(command: str, width: int = _WIDTH - 6) -> list[str]:
    r"""Returns a command in lines that can be pasted into a shell, each of which begins with an option.

    Example:
        >>> print("\n".join(in_shell_lines("monocal report model/ test.parquet --out report.html", 40)))
        monocal report model/ test.parquet \
            --out report.html
    """
    kept = re.sub(" (?!--)", "\N{NO-BREAK SPACE}", command)
    lines = wrap(kept, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return " \\\n".join(lines).replace("\N{NO-BREAK SPACE}", " ").split("\n")


def _fold(line: str) -> str:
    further = " " * (len(line) - len(line.lstrip()) + 4)
    lines = wrap(line, _WIDTH, subsequent_indent=further, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines) if len(line) > _WIDTH else line


def wrapped(docstring: str) -> str:
    """Returns a docstring whose paragraphs fit a terminal; formulas, code and lists stay as they are.

    Example:
        >>> print(wrapped("Joins the centres of\\nbins with lines.\\n\\n.. math::\\n    a + b"))
        Joins the centres of bins with lines.
        <BLANKLINE>
        .. math::
            a + b
    """
    return "\n\n".join(_paragraph(block) for block in docstring.split("\n\n"))


def _paragraph(block: str) -> str:
    lines = block.split("\n")
    indents = {len(line) - len(line.lstrip()) for line in lines}
    if len(indents) > 1 or block.lstrip().startswith((">>>", ".. math", "- ")):
        return "\n".join(_fold(line) for line in lines)
    indent = " " * indents.pop()
    return "\n".join(wrap(" ".join(block.split()), _WIDTH, initial_indent=indent, subsequent_indent=indent))


def first_line(docstring: str | None) -> str:
    r"""Returns what a docstring says first, without markup.

    Example:
        >>> first_line("The mean of :math:`|p-y|` over `bins`.\n\nMore.")
        'The mean of |p-y| over bins.'
    """
    return (docstring or "").strip().splitlines()[0].replace(":math:", "").replace("`", "")


def _console() -> Console:
    from rich.console import Console

    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else _WIDTH)
