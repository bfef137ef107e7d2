"""Results as long-form Parquet and as a Markdown table that calls a tie a tie."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from monocal.bench.evaluator import TRUTH_METRICS
from monocal.bench.published import published_section
from monocal.bench.study import Study
from monocal.core.files import atomic_file
from monocal.core.version import __version__

_DIGITS = {"auc": 4, "gauc": 4, "log_loss": 5, "pcoc": 3, "ece": 4, "frce": 4, "mfrce": 4}
_VERSIONS = ("numpy", "scikit-learn", "torch", "numba", "lightgbm", "mcgrad")


def write_results(study: Study, rows: list[dict[str, Any]], folder: Path) -> Path:
    """Writes `results.parquet` and `leaderboard.md` into a folder and returns the Markdown's path."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = pa.table({name: [row.get(name) for row in rows] for name in columns})
    with atomic_file(folder / "results.parquet") as temporary:
        pq.write_table(table, temporary)
    path = folder / "leaderboard.md"
    with atomic_file(path) as temporary:
        temporary.write_text(markdown(study, rows), encoding="utf-8")
    return path


def markdown(study: Study, rows: Sequence[dict[str, Any]], missing: dict[str, str] | None = None) -> str:
    """Returns the leaderboard: per data set one table, best log-loss first, mean and spread over seeds."""
    parts = [f"# Study `{study.name}`", "", study.question, ""]
    parts += [
        f"Seeds {', '.join(map(str, study.seeds))}. Numbers are means over seeds (± standard deviation where it is "
        "not 0). *Floor* is what a perfect forecaster would score on the same rows. A verdict compares with the "
        "calibrator of smallest log-loss on the same rows by a paired bootstrap at 95 %; **=** means that the data "
        "cannot tell the two apart, ▼ that this one is worse, ▲ that it is better in this metric.",
        "",
    ]
    for data in dict.fromkeys(row["data"] for row in rows):
        parts += _data_section(study, data, [row for row in rows if row["data"] == data])
        parts += [line for spec in study.data if spec.name == data for line in published_section(spec.source)]
    for name, reason in (missing or {}).items():
        parts += [f"## {name}", "", f"Skipped: {reason}", ""]
    parts += [f"Versions: {_versions()}.", f"Command: `monocal bench {study.name}`.", ""]
    return "\n".join(parts)


def _data_section(study: Study, data: str, rows: list[dict[str, Any]]) -> list[str]:
    measured = [*study.metrics, *(name for name in TRUTH_METRICS if any(row["metric"] == name for row in rows))]
    names = list(dict.fromkeys(row["calibrator"] for row in rows))

    def numbers(name: str, metric: str, key: str = "value") -> list[float]:
        return [row[key] for row in rows if row["calibrator"] == name and row["metric"] == metric and key in row]

    def order(name: str) -> float:
        found = numbers(name, "log_loss")
        return float(np.mean(found)) if found else math.inf

    head = ["calibrator", *measured, "CPU s"]
    lines = [f"## {data}", "", "| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    skipped = []
    for name in sorted(names, key=order):
        here = [row for row in rows if row["calibrator"] == name]
        if all(row["status"] != "ok" for row in here):
            skipped.append(f"- {name}: skipped, {here[0]['reason']}")
            continue
        cells = [_cell(metric, numbers(name, metric), here) for metric in measured]
        seconds = float(np.mean([row["cpu_seconds"] for row in here if row["status"] == "ok"]))
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {seconds:.1f} |")
    floors = [_floor(metric, [row for row in rows if row["metric"] == metric]) for metric in measured]
    lines.append("| *floor* | " + " | ".join(floors) + " | |")
    return [*lines, "", *skipped, *([""] if skipped else [])]


def _cell(metric: str, values: list[float], rows: list[dict[str, Any]]) -> str:
    if not values:
        return ""
    digits = _DIGITS.get(metric, 5)
    text = f"{np.mean(values):.{digits}f}"
    if len(values) > 1 and np.std(values) > 0.5 * 10.0**-digits:
        text += f" ± {np.std(values):.{digits}f}"
    found = [row for row in rows if row["metric"] == metric]
    if any(row.get("is_best") for row in found):
        return f"**{text}**" if metric == "log_loss" else text
    verdicts = [row["verdict_to_best"] for row in found if row.get("verdict_to_best")]
    if not verdicts:
        return text
    if all(one == "worse" for one in verdicts):
        return text + " ▼"
    if all(one == "better" for one in verdicts):
        return text + " ▲"
    return text + " ="


def _floor(metric: str, rows: list[dict[str, Any]]) -> str:
    if metric in ("auc", "gauc", "log_loss", *TRUTH_METRICS):
        return ""
    best = [row["floor"] for row in rows if row.get("is_best") and "floor" in row]
    return f"{np.mean(best):.{_DIGITS.get(metric, 5)}f}" if best else ""


def _versions() -> str:
    found = [f"monocal {__version__}", f"python {platform.python_version()}"]
    for name in _VERSIONS:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)
