"""What a verb tells: results on standard output, remarks on standard error."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH = 80


def remark(text: str) -> None:
    """Says something to the person watching; results never go this way."""
    typer.echo(text, err=True)


def print_json(result: Any) -> None:
    """Writes one JSON document to standard output; a number that is not defined becomes null.

    Example:
        >>> print_json({"ece": float("nan"), "n_rows": 3})
        {
         "ece": null,
         "n_rows": 3
        }
    """
    sys.stdout.write(json.dumps(plain(result), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def plain(value: Any) -> Any:
    """Returns numbers, strings, lists and dictionaries only, as JSON wants them."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, str | bool | int) or value is None:
        return value
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Iterable):
        return [plain(entry) for entry in value]
    return str(value)


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    notes: Sequence[str] = (),
    *,
    left: int = 1,
    is_result: bool = True,
) -> None:
    """Writes a table, as wide as the terminal; in a pipe, 80 columns.

    Arguments:
        title: What the table shows.
        columns: The headings.
        rows: One text per cell.
        notes: Lines below the table.
        left: How many columns from the left hold words; the others hold numbers.
        is_result: Results go to standard output, everything else to standard error.
    """
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for index, heading in enumerate(columns):
        table.add_column(heading, justify="left" if index < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = _console(is_result)
    console.print(table)
    for note in notes:
        console.print(note, highlight=False, markup=False)


def print_lines(text: str) -> None:
    """Writes text to standard output as it is."""
    sys.stdout.write(text.rstrip("\n") + "\n")


def first_line(docstring: str | None) -> str:
    r"""Returns what a docstring says first, without markup.

    Example:
        >>> first_line("The mean of :math:`|p-y|` over `bins`.\n\nMore.")
        'The mean of |p-y| over bins.'
    """
    return (docstring or "").strip().splitlines()[0].replace(":math:", "").replace("`", "")


def _console(is_result: bool) -> Console:
    from rich.console import Console

    stream = sys.stdout if is_result else sys.stderr
    return Console(file=stream, width=None if stream.isatty() else _WIDTH)
