"""Calibration of what was selected: the top of each list, or the winners of auctions.

Selecting the highest of many noisy forecasts selects their positive errors with them, so that a forecast that is right
on average predicts too much exactly where it is acted upon.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.core.errors import InvalidInput
from monocal.core.spaces import Floats
from monocal.judging.evaluate import evaluate
from monocal.judging.field_table import FieldTable, field_table
from monocal.metrics import Interval

_DECILES = 10


@final
@dataclass(frozen=True, eq=False)
class Selection:
    """One forecast on all rows and on the selected ones.

    Attributes:
        n_rows: All rows.
        n_selected: Selected rows.
        pcoc: Predicted over observed positives on all rows.
        pcoc_interval: Its interval.
        selected_pcoc: The same on the selected rows.
        selected_interval: Its interval.
        by_rank: PCOC by place in the list; None if rows were not selected by rank.
        by_decile: PCOC of the selected rows by tenth of the forecast, 1 = lowest.
    """

    n_rows: int
    n_selected: int
    pcoc: float
    pcoc_interval: Interval
    selected_pcoc: float
    selected_interval: Interval
    by_rank: FieldTable | None
    by_decile: FieldTable

    @property
    def optimism(self) -> float:
        """How many times more the forecast predicts on selected rows than on all, relative to what happens."""
        return self.selected_pcoc / self.pcoc

    def as_dict(self) -> dict[str, Any]:
        return {
            "n_rows": self.n_rows,
            "n_selected": self.n_selected,
            "pcoc": self.pcoc,
            "pcoc_interval": list(self.pcoc_interval),
            "selected_pcoc": self.selected_pcoc,
            "selected_interval": list(self.selected_interval),
            "optimism": self.optimism,
            "by_rank": None if self.by_rank is None else self.by_rank.as_dict(),
            "by_decile": self.by_decile.as_dict(),
        }


def ranks_within(scores: ArrayLike, groups: NDArray[Any]) -> NDArray[np.int64]:
    """Returns each row's place in its group: 1 for the highest score, ties in row order.

    Example:
        >>> ranks_within([0.2, 0.9, 0.9, 0.4], np.array([7, 7, 7, 8])).tolist()
        [3, 1, 2, 1]
    """
    column = np.asarray(scores, dtype=np.float64)
    order = np.lexsort((-column, groups))
    starts = np.flatnonzero(np.r_[True, groups[order][1:] != groups[order][:-1]])
    place = np.arange(len(column)) - np.repeat(starts, np.diff(np.r_[starts, len(column)]))
    ranks = np.empty(len(column), dtype=np.int64)
    ranks[order] = place + 1
    return ranks


def selection(
    labels: ArrayLike,
    probabilities: ArrayLike,
    chosen: NDArray[np.bool_],
    *,
    ranks: NDArray[np.int64] | None = None,
    weights: ArrayLike | None = None,
    groups: NDArray[Any] | None = None,
    n_bootstrap: int = 200,
    seed: int = 0,
) -> Selection:
    """Compares a forecast's calibration on selected rows with its calibration on all.

    Arguments:
        labels: 0 or 1 per row.
        probabilities: The forecast.
        chosen: Which rows were selected.
        ranks: Each row's place, for the table by rank.
        weights: How often each row counts.
        groups: Users or queries, which intervals resample.
        n_bootstrap: Replicates behind an interval.
        seed: Seed of resampling.

    Example:
        Ten candidates per query with the same true rate, forecast with symmetric errors: on average right, at the top
        far too high.

        >>> rng = np.random.default_rng(0)
        >>> queries = np.repeat(np.arange(2000), 10)
        >>> p = 0.1 * rng.uniform(0.5, 1.5, 20_000)
        >>> ranks = ranks_within(p, queries)
        >>> found = selection(rng.random(20_000) < 0.1, p, ranks == 1, ranks=ranks, groups=queries)
        >>> round(found.pcoc, 1), round(found.selected_pcoc, 1)
        (1.0, 1.4)
    """
    y, p = np.asarray(labels), np.asarray(probabilities, dtype=np.float64)
    rows = np.flatnonzero(chosen)
    if not rows.size:
        raise InvalidInput.of("selection", "no selected row", "at least one", "check the column or raise top_k")
    w = None if weights is None else np.asarray(weights)

    def part(at: Any) -> dict[str, Any]:
        return {"weights": None if w is None else w[at], "groups": None if groups is None else groups[at]}

    def pcoc(at: Any) -> tuple[float, Interval]:
        report = evaluate(y[at], p[at], **part(at), metrics=["pcoc"], n_bootstrap=n_bootstrap, seed=seed)
        return report.value("pcoc"), report.interval("pcoc")

    def table(values: NDArray[np.int64], name: str) -> FieldTable:
        return field_table(y[rows], p[rows], values, name=name, **part(rows))

    everywhere, selected = pcoc(slice(None)), pcoc(rows)
    return Selection(
        len(y),
        len(rows),
        *everywhere,
        *selected,
        by_rank=None if ranks is None else table(ranks[rows], "rank"),
        by_decile=table(_tenths(p[rows]), "decile"),
    )


def _tenths(p: Floats) -> NDArray[np.int64]:
    edges = np.unique(np.quantile(p, np.linspace(0.0, 1.0, _DECILES + 1)[1:-1]))
    tenths: NDArray[np.int64] = np.searchsorted(edges, p, side="right") + 1
    return tenths
