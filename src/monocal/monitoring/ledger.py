r"""Evidence against a calibrated forecast that may be looked at every day, and how it is kept from run to run.

The null hypothesis: given everything that is known before a row's label, the probability of a positive lies between
:math:`p/(1+\tau)` and :math:`p(1+\tau)`, where p is the forecast and :math:`\tau` the tolerance. Nothing is said about
the forecasts themselves: scores may drift as they like, and so may the level of labels as long as forecasts follow it.

A bet multiplies its stake by a likelihood ratio, whose mean is at most 1 while the null is true:

.. math:: L = \prod_i \frac{e^{\delta_i y_i}}{1 + q_i (e^{\delta_i} - 1)}, \qquad
          q_i = p_i (1+\tau) \text{ if } \delta_i > 0, \text{ else } p_i / (1+\tau)

The chart "pcoc" bets on odds that are higher or lower by a common factor (:math:`\delta_i = \pm\ln r`); the chart
"log_loss" bets on a log-loss above the one the forecast itself expects (:math:`\delta_i = -s\,\mathrm{logit}\,p_i`,
because the excess of the log-loss over its expectation is :math:`\sum_i (p_i - y_i)\,\mathrm{logit}\,p_i`). Stakes are
spread over several r or s, and over the day on which something may have changed: day t gets :math:`1/(t(t+1))` of the
stake. The wealth of all bets together is a non-negative supermartingale with mean at most 1, so by Ville's inequality
the chance that it *ever* reaches 1/a is at most a, however often one looks and whenever one stops.

One false-alarm rate is spread over tasks, charts and slices: if chart c of slice s may raise a false alarm with
probability :math:`\alpha\gamma_{cs}` and all :math:`\gamma` add up to at most 1, then the probability of any false
alarm anywhere is at most :math:`\alpha`, however the charts depend on each other.

References:
    Ramdas, Grünwald, Vovk and Shafer. Game-theoretic statistics and safe anytime-valid inference. 2023.
    Shin, Ramdas and Rinaldo. E-detectors: a nonparametric framework for sequential change detection. 2024.
"""

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
from monocal.core.folder import FolderFormat, write_arrays
from monocal.core.scores import Floats, log_losses, logit
from monocal.tables.categories import EncodedColumn, IdColumn
from monocal.tables.table import Table

RATIOS = (1.1, 1.25, 1.6, 2.5)
"""Factors on the odds that the chart of PCOC bets on, upwards and downwards."""

SLOPES = (0.05, 0.1, 0.2, 0.4)
"""By how much the chart of log-loss bets that logits are too far from 0."""

N_BETS = {"pcoc": 2 * len(RATIOS), "log_loss": len(SLOPES)}
"""Bets per chart."""

_MOST_TILT = 4.0


def log_growth(probabilities: Floats, labels: Floats, tolerance: float) -> dict[str, Floats]:
    """Returns the logarithm of what every bet of every chart makes of a unit stake on each row: `(bets, n)`.

    Example:
        A forecast of 0.1 that turns out right nine times in ninety: every bet loses.

        >>> labels = np.repeat([1.0, 0.0], [9, 81])
        >>> growth = log_growth(np.full(90, 0.1), labels, 0.0)
        >>> bool(np.all(growth["pcoc"].sum(axis=1) < 0.0)), bool(np.all(growth["log_loss"].sum(axis=1) < 0.0))
        (True, True)
    """
    high, low = np.minimum(probabilities * (1.0 + tolerance), 1.0), probabilities / (1.0 + tolerance)
    steps = [side * np.log(ratio) for ratio in RATIOS for side in (1.0, -1.0)]
    pcoc = [step * labels - np.log1p((high if step > 0.0 else low) * np.expm1(step)) for step in steps]
    logits = logit(probabilities)
    losses = []
    for slope in SLOPES:
        tilt = np.clip(-slope * logits, -_MOST_TILT, _MOST_TILT)
        losses.append(tilt * labels - np.log1p(np.where(tilt > 0.0, high, low) * np.expm1(tilt)))
    return {"pcoc": np.array(pcoc), "log_loss": np.array(losses)}


def begun(n_cells: int, n_bets: int, n_periods: int) -> Floats:
    """Returns the log wealth of bets whose cells had no rows in the first `n_periods` periods: `(cells, bets)`.

    Example:
        >>> np.exp(begun(1, 2, 3)).round(2).tolist()
        [[0.75, 0.75]]
    """
    with np.errstate(divide="ignore"):
        return np.full((n_cells, n_bets), np.log(1.0 - 1.0 / (n_periods + 1.0)))


