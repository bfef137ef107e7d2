"""The tables of the study `refresh`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.stats import t as student

from monocal.core.spaces import Floats

_HEAD = ("log-loss", "minus {}", "mean of PCOC − 1, absolute", "minus {}")


@final
@dataclass(frozen=True, eq=False)
class WalkedWay:
    """One way of keeping one method up to date, through one log.

    Attributes:
        name: Method and way.
        losses: Mean log-loss of every step, with labels in time and with labels that come a step late, `(2, steps)`.
        off: Distance of PCOC from 1, likewise.
        cpu_seconds: Of one update.
    """

    name: str
    losses: Floats
    off: Floats
    cpu_seconds: float


def refresh_table(ways: Sequence[WalkedWay], reference: str, truth: Floats | None) -> list[str]:
    """Returns the lines of one log's table; the reference is a way by name.

    Intervals are Student's over steps, because rows of one step share its shocks.
    """
    ours = next(way for way in ways if way.name == reference)
    head = [text.format(reference) for text in _HEAD]
    lines = [f"| way | {' | '.join(head)} | labels a step late: {' | '.join(head)} | CPU s per update |"]
    lines.append("|" + " --- |" * 10)
    for way in ways:
        cells = []
        for late in (0, 1):
            for values, base, digits in ((way.losses, ours.losses, 5), (way.off, ours.off, 3)):
                mean, half = paired(values[late] - base[late])
                cells += [f"{values[late].mean():.{digits}f}", f"{mean:+.{digits}f} ± {half:.{digits}f}"]
        lines.append(f"| {way.name} | {' | '.join(cells)} | {way.cpu_seconds:.2f} |")
    if truth is not None:
        lines.append(f"| the truth | {truth.mean():.5f} |" + " |" * 8)
    return lines


def paired(differences: Floats) -> tuple[float, float]:
    """Returns the mean of differences and half of its 95 % interval.

    Example:
        >>> mean, half = paired(np.array([1.0, 2.0, 3.0]))
        >>> mean, round(half, 2)
        (2.0, 2.48)
    """
    n = differences.size
    half = student.ppf(0.975, n - 1) * differences.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
    return float(differences.mean()), float(half)


def refresh_markdown(name: str, question: str, tables: Mapping[str, Sequence[str]], missing: Mapping[str, str]) -> str:
    """Returns the study's tables as Markdown."""
    lines = [f"# Study `{name}`", "", question, ""]
    for log, table in tables.items():
        lines += [f"## {log}", "", *table, ""]
    lines += ["Differences with 95 % intervals over steps (Student): rows of one step share its shocks.", ""]
    lines += [f"{name}: not run ({reason})." for name, reason in missing.items()]
    return "\n".join(lines) + "\n"
