"""Results as tables: for pandas, for Arrow and for notebooks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from html import escape
from typing import Any

_SHOWN_ROWS = 50


class Tabular(ABC):
    """What has rows and columns.

    A subclass writes `_columns`; `print` and notebooks then show it as a table, and `to_arrow` and `to_pandas` hand it
    on.

    Example:
        >>> class Rates(Tabular):
        ...     def _columns(self):
        ...         return {"site": ["a", "b"], "rate": [0.1, 0.25]}
        >>> Rates().to_arrow().to_pydict()
        {'site': ['a', 'b'], 'rate': [0.1, 0.25]}
        >>> print(Rates())
        site  rate
        a     0.1
        b     0.25
    """

    @abstractmethod
    def _columns(self) -> Mapping[str, Any]:
        """Returns columns of equal length by name: lists or arrays of plain values."""

    def to_arrow(self) -> Any:
        """Returns a pyarrow table."""
        import pyarrow as pa

        return pa.table({name: pa.array(column) for name, column in self._columns().items()})

    def to_pandas(self) -> Any:
        """Returns a pandas data frame; needs pandas."""
        return self.to_arrow().to_pandas()

    def __str__(self) -> str:
        return text_table(self._columns())

    def _repr_html_(self) -> str:
        """What a notebook shows: the first rows as a table."""
        table = self.to_arrow()
        head = "".join(f"<th>{escape(name)}</th>" for name in table.column_names)
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(_cell(value))}</td>' for value in row.values())}</tr>"
            for row in table.slice(0, _SHOWN_ROWS).to_pylist()
        )
        rest = table.num_rows - _SHOWN_ROWS
        more = f"<p>… and {rest:,} more rows</p>" if rest > 0 else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"


def text_table(columns: Mapping[str, Any]) -> str:
    """Returns the first rows as aligned lines."""
    n_rows = len(next(iter(columns.values()), ()))
    cells = [[name, *map(_cell, column[:_SHOWN_ROWS])] for name, column in columns.items()]
    widths = [max(map(len, column)) for column in cells]
    lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in zip(*cells, strict=True)]
    return "\n".join([*lines, f"… and {n_rows - _SHOWN_ROWS:,} more rows"] if n_rows > _SHOWN_ROWS else lines)


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.5g}" if isinstance(value, float) else str(value)
