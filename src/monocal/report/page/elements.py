"""Small pieces of HTML: text that is safe, figures, facts and tables that sort and filter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape as _escape
from typing import final

from monocal.core.numbers import ratio, span

TABLE_ROWS = 15
"""Rows of a table that are shown before "show all"."""


def text(words: object) -> str:
    """Any value as text that cannot become markup.

    Example:
        >>> text('<script>')
        '&lt;script&gt;'
    """
    return _escape(str(words))


def slug(words: str) -> str:
    """A name as an identifier of the page.

    Example:
        >>> slug("Long view / 7 s")
        'long-view-7-s'
    """
    kept = "".join(sign if sign.isalnum() and sign.isascii() else "-" for sign in words.lower())
    return "-".join(part for part in kept.split("-") if part) or "x"


@final
@dataclass(frozen=True)
class Cell:
    """One cell: ready HTML, the number or text it sorts by, and a class.

    Attributes:
        html: What is shown.
        order: What it sorts by; None means its text.
        style: Classes.
    """

    html: str
    order: float | str | None = None
    style: str = ""

    def markup(self, tag: str = "td") -> str:
        order = "" if self.order is None else f' data-v="{text(_order(self.order))}"'
        style = f' class="{self.style}"' if self.style else ""
        scope = ' scope="row"' if tag == "th" else ""
        return f"<{tag}{scope}{style}{order}>{self.html}</{tag}>"


def number(shown: str, order: float | None = None) -> Cell:
    """A cell with a number, aligned to the right; it sorts by what is shown unless another order is given."""
    return Cell(text(shown), order, "n")


def words(shown: object, style: str = "") -> Cell:
    """A cell with text."""
    return Cell(text(shown), None, style)


@final
@dataclass(frozen=True)
class Column:
    """A column's head: its title, an explanation, and whether it holds numbers or can be left out on a phone."""

    title: str
    help: str = ""
    numeric: bool = True
    wide_only: bool = False


@final
@dataclass(frozen=True)
class Row:
    """A row: its cells (the first one names the row) and tags that filters look for."""

    cells: Sequence[Cell]
    tags: str = ""


def table(
    identifier: str,
    caption: str,
    columns: Sequence[Column],
    rows: Iterable[Row],
    *,
    filters: str = "",
    shown: int = TABLE_ROWS,
) -> str:
    """A table whose heads are buttons that sort, with optional filters above and a button that shows all rows.

    Without JavaScript it is a plain table with all of its rows.
    """
    body = "".join(_row(row, columns) for row in rows)
    head = "".join(_head(column) for column in columns)
    return (
        f'<div class="tablebox">{filters}<div class="scroll" tabindex="0" role="region" aria-label="{text(caption)}">'
        f'<table id="{identifier}" data-shown="{shown}"><caption>{text(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        '<p class="tablefoot js"><span role="status"></span> '
        '<button type="button" class="more" hidden>Show all</button> '
        '<button type="button" class="csv">Save as CSV</button></p></div>'
    )


def table_filters(
    identifier: str, choices: Sequence[tuple[str, str]], flags: Sequence[tuple[str, str]], hint: str
) -> str:
    """Controls that narrow a table: a text search, a choice among row tags, and a choice among flags."""
    parts = [
        f'<label>Search <input type="search" data-search="{identifier}" placeholder="{text(hint)}" '
        f'autocomplete="off"></label>'
    ]
    for name, options in (("Field", choices), ("Show", flags)):
        if len(options) > 1:
            items = "".join(f'<option value="{text(value)}">{text(shown)}</option>' for value, shown in options)
            parts.append(f'<label>{name} <select data-tag="{identifier}">{items}</select></label>')
    return f'<div class="filters js">{"".join(parts)}</div>'


def figure(drawing: str, caption: str, *, note: str = "", legend: bool = True) -> str:
    """A drawing with its caption, and buttons that show and hide each side."""
    buttons = (
        '<span class="legend"><button type="button" class="key before" data-hide="before" aria-pressed="true">before'
        '</button><button type="button" class="key after" data-hide="after" aria-pressed="true">after</button></span>'
        if legend
        else ""
    )
    small = f'<p class="note">{note}</p>' if note else ""
    return f"<figure><figcaption><b>{text(caption)}</b>{buttons}</figcaption>{drawing}{small}</figure>"


def section(identifier: str, title: str, lead: str, *parts: str) -> str:
    """A section with a title and one sentence that says what to look at; `lead` is ready HTML."""
    return (
        f'<section class="part" id="{identifier}" aria-labelledby="{identifier}-t">'
        f'<h2 id="{identifier}-t">{text(title)}</h2><p class="lead">{lead}</p>{"".join(parts)}</section>'
    )


def pair(*parts: str) -> str:
    """Pieces side by side where there is room."""
    return f'<div class="pair">{"".join(parts)}</div>'


def pcoc_cell(value: float, low: float, high: float) -> Cell:
    """A cell with PCOC and its interval."""
    return Cell(f"{ratio(value)}<small>{text(span(low, high, 2))}</small>", style="n")


def details(summary: str, *parts: str) -> str:
    """Pieces that open on demand."""
    return f"<details><summary>{text(summary)}</summary>{''.join(parts)}</details>"


def badge(words_shown: str, mood: str) -> str:
    """A short judgement; the sign in front says it without colour."""
    return f'<span class="badge {mood}">{text(words_shown)}</span>'


def _row(row: Row, columns: Sequence[Column]) -> str:
    tags = f' data-k="{text(row.tags)}"' if row.tags else ""
    cells = [cell if not column.wide_only else _wide(cell) for cell, column in zip(row.cells, columns, strict=True)]
    return f"<tr{tags}>{cells[0].markup('th')}{''.join(cell.markup() for cell in cells[1:])}</tr>"


def _wide(cell: Cell) -> Cell:
    return Cell(cell.html, cell.order, f"{cell.style} wide".strip())


def _head(column: Column) -> str:
    style = " ".join(name for name, on in (("n", column.numeric), ("wide", column.wide_only)) if on)
    attribute = f' class="{style}"' if style else ""
    hint = f' title="{text(column.help)}"' if column.help else ""
    return f'<th scope="col"{attribute}><button type="button" class="sort"{hint}>{text(column.title)}</button></th>'


def _order(order: float | str) -> str:
    if isinstance(order, str):
        return order
    return "" if order != order else f"{order:.6g}"
