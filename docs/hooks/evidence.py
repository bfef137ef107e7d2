"""Tables and figures of the evidence page and of the README from benchmarks/results: `python docs/hooks/evidence.py`.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`; a test says when a table, a figure or a number of the
page's text is not what the results say.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS, IMAGES = ROOT / "benchmarks" / "results", ROOT / "docs" / "images"
PAGES = (ROOT / "README.md", ROOT / "docs" / "benchmarks.md")
REAL_LOGS = ("flights", "Retrosheet", "KuaiRand", "Open Bandit", "Avazu")
WORLDS = ("default world", "conditional world")
METHODS = {
    "none": "the score as it is",
    "platt": "`platt`",
    "isotonic": "`isotonic`",
    "one-hot logistic": "one-hot logistic (scikit-learn)",
    "LightGBM": "LightGBM, searched",
    "MCGrad": "MCGrad",
    "wide_logistic": "`wide_logistic`",
    "sbcr": "`sbcr`",
    "umc, no carry-over": '`umc`, `carry="none"`',
    "umc": "`umc`, the default",
}
COLOURS = ("#1f6fb2", "#d1662a", "#3a8f5c", "#8a5aa8", "#6b7780", "#b3314b", "#a58a1f", "#20a0a8", "#444444")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 330, 70, 190, 16, 46

Row = dict[str, Any]
Points = Sequence[tuple[float, float]]


def read(name: str, **wanted: Any) -> list[Row]:
    """Returns the rows of a set that have the wanted values."""
    rows = [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def mean(rows: Sequence[Row], key: str) -> float:
    return sum(float(row[key]) for row in rows) / len(rows)


def mark(rows: Sequence[Row]) -> str:
    """Returns whether all seeds are worse or better than the default beyond noise."""
    worse, better = all(row["low"] > 0 for row in rows), all(row["high"] < 0 for row in rows)
    return "\u00a0▼" if worse else "\u00a0▲" if better else ""


def tables() -> dict[str, str]:
    """Returns the tables by name."""
    methods = [method for method in METHODS if method not in ("platt", "sbcr", "umc, no carry-over")]
    cost = {
        method: sum(mean(read("evidence", data=log, method=method), "cpu_s") for log in REAL_LOGS) for method in METHODS
    }
    readme = [["log-loss", *REAL_LOGS, "CPU s, all five"]]
    for method in methods:
        cells = []
        for log in REAL_LOGS:
            rows = read("evidence", data=log, method=method)
            cells.append(f"{mean(rows, 'log_loss'):.4f}" + ("" if method == "umc" else mark(rows)))
        readme.append([METHODS[method], *cells, f"{cost[method]:.1f}"])
    matrix = [["log-loss minus the default's", *REAL_LOGS, *WORLDS]]
    for method in [method for method in METHODS if method != "umc"]:
        found = [read("evidence", data=data, method=method) for data in matrix[0][1:]]
        cells = [f"{mean(rows, 'difference'):+.4f}".replace("-0.0000", "+0.0000") + mark(rows) for rows in found]
        matrix.append([METHODS[method], *cells])
    ours = [read("evidence", data=data, method="umc") for data in matrix[0][1:]]
    matrix.append([METHODS["umc"] + ": log-loss", *(f"{mean(rows, 'log_loss'):.4f}" for rows in ours)])
    for said, key in (("calibration rows", "rows"), ("positives judged", "positives"), ("fields", "fields")):
        matrix.append([said, *(f"{rows[0][key]:,}" for rows in ours)])
    return {"peers": _markdown(readme), "matrix": _markdown(matrix)}


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = ["| " + " | ".join(cells) + " |" for cells in rows]
    return "\n".join([head, "|" + " --- |" * len(rows[0]), *body])


def with_tables(text: str) -> str:
    """Returns a page with its tables as the results have them now."""
    made = tables()
    place = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", flags=re.DOTALL)
    return place.sub(lambda found: f"{found[1]}\n{made[found[2]]}\n\n{found[3]}", text)


def figures() -> dict[str, str]:
    """Returns the figures by name, as SVG."""
    sizes = ("10,000 rows", "100,000 rows", "1,000,000 rows")
    named = {"umc": "UMC, monocal default", "sbcr": "SBCR, our recipe", "LightGBM": "LightGBM, init_score, tuned"}
    named |= {"wide_logistic": "wide logistic, learned penalties", "isotonic": "isotonic"}
    by_rows = {
        said: [
            (rows[0]["rows"], 1e4 * mean(rows, "kl_to_truth"))
            for size in sizes
            for rows in [_newest("scale", size, name)]
        ]
        for said, name in named.items()
    }
    by_cost = {}
    for method in [method for method in METHODS if method != "none"]:
        rows = [read("evidence", data=log, method=method) for log in REAL_LOGS]
        change = sum(mean(found, "difference") for found in rows) / len(rows)
        by_cost[method] = [(sum(mean(found, "cpu_s") for found in rows), 1e3 * change)]
    weekly = {"umc": "UMC, monocal default", "isotonic": "isotonic", "MCGrad": "MCGrad", "the score": "none"}
    by_week = {
        said: [
            (float(week), value)
            for week, value in _newest("promotions", "promotions, 1,000,000 rows", name)[0]["pcoc_by_period"].items()
        ]
        for said, name in weekly.items()
    }
    return {
        "rows_and_loss.svg": chart(
            by_rows,
            "calibration rows",
            "divergence from the truth, ×10⁴",
            (1e4, 1e5, 1e6),
            (30, 100, 300, 1000),
            logarithmic="xy",
        ),
        "cost_and_loss.svg": chart(
            by_cost,
            "CPU seconds on five real logs",
            "log-loss minus the default's, ×10³",
            (0.3, 1, 3, 10, 30, 100),
            (-1, 0, 2, 4, 6, 8),
            logarithmic="x",
        ),
        "pcoc_by_week.svg": chart(
            by_week,
            "week of the year",
            "predicted over observed sales",
            tuple(range(42, 53, 2)),
            (0.7, 0.8, 0.9, 1.0, 1.1),
            logarithmic="",
        ),
    }


def _newest(name: str, data: str, method: str) -> list[Row]:
    """Returns the rows of one cell, those of the newest code alone."""
    rows = [row for row in read(name, data=data, method=method) if "run" not in row]
    return [row for row in rows if row["code"] == max(row["code"] for row in rows)]


def chart(
    series: Mapping[str, Points],
    x_label: str,
    y_label: str,
    x_ticks: Sequence[float],
    y_ticks: Sequence[float],
    *,
    logarithmic: str,
) -> str:
    """Draws lines through points, named at their ends; the names are moved apart where they would overlap."""
    xs, ys = ([point[axis] for points in series.values() for point in points] for axis in (0, 1))
    x_of = _scale([*xs, *x_ticks], LEFT, WIDTH - RIGHT, is_logarithmic="x" in logarithmic)
    y_of = _scale([*ys, *y_ticks], HEIGHT - BOTTOM, TOP, is_logarithmic="y" in logarithmic)
    right, low = WIDTH - RIGHT, HEIGHT - BOTTOM
    font = 'font-family="sans-serif" font-size="12"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {font}>']
    lines.append(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>')
    for tick in y_ticks:
        lines.append(f'<path d="M{LEFT} {y_of(tick):.1f}H{right}" stroke="#dde2e6"/>')
        lines.append(_text(LEFT - 8, y_of(tick) + 4, f"{tick:g}", "end"))
    lines += [_text(x_of(tick), low + 18, f"{tick:,g}" if tick < 1e4 else f"{tick:,.0f}", "middle") for tick in x_ticks]
    lines.append(f'<path d="M{LEFT} {low}H{right}" stroke="#6b7780"/>')
    lines.append(_text((LEFT + right) / 2, HEIGHT - 8, x_label, "middle"))
    middle = (TOP + low) / 2
    lines.append(f'<g transform="rotate(-90 16 {middle})">{_text(16, middle, y_label, "middle")}</g>')
    ends = {name: y_of(points[-1][1]) for name, points in series.items()}
    heights = dict(zip(sorted(ends, key=ends.__getitem__), _apart(sorted(ends.values())), strict=True))
    for number, (name, points) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        placed = [(x_of(x), y_of(y)) for x, y in points]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in placed)
        lines.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in placed]
        from_end = f"M{placed[-1][0] + 5:.1f} {placed[-1][1]:.1f}L{right + 8} {heights[name]:.1f}"
        lines.append(f'<path d="{from_end}" stroke="{colour}" stroke-width="0.6"/>')
        lines.append(_text(right + 12, heights[name] + 4, name, "start", colour))
    return "\n".join([*lines, "</svg>", ""])


def _scale(values: Sequence[float], start: float, end: float, *, is_logarithmic: bool) -> Any:
    of = math.log10 if is_logarithmic else float
    low, high = of(min(values)), of(max(values))
    return lambda value: start + (of(value) - low) / (high - low) * (end - start)


def _apart(heights: Sequence[float], gap: float = 15.0) -> list[float]:
    moved = list(heights)
    for _ in range(100):
        for upper, lower in pairwise(range(len(moved))):
            missing = gap - (moved[lower] - moved[upper])
            if missing > 0:
                moved[upper], moved[lower] = moved[upper] - missing / 2, moved[lower] + missing / 2
    return moved


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{text}</text>'


_SOURCE = re.compile(r"<!-- from (\w+): (\{.*?\}) -->")
_NUMBER = re.compile(r"(?<![\w.`])\d[\d,]*(?:\.\d+)?")


def unfounded(text: str) -> list[str]:
    """Returns the numbers of a page's text that are no value of the rows that their paragraph names.

    A paragraph with numbers ends with `<!-- from SET: {"data": …, "method": …} -->`, once or several times.
    """
    outside = re.sub(r"<!-- table: .*?<!-- end -->", "", text, flags=re.DOTALL)
    found = []
    for paragraph in re.split(r"\n\n|\n(?=- )", outside):
        sources = [read(name, **json.loads(wanted)) for name, wanted in _SOURCE.findall(paragraph)]
        values = [abs(value) for rows in sources for row in rows for value in _numbers(row)]
        plain = re.sub(r"<!--.*?-->|`[^`]*`|\]\([^)]*\)|\d+\.\d+\.\d+", "", paragraph, flags=re.DOTALL)
        for number in _NUMBER.findall(plain):
            number = number.rstrip(",")
            digits = len(number.partition(".")[2])
            if all(
                f"{value:,.{digits}f}" not in (number, f"{float(number.replace(',', '')):,.{digits}f}")
                for value in values
            ):
                found.append(number)
    return found


def _numbers(row: object) -> Iterable[float]:
    if isinstance(row, dict):
        for value in row.values():
            yield from _numbers(value)
    elif isinstance(row, int | float):
        yield row


def main() -> None:
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
    for name, drawn in figures().items():
        (IMAGES / name).write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
