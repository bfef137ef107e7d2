"""The leaderboard as values: per data set one table, best log-loss first, a tie called a tie."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, NamedTuple, final

import numpy as np

from monocal.core.version import __version__
from monocal.lab.studies.evaluator import PERIOD_METRIC, TRUTH_METRICS
from monocal.lab.studies.study import Study

Verdict = Literal["", "best", "tie", "worse", "better"]

EXPLANATION = (
    "Numbers are means over seeds (± standard deviation where it is not 0). *Floor* is what a perfect forecaster would "
    "score on the same rows. A verdict compares with the calibrator of smallest log-loss on the same rows by a paired "
    "bootstrap at 95 %: **=** means that the data cannot tell the two apart, ▼ that this one is worse, ▲ that it is "
    "better in this metric."
)
MARKS: dict[Verdict, str] = {"": "", "best": "", "tie": " =", "worse": " ▼", "better": " ▲"}

_DIGITS = {"auc": 4, "gauc": 4, "log_loss": 5, "pcoc": 3, "ece": 4, "frce": 4, "mfrce": 4}
_VERSIONS = ("numpy", "scikit-learn", "torch", "numba", "lightgbm", "mcgrad")


@final
@dataclass(frozen=True)
class Entry:
    """One number of the table as text, with its verdict against the best."""

    text: str
    verdict: Verdict


class Cost(NamedTuple):
    """What a cell took: CPU seconds, a search included, and the largest memory of its process."""

    cpu_seconds: float
    gibibytes: float


@final
@dataclass(frozen=True)
class Section:
    """One data set.

    Attributes:
        data: Its name.
        metrics: Column heads.
        lines: Calibrator, its entries, mean CPU seconds and peak memory in GiB; best first.
        floors: One text per metric.
        skipped: Calibrator and reason.
        periods: Heads of the table of PCOC by period; empty if there is none.
        by_period: Calibrator and its PCOC in each period.
    """

    data: str
    metrics: tuple[str, ...]
    lines: list[tuple[str, list[Entry], Cost]]
    floors: list[str]
    skipped: list[tuple[str, str]]
    periods: tuple[str, ...]
    by_period: list[tuple[str, list[str]]]


def sections(study: Study, rows: Sequence[dict[str, Any]]) -> Iterator[Section]:
    """Yields one section per data set, in the study's order."""
    for data in dict.fromkeys(row["data"] for row in rows):
        yield _section(study, data, [row for row in rows if row["data"] == data])


def _section(study: Study, data: str, rows: list[dict[str, Any]]) -> Section:
    present = {row["metric"] for row in rows}
    measured = tuple(name for name in (*study.metrics, *TRUTH_METRICS) if name in present)
    names = dict.fromkeys(row["calibrator"] for row in rows)

    def order(name: str) -> float:
        found = [row["value"] for row in rows if row["calibrator"] == name and row["metric"] == "log_loss"]
        return float(np.mean(found)) if found else math.inf

    periods = tuple(dict.fromkeys(row["metric"] for row in rows if row["metric"].startswith(PERIOD_METRIC)))
    lines, skipped, by_period = [], [], []
    for name in sorted(names, key=order):
        here = [row for row in rows if row["calibrator"] == name]
        if all(row["status"] != "ok" for row in here):
            skipped.append((name, str(here[0]["reason"])))
            continue
        entries = [_entry(metric, [row for row in here if row["metric"] == metric]) for metric in measured]
        done = [row for row in here if row["status"] == "ok"]
        gibibytes = max(row.get("peak_rss_bytes", 0) for row in done) / 2**30
        n_seeds = len({row["seed"] for row in done})
        title = name if n_seeds == len(study.seeds) else f"{name} ({n_seeds} of {len(study.seeds)} seeds)"
        lines.append((title, entries, Cost(float(np.mean([row["cpu_seconds"] for row in done])), gibibytes)))
        by_period.append((title, [f"{_mean_of(done, metric):.2f}" for metric in periods]))
    floors = [_floor(metric, [row for row in rows if row["metric"] == metric]) for metric in measured]
    heads = tuple(metric.removeprefix(PERIOD_METRIC) for metric in periods)
    return Section(data, measured, lines, floors, skipped, heads, by_period if heads else [])


def _mean_of(rows: list[dict[str, Any]], metric: str) -> float:
    found = [row["value"] for row in rows if row["metric"] == metric]
    return float(np.mean(found)) if found else math.nan


def _entry(metric: str, rows: list[dict[str, Any]]) -> Entry:
    values = [row["value"] for row in rows]
    if not values:
        return Entry("", "")
    digits = _DIGITS.get(metric, 5)
    text = f"{np.mean(values):.{digits}f}"
    if len(values) > 1 and np.std(values) > 0.5 * 10.0**-digits:
        text += f" ± {np.std(values):.{digits}f}"
    return Entry(text, _verdict(rows))


def _verdict(rows: list[dict[str, Any]]) -> Verdict:
    """Better or worse only if every seed says so."""
    if any(row.get("is_best") for row in rows):
        return "best"
    verdicts = {row["verdict_to_best"] for row in rows if row.get("verdict_to_best")}
    if not verdicts:
        return ""
    if verdicts == {"worse"}:
        return "worse"
    return "better" if verdicts == {"better"} else "tie"


def _floor(metric: str, rows: list[dict[str, Any]]) -> str:
    if metric in ("auc", "gauc", "log_loss", *TRUTH_METRICS):
        return ""
    best = [row["floor"] for row in rows if row.get("is_best") and np.isfinite(row.get("floor", np.nan))]
    return f"{np.mean(best):.{_DIGITS.get(metric, 5)}f}" if best else ""


def versions() -> str:
    """Returns the versions that results depend on, as text."""
    found = [f"monocal {__version__}", f"python {platform.python_version()}"]
    for name in _VERSIONS:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)
