"""What a watch has counted so far: sums of every period, the wealth of every bet, and both as a folder on disk."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monocal.core.errors import ArtefactError, InvalidInput
from monocal.core.folder import FolderFormat
from monocal.core.format import read_tensors, write_tensors
from monocal.core.scores import Floats, log_losses, logit
from monocal.monitoring.evalues import (
    N_BETS,
    begun,
    log_growth,
    next_wealth,
    scope_share,
    start_log_stake,
    total_log_wealth,
    value_shares,
)
from monocal.tables.categories import EncodedColumn, IdColumn
from monocal.tables.table import Table

TOTALS = ("n_rows", "observed", "predicted", "squares", "loss", "expected_loss")
"""What is added up per slice: rows, positives, their forecast, its squares, the log-loss and its expectation."""


@final
@dataclass(frozen=True, eq=False)
class SliceSums:
    """Sums of one period per slice.

    Attributes:
        values: The slices' values.
        totals: `(cells, 6)` in the order of `TOTALS`.
        growth: Chart to the log of its bets' factors, `(cells, bets)`.
    """

    values: list[str]
    totals: Floats
    growth: dict[str, Floats]


MOST_PERIODS = 5_000


@final
@dataclass(frozen=True, eq=False)
class PeriodSums:
    """One period.

    Attributes:
        number: Periods since the origin of time.
        rows: Which rows of the table, in time order.
        cells: Task to the sums of all rows (under "") and of every field's values; a task without labels is left out.
    """

    number: int
    rows: slice
    cells: dict[str, dict[str, SliceSums]]


def sums_by_period(
    rows: Table, probabilities: Mapping[str, Floats], *, by: tuple[str, ...], length: int, tolerance: float
) -> Iterator[PeriodSums]:
    """Adds up rows, which are in time order, period after period.

    Arguments:
        rows: The rows.
        probabilities: Task to the forecast that its labels are held against.
        by: Fields or slices whose values are looked at.
        length: The length of a period in the unit of the time column.
        tolerance: See `monocal.monitoring.evalues`.
    """
    if rows.times is None:
        raise InvalidInput.of("time", None, "the column that says when a row happened", 'name it, time="timestamp"')
    numbers = rows.times // length
    starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
    if starts.size > MOST_PERIODS:
        raise InvalidInput.of(
            "every",
            f"{length}, which makes {starts.size:,} periods",
            f"at most {MOST_PERIODS:,} periods in one table",
            'lengthen the period, every="1d", or 86400 if the time column counts seconds',
        )
    texts = {name: _texts(rows.fields[name]) for name in by}
    for start, stop in zip(starts, [*starts[1:], rows.n_rows], strict=True):
        part = slice(int(start), int(stop))
        cells = {}
        for task, forecast in probabilities.items():
            labels = rows.labels[task][part]
            known = np.flatnonzero(labels >= 0)
            if known.size:
                columns = {name: rows.fields[name].ids[part][known] for name in by}
                cells[task] = _cells(forecast[part][known], labels[known].astype(np.float64), columns, texts, tolerance)
        yield PeriodSums(int(numbers[start]), part, cells)


def _cells(
    p: Floats, labels: Floats, columns: Mapping[str, IdColumn], texts: Mapping[str, list[str]], tolerance: float
) -> dict[str, SliceSums]:
    growth = log_growth(p, labels, tolerance)
    logits = logit(p)
    # the same clipped logits in both, so that their difference is (p − y) logit p
    parts = [np.ones_like(p), labels, p, p * p, log_losses(logits, labels), log_losses(logits, p)]
    found = {
        "": SliceSums([""], _by_cell(parts, None, 1), {name: _by_cell(bet, None, 1) for name, bet in growth.items()})
    }
    for name, ids in columns.items():
        present, places = np.unique(ids, return_inverse=True)
        n = present.size
        bets = {chart: _by_cell(bet, places, n) for chart, bet in growth.items()}
        found[name] = SliceSums([texts[name][at] for at in present], _by_cell(parts, places, n), bets)
    return found


def _by_cell(amounts: list[Floats] | Floats, places: IdColumn | None, n_cells: int) -> Floats:
    if places is None:
        return np.array([[amount.sum() for amount in amounts]])
    return np.stack([np.bincount(places, weights=amount, minlength=n_cells) for amount in amounts], axis=1)


def _texts(column: EncodedColumn) -> list[str]:
    texts: list[str] = pc.fill_null(column.known_values.cast(pa.string()), "(missing)").to_pylist()
    return texts


@final
@dataclass(eq=False)
class Chart:
    """The bets of one chart on every slice of one scope.

    Attributes:
        wealth: Log wealth, `(cells, bets)`.
        since: The period from which on the evidence counts most.
        totals: Sums of the rows since then.
    """

    wealth: Floats
    since: NDArray[np.int64]
    totals: Floats


@final
@dataclass(eq=False)
class Scope:
    """All rows of a task, or the values of one field.

    Attributes:
        share: Its share of the false-alarm rate, for each chart.
        n_first: Values in the first period.
        places: Value to its row in the arrays, in the order of first appearance.
        charts: Chart to its bets.
    """

    share: float
    n_first: int = 0
    places: dict[str, int] = field(default_factory=dict)
    charts: dict[str, Chart] = field(default_factory=dict)

    @classmethod
    def new(cls, share: float) -> Self:
        charts = {
            chart: Chart(np.zeros((0, n)), np.zeros(0, dtype=np.int64), np.zeros((0, len(TOTALS))))
            for chart, n in N_BETS.items()
        }
        return cls(share, charts=charts)

    def log_limits(self, false_alarm_rate: float) -> Floats:
        """Returns the log wealth at which each slice raises an alarm."""
        shares = value_shares(len(self.places), self.n_first) if self.places.keys() != {""} else np.ones(1)
        return -np.log(false_alarm_rate * self.share * shares)

    def add(self, cells: SliceSums, period: int, number: int, false_alarm_rate: float) -> None:
        """Adds period t, which has this number."""
        self._append_values(cells.values, period - 1, number)
        at = np.array([self.places[value] for value in cells.values])
        limits = self.log_limits(false_alarm_rate)
        for name, chart in self.charts.items():
            fresh = chart.wealth.max(axis=1) < start_log_stake(period)
            chart.since[fresh] = number
            chart.totals[fresh] = 0.0
            chart.totals[at] += cells.totals
            growth = np.zeros_like(chart.wealth)
            growth[at] = cells.growth[name]
            # one bet alone at its bound makes e times the limit
            chart.wealth = next_wealth(chart.wealth, growth, period, limits + np.log(N_BETS[name]) + 1.0)

    def _append_values(self, values: list[str], n_periods: int, number: int) -> None:
        new = [value for value in values if value not in self.places]
        if not self.places:
            self.n_first = len(new)
        for value in new:
            self.places[value] = len(self.places)
        for chart in self.charts.values():
            fresh = begun(len(new), chart.wealth.shape[1], n_periods)
            chart.wealth = np.concatenate([chart.wealth, fresh])
            chart.since = np.append(chart.since, np.full(len(new), number))
            chart.totals = np.concatenate([chart.totals, np.zeros((len(new), len(TOTALS)))])


@final
@dataclass(eq=False)
class Ledger:
    """Everything that is kept between two days.

    Attributes:
        settings: What the watch was begun with; it cannot change on the way.
        periods: Numbers of the periods that were read, in order.
        scopes: Task to "" (all rows) or field to its slices.
    """

    settings: dict[str, Any]
    periods: list[int]
    scopes: dict[str, dict[str, Scope]]

    @classmethod
    def begin(cls, settings: Mapping[str, Any]) -> Self:
        """Returns an empty ledger.

        Arguments:
            settings: `tasks`, `by`, `false_alarm_rate`, and whatever else must stay the same.
        """
        tasks, by = settings["tasks"], settings["by"]
        scopes = {
            task: {name: Scope.new(scope_share(len(tasks), len(by), is_overall=not name)) for name in ("", *by)}
            for task in tasks
        }
        return cls(dict(settings), [], scopes)

    def add(self, number: int, cells: Mapping[str, Mapping[str, SliceSums]]) -> None:
        """Adds one period, which is later than all before."""
        self.periods.append(number)
        nothing = SliceSums([], np.zeros((0, len(TOTALS))), {chart: np.zeros((0, n)) for chart, n in N_BETS.items()})
        for task, scopes in self.scopes.items():
            for name, scope in scopes.items():
                found = cells.get(task, {}).get(name, nothing)
                scope.add(found, len(self.periods), number, self.settings["false_alarm_rate"])

    def log_wealth(self, task: str, scope: str, chart: str) -> Floats:
        """Returns the log wealth of every slice of one chart."""
        return total_log_wealth(self.scopes[task][scope].charts[chart].wealth, len(self.periods))


STATE_FOLDER = FolderFormat(
    "monocal watch state",
    1,
    "watch.json",
    called="the state of a watch",
    remedy="restore this folder from a copy, or begin a new watch with another state=",
    known=("wealth.safetensors", "values.json"),
)
"""How the state of a watch lies on disk."""

_PARTS = ("wealth", "since", "totals")


def write_state(ledger: Ledger, folder: Path) -> None:
    """Replaces the state in one step."""
    arrays: dict[str, NDArray[Any]] = {}
    values: list[list[str]] = []
    entries: list[dict[str, Any]] = []
    for task, scopes in ledger.scopes.items():
        for name, scope in scopes.items():
            for chart, sums in scope.charts.items():
                arrays |= {f"{len(entries)}.{chart}.{part}": getattr(sums, part) for part in _PARTS}
            entries.append({"task": task, "scope": name, "share": scope.share, "n_first": scope.n_first})
            values.append(list(scope.places))
    with STATE_FOLDER.writing(folder) as temporary:
        write_tensors(temporary / "wealth.safetensors", arrays)
        (temporary / "values.json").write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")
        STATE_FOLDER.seal(temporary, {"settings": ledger.settings, "periods": ledger.periods, "scopes": entries})


def read_state(folder: Path) -> Ledger:
    """Reads the state and checks that it is whole."""
    manifest = STATE_FOLDER.read(folder)
    STATE_FOLDER.verify(folder, manifest)
    try:
        arrays = read_tensors(folder / "wealth.safetensors")
        values = json.loads((folder / "values.json").read_text(encoding="utf-8"))
        scopes: dict[str, dict[str, Scope]] = {}
        for at, entry in enumerate(manifest["scopes"]):
            charts = {
                chart: Chart(*(np.array(arrays[f"{at}.{chart}.{part}"]) for part in _PARTS))
                for chart in ("pcoc", "log_loss")
            }
            places = {value: place for place, value in enumerate(values[at])}
            scope = Scope(entry["share"], entry["n_first"], places, charts)
            scopes.setdefault(entry["task"], {})[entry["scope"]] = scope
        return Ledger(manifest["settings"], list(manifest["periods"]), scopes)
    except ArtefactError:
        raise
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise STATE_FOLDER.damaged(folder, error) from error