def next_wealth(log_wealth: Floats, growth: Floats, period: int, most: Floats) -> Floats:
    r"""Returns the log wealth of every bet after one more period.

    .. math:: M_t = \min\Big(\big(M_{t-1} + \tfrac{1}{t(t+1)}\big) L_t,\; \text{most}\Big)

    The bound keeps the mean at most what it was and lets an alarm end soon after its cause.

    Arguments:
        log_wealth: Before, `(cells, bets)`.
        growth: Log of the period's factor, likewise; 0 where a cell had no rows.
        period: The number t of the period, from 1.
        most: The log of the largest wealth per cell.
    """
    grown: Floats = np.logaddexp(log_wealth, start_log_stake(period)) + growth
    return np.minimum(grown, most[:, None])


def start_log_stake(period: int) -> float:
    """Returns the log of the stake on a change in period t."""
    return float(-np.log(period * (period + 1.0)))


def total_log_wealth(log_wealth: Floats, n_periods: int) -> Floats:
    """Returns the log of the mean wealth of a cell's bets, with the stake that is kept for later days: `(cells,)`.

    Example:
        >>> float(np.exp(total_log_wealth(begun(1, 8, 30), 30)[0]).round(12))
        1.0
    """
    together: Floats = np.logaddexp.reduce(log_wealth, axis=1) - np.log(log_wealth.shape[1])
    whole: Floats = np.logaddexp(together, -np.log(n_periods + 1.0))
    return whole


def scope_share(n_tasks: int, n_fields: int, *, is_overall: bool) -> float:
    """Returns the share of one chart of one task: of all rows, or of one field's values together.

    All rows get half of a task's share, the fields the other half in equal parts; without fields all rows get it all.

    Example:
        >>> scope_share(1, 2, is_overall=True), scope_share(1, 2, is_overall=False)
        (0.25, 0.125)
    """
    whole = 1.0 / (n_tasks * len(N_BETS))
    if n_fields == 0:
        return whole
    return whole / 2.0 if is_overall else whole / (2.0 * n_fields)


def value_shares(n_values: int, n_first: int) -> Floats:
    r"""Returns the shares of a field's values in the order of their first appearance.

    The values of the first period share one half; the next :math:`2n` values, which come later, one sixth; the next
    :math:`4n` one twelfth, and so on: however many appear, all shares add up to less than 1.

    Arguments:
        n_values: Values so far.
        n_first: Values in the first period.

    Example:
        >>> value_shares(5, 2).tolist() == [1 / 4, 1 / 4, 1 / 24, 1 / 24, 1 / 24]
        True
    """
    place = np.arange(n_values) / max(n_first, 1) + 1.0
    # generation g holds places from 2**g to 2**(g + 1) first-day sizes
    generation = np.floor(np.log2(place))
    return 1.0 / ((generation + 1.0) * (generation + 2.0) * max(n_first, 1) * 2.0**generation)


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
        tolerance: How far off the forecast may be, see above.
    """
    assert rows.times is not None
    numbers = rows.times // length
    starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
    if starts.size > MOST_PERIODS:
        got, most = f"{length}, which makes {starts.size:,} periods", f"at most {MOST_PERIODS:,} periods in one table"
        hint = 'lengthen the period, every="1d", or 86400 if the time column counts seconds'
        raise InvalidInput.of("every", got, most, hint)
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
        write_arrays(temporary / "wealth.safetensors", arrays)
        (temporary / "values.json").write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")
        STATE_FOLDER.seal(temporary, {"settings": ledger.settings, "periods": ledger.periods, "scopes": entries})


def read_state(folder: Path) -> Ledger:
    """Reads the state and checks that it is whole."""
    from safetensors.numpy import load_file

    manifest = STATE_FOLDER.read(folder)
    STATE_FOLDER.verify(folder, manifest)
    try:
        arrays = load_file(folder / "wealth.safetensors")
        values = json.loads((folder / "values.json").read_text(encoding="utf-8"))
        scopes: dict[str, dict[str, Scope]] = {}
        for at, entry in enumerate(manifest["scopes"]):
            charts = {chart: Chart(*(np.array(arrays[f"{at}.{chart}.{part}"]) for part in _PARTS)) for chart in N_BETS}
            places = {value: place for place, value in enumerate(values[at])}
            scope = Scope(entry["share"], entry["n_first"], places, charts)
            scopes.setdefault(entry["task"], {})[entry["scope"]] = scope
        return Ledger(manifest["settings"], list(manifest["periods"]), scopes)
    except ArtefactError:
        raise
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise STATE_FOLDER.damaged(folder, error) from error
