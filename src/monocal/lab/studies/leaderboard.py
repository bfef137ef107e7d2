"""The leaderboard: per data set one table, best log-loss first, a tie called a tie; as Markdown and as Parquet."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, NamedTuple, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from monocal.core import __version__
from monocal.core.files import atomic_file
from monocal.lab.studies.evaluator import PERIOD_METRIC, TRUTH_METRICS
from monocal.lab.studies.study import Study

METRICS = ("auc", "gauc", "ece", "frce", "mfrce")

PUBLISHED: dict[str, dict[str, tuple[float, ...]]] = {
    "avazu": {
        "Uncalib": (0.7413, 0.6544, 0.0413, 0.4207, 0.3484),
        "HistBin": (0.7309, 0.6368, 0.0090, 0.2701, 0.2035),
        "IsoReg": (0.7413, 0.6544, 0.0088, 0.2313, 0.1655),
        "SIR": (0.7413, 0.6544, 0.0083, 0.2147, 0.1478),
        "Platt": (0.7413, 0.6544, 0.0109, 0.2294, 0.1606),
        "Gauss": (0.7413, 0.6544, 0.0095, 0.2346, 0.1640),
        "FAC": (0.7515, 0.6649, 0.0042, 0.1473, 0.0974),
        "SBCR": (0.7516, 0.6651, 0.0051, 0.1416, 0.0994),
        "DESC": (0.7514, 0.6637, 0.0074, 0.1549, 0.1086),
        "UMC": (0.7521, 0.6654, 0.0033, 0.1172, 0.0837),
    },
    "aliccp": {
        "Uncalib": (0.6348, 0.5782, 0.0202, 1.4824, 0.7291),
        "HistBin": (0.5239, 0.5068, 0.0076, 1.2112, 0.3909),
        "IsoReg": (0.6348, 0.5782, 0.0078, 1.0168, 0.3555),
        "SIR": (0.6348, 0.5782, 0.0080, 1.0751, 0.3721),
        "Platt": (0.6348, 0.5782, 0.0078, 1.0179, 0.3560),
        "Gauss": (0.6348, 0.5782, 0.0078, 1.0180, 0.3561),
        "FAC": (0.6358, 0.5791, 0.0065, 0.9758, 0.3186),
        "SBCR": (0.6362, 0.5797, 0.0063, 0.9536, 0.3096),
        "DESC": (0.6364, 0.5802, 0.0067, 0.9697, 0.3200),
        "UMC": (0.6367, 0.5801, 0.0058, 0.9422, 0.2951),
    },
}
"""Source to method to (AUC, GAUC, ECE, FRCE, MFRCE), from the tables of the paper (doi 10.1145/3726302.3730105)."""

ABLATION: dict[str, tuple[float, ...]] = {
    "UMC without rescaling": (0.7508, 0.6630, 0.0078, 0.1558, 0.1118),
    "UMC without features": (0.7413, 0.6544, 0.0080, 0.2119, 0.1465),
    "UMC without UMNN": (0.7413, 0.6544, 0.0095, 0.2482, 0.1792),
    "UMC without average": (0.7508, 0.6626, 0.0084, 0.1613, 0.1248),
    "UMC without SCLoss": (0.7519, 0.6651, 0.0072, 0.1672, 0.1154),
    "UMC with MSE": (0.7521, 0.6649, 0.0061, 0.1512, 0.0982),
}
"""The paper's ablation on Avazu; FAC+, SBCR+, DESC+ and the curves of N and tau are figures without numbers."""

PUBLISHED["avazu"] |= ABLATION

DIFFERENCES = (
    "Protocol differences: the paper's script has no held-out rows for choosing the epoch and prints test metrics "
    "after each one, ours never opens test labels before the evaluator does; its vocabulary covers the whole file, "
    "ours the training part unless asked otherwise; its numbers are single runs without intervals."
)


def published_section(source: str) -> list[str]:
    """Returns Markdown lines with the paper's numbers for a source; none if it has no numbers there.

    Example:
        >>> published_section("avazu")[4]
        '| Uncalib | 0.7413 | 0.6544 | 0.0413 | 0.4207 | 0.3484 |'
        >>> published_section("criteo")
        []
    """
    if source not in PUBLISHED:
        return []
    rows = [[method, *(f"{number:.4f}" for number in numbers)] for method, numbers in PUBLISHED[source].items()]
    table = markdown_table(["method", *METRICS], rows)
    return ["Published by the paper on this data set:", "", *table, DIFFERENCES, ""]


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Returns the lines of a table and an empty one.

    Example:
        >>> markdown_table(["a", "b"], [["1", "2"]])
        ['| a | b |', '| --- | --- |', '| 1 | 2 |', '']
    """
    return [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads), *(f"| {' | '.join(row)} |" for row in rows), ""]


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


def write_results(
    study: Study, rows: list[dict[str, Any]], folder: Path, missing: Mapping[str, str] | None = None
) -> Path:
    """Writes `results.parquet` and `leaderboard.md`; returns the Markdown's path."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = pa.table({name: [row.get(name) for row in rows] for name in columns})
    with atomic_file(folder / "results.parquet") as temporary:
        pq.write_table(table, temporary)
    path = folder / "leaderboard.md"
    with atomic_file(path) as temporary:
        temporary.write_text(markdown(study, rows, missing), encoding="utf-8")
    return path


def markdown(study: Study, rows: Sequence[dict[str, Any]], missing: Mapping[str, str] | None = None) -> str:
    """Returns the leaderboard as Markdown."""
    parts = [
        f"# Study `{study.name}`",
        "",
        study.question,
        "",
        f"Seeds {', '.join(map(str, study.seeds))}. {EXPLANATION}",
        "",
    ]
    for section in sections(study, rows):
        parts += _markdown_section(section)
        parts += _size_line(rows, section.data)
        parts += [line for spec in study.data if spec.name == section.data for line in published_section(spec.source)]
    for name, reason in (missing or {}).items():
        parts += [f"## {name}", "", f"Skipped: {reason}", ""]
    return "\n".join([*parts, f"Versions: {versions()}.", f"Command: `monocal lab bench {study.name}`.", ""])


def _size_line(rows: Sequence[dict[str, Any]], data: str) -> list[str]:
    """Says how large a data set is, in rows, fields and positives."""
    row = next(row for row in rows if row["data"] == data)
    return [
        f"{row['n_calibration']:,} calibration rows, {row['rate']:.2%} positive, with {row['n_fields']} fields; "
        f"{row['n_test']:,} test rows.",
        "",
    ]


def _markdown_section(section: Section) -> list[str]:
    rows = []
    for name, entries, cost in section.lines:
        texts = [
            f"**{entry.text}**"
            if entry.verdict == "best" and metric == "log_loss"
            else entry.text + MARKS[entry.verdict]
            for metric, entry in zip(section.metrics, entries, strict=True)
        ]
        rows.append([name, *texts, f"{cost.cpu_seconds:.1f}", f"{cost.gibibytes:.1f}"])
    rows.append(["*floor*", *section.floors, "", ""])
    lines = [f"## {section.data}", "", *markdown_table(["calibrator", *section.metrics, "CPU s", "GiB"], rows)]
    skipped = [f"- {name}: skipped, {reason}" for name, reason in section.skipped]
    lines += [*skipped, ""] if skipped else []
    if section.periods:
        by_period = [[name, *values] for name, values in section.by_period]
        lines += markdown_table(["PCOC", *section.periods], by_period)
    return lines
