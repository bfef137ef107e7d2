"""Tables of the result sets in benchmarks/results, one JSON row per cell: shown as Markdown, kept from Markdown.

    python benchmarks/tables.py main                                            # shows a set
    python benchmarks/tables.py speed umc_speed                                 # one table of a set
    python benchmarks/speed/umc_speed.py | python benchmarks/tables.py speed umc_speed --keep

`--keep` puts the tables that a script prints in the place of those of the same name; every row gets the version of the
code and the cores of the machine. Pages show a set or a table where they say `<!-- results: speed umc_speed -->`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]

RESULTS = Path(__file__).parent / "results"
# what a row says of where it belongs and how it came about, rather than what was measured
_ABOUT = ("table", "part", "study", "data", "run", "code", "machine", "peer")
_NUMBER = re.compile(r"[+-]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?")


def read(name: str) -> list[Row]:
    """Returns the rows of a set."""
    return [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def shown(name: str, table: str | None = None) -> str:
    """Returns a set, or one table of it, as Markdown: a heading and a table for every part that has columns of its own.

    Example:
        >>> print(shown("scale").splitlines()[0])
        ### scale, 10,000 rows
    """
    parts: dict[tuple[str, ...], list[Row]] = {}
    for row in read(name):
        if table is None or row.get("table", row.get("study")) == table:
            place = [str(row[key]) for key in ("table", "study", "part", "data", "run") if key in row]
            parts.setdefault(tuple(place), []).append(row)
    return "\n\n".join(f"### {', '.join(place)}\n\n{_table(rows)}" for place, rows in parts.items())


def _table(rows: list[Row]) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row if key not in _ABOUT))
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(_cell(row.get(column, "")) for column in columns) + " |" for row in rows]
    made = dict.fromkeys(f"{row['code']}, {row['machine']}" if "machine" in row else row["code"] for row in rows)
    return "\n".join([*lines, "", f"Code: {'; '.join(made)}."])


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_cell(part)}" for key, part in value.items())
    if isinstance(value, int):
        return f"{value:,}"
    return format(value, "f").rstrip("0") if isinstance(value, float) else str(value)


def kept(lines: Iterable[str], table: str, code: str) -> Iterator[Row]:
    """Yields the rows of the tables of a Markdown text, numbers as numbers.

    Example:
        >>> text = ["## Fits", "", "| rows | CPU s |", "| --- | --- |", "| 1,000 | **0.5** |"]
        >>> next(kept(text, "fits", "0.3.0"))["CPU s"]
        0.5
    """
    part, columns = "", []
    for line in (*lines, ""):
        cells = [cell.strip().strip("*") for cell in line.strip().strip("|").split("|")]
        if line.startswith("#"):
            part = "" if line.startswith("# ") else line.strip("# \n")
        elif not line.startswith("|"):
            columns = []
        elif not columns:
            columns = []
            for cell in cells:
                same = sum(name.startswith(cell or "what") for name in columns)
                columns.append(f"{cell or 'what'} ({same + 1})" if same else cell or "what")
        elif set(line.strip()) - set("|:- "):
            place = {"table": table} | ({"part": part} if part else {})
            made = {"code": code, "machine": f"{os.cpu_count()} cores"}
            yield place | {name: _value(cell) for name, cell in zip(columns, cells, strict=True)} | made


def _value(cell: str) -> Any:
    return json.loads(cell.replace(",", "").lstrip("+")) if _NUMBER.fullmatch(cell) else cell


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=sorted(path.stem for path in RESULTS.glob("*.jsonl")))
    parser.add_argument("table", nargs="?")
    parser.add_argument("--keep", action="store_true", help="takes the tables of a Markdown text on standard input")
    given = parser.parse_args()
    if given.keep:
        from monocal import __version__

        text = sys.stdin.readlines()
        sys.stdout.writelines(text)
        others = [row for row in read(given.set) if row.get("table") != given.table]
        rows = [*others, *kept(text, given.table, __version__)]
        path = RESULTS / f"{given.set}.jsonl"
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    else:
        print(shown(given.set, given.table))


if __name__ == "__main__":
    main()
