"""Evaluations, comparisons, field tables and watches as tables for people."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING

from monocal.cli.exits import to_message
from monocal.cli.output import folded, print_lines, print_table, remark
from monocal.core.numbers import percent, ratio, shorten, signed_percent, significant, span

if TYPE_CHECKING:
    from monocal.evaluation.compare import MethodComparison
    from monocal.evaluation.fields import FieldTable
    from monocal.evaluation.result import Evaluation
    from monocal.evaluation.verdict import Verdict
    from monocal.monitoring.watch import Watch

_SHOWN_VALUES = 20
_SHOWN_ALARMS = 20
_SHOWN_DAYS = 14


def print_evaluation(title: str, found: Evaluation) -> None:
    """Shows metrics before and after with intervals, floors and changes, checks that failed, and errors by value."""
    from monocal.evaluation.verdict import failing, quality_checks

    found.compute_intervals()
    found.compute_floors()
    change = found.change
    if change is not None:
        change.first.compute_intervals(change.names)
    head = ["metric", *(["value"] if found.before is None else ["score", "calibrated"])]
    head += [f"{found.confidence:.0%} interval", "floor"] if found.forecast is not None else []
    head += ["calibrated is"] if change is not None else []
    rows, notes = [], [f"{name}: {found.reason(name)}" for name in found.names if found.reason(name)]
    for name in found.names:
        cells = [name, *(significant(stage.value(name), 4) for stage in found.stages.values())]
        if found.forecast is not None:
            cells += [span(*found.interval(name)), significant(found.floor(name))]
        if change is not None:
            cells.append("–" if found.reason(name) else change.describe(name))
        rows.append(cells)
    if found.forecast is None:
        notes += _sketch_notes(found)
    if found.forecast is not None:
        notes.append("floor: what a perfect forecast would have on so many rows.")
    if change is not None:
        notes.append(change.too_few or f"tie: within noise, or a change below {percent(change.margin)}.")
    print_table(f"{title}, {found.n_rows:,} rows", head, rows, notes)
    failed = failing(quality_checks(found))
    print_lines(
        folded(f"Not fit for use: {'; '.join(check.text for check in failed)}." if failed else "Checks passed.")
    )
    for field in found.by:
        print_field(field, {stage: part.by[field] for stage, part in found.stages.items()})


def _sketch_notes(found: Evaluation) -> list[str]:
    """Says how far numbers of a cluster may be off."""
    notes = []
    for name in found.names:
        bound = found.details(name).get("error_bound")
        if bound is not None:
            off = f"at most {significant(bound)} off" if bound < inf else "how far off is not known"
            notes.append(f"{name}: from a sketch, {off}")
    return notes


def print_field(name: str, tables: Mapping[str, FieldTable]) -> None:
    """Shows the values of a field, those whose bias is more than noise first, then by traffic."""
    import numpy as np

    last = tables.get("after", tables["before"])
    first = tables["before"] if "after" in tables else None
    earlier = {} if first is None else dict(zip(first.values, first["pcoc"].tolist(), strict=True))
    order = np.lexsort((-last["n_rows"], ~last["flagged"]))[:_SHOWN_VALUES]
    values = last.values
    rows = []
    for row in order.tolist():
        count, observed, _, pcoc, interval = _cells(last, row)
        cells = [shorten(str(values[row]), 20), count, observed]
        if first is not None:
            cells.append(ratio(earlier.get(values[row], float("nan"))))
        rows.append([*cells, pcoc, interval, "off" if last["flagged"][row] else ""])
    head = [name, "rows", "observed", *(["score PCOC"] if first is not None else []), "PCOC", "interval", ""]
    flagged = int(last["flagged"].sum())
    notes = [f"off: outside the noise, {flagged:,} of {len(last):,} values; {len(order):,} shown."]
    print_table(f"By {name}", head, rows, notes)


def print_comparison(found: MethodComparison) -> None:
    """Shows methods from best to worst."""
    columns, tied = found.to_arrow().to_pydict(), found.tied_with_best
    numbers = [name for name in columns if name == found.metric or name.removesuffix("_floor") in _TITLES]
    # the first one sorts
    head = ["floor" if name.endswith("_floor") else _TITLES.get(name, name) for name in numbers]
    rows = []
    for at, result in enumerate(found.results):
        change = None if result.evaluation is None else result.evaluation.change
        cells = [_short(columns[name][at], name) for name in numbers]
        cells.insert(1, signed_percent(change.size(found.metric), 2) if change else "–")
        method = f"{result.method} ≈" if result.method in tied else result.method
        rows.append([method, *cells, "–" if result.evaluation is None else f"{result.cpu_seconds:.1f}"])
    notes = [
        f"change: of {head[0]} against the score as it is. floor: of a perfect forecast.",
        *([f"≈: a tie with {found.best.method} on these rows, or below {percent(found.margin)}."] if tied else []),
        *([found.too_few] if found.too_few else []),
        *(f"{result.method}: {to_message(result.problem)}" for result in found.results if result.problem),
        *(f"{result.method}: {result.remark}" for result in found.results if result.remark),
        *_carry_over(found),
    ]
    print_table(
        "Methods on the newest rows", ["method", head[0], "change", *head[1:], "CPU s"], rows, notes, tight=True
    )


_TITLES = {"log_loss": "log-loss", "pcoc": "PCOC", "ece": "ECE", "mfrce": "MFRCE", "auc": "AUC"}
"""Metrics of a comparison, with their headings."""
_PLACES = {"log_loss": 5, "pcoc": 3, "mfrce": 3, "mfrce_floor": 3}


def _short(number: float | None, name: str) -> str:
    """A metric or its floor with as many decimals as fit a table of 80 columns."""
    if number is None:
        return "–"
    return f"{number:.{_PLACES.get(name, 4)}f}" if abs(number) < 10.0 else significant(number)


def print_verdict(found: Verdict) -> None:
    """Shows every check and the decision."""
    rows = [
        [check.name, "–" if check.value is None else significant(check.value), check.limit, check.result]
        for check in found.checks
    ]
    print_table("Checks", ["check", "value", "limit", "result"], rows)
    print_lines(folded(to_message(str(found))))


def _carry_over(found: MethodComparison) -> list[str]:
    """Returns what of each method's effects held on later rows of its fit, as lines."""
    lines = [f"{result.method}: {line}" for result in found.results for line in result.retained.summary()]
    return ["Carried forward, as shares of what was learned:", *lines] if lines else []


def _cells(table: FieldTable, row: int) -> list[str]:
    rows, observed, predicted, pcoc, low, high = (
        float(table[name][row])
        for name in ("n_rows", "observed_rate", "mean_prediction", "pcoc", "pcoc_low", "pcoc_high")
    )
    return [f"{rows:,.0f}", significant(observed, 4), significant(predicted, 4), ratio(pcoc), span(low, high, 3)]


def print_watch(found: Watch) -> None:
    """Shows the newest days and the alarms of a watch, and what its promise is."""
    days = found.days[-_SHOWN_DAYS:]
    for task in days[-1].expected:
        rows = []
        for day in days:
            seen, expected, drift = day.calibration.get(task), day.expected[task], day.drift[task]
            cells = [day.period, f"{day.n_rows:,}"]
            if seen is None:
                cells += ["no labels", "–", significant(expected.log_loss), significant(expected.auc)]
            else:
                ends = f"{significant(seen.pcoc)} ±{significant((seen.pcoc_high - seen.pcoc_low) / 2.0, 1)}"
                cells += [
                    ends,
                    significant(seen.log_loss),
                    significant(expected.log_loss),
                    significant(expected.auc),
                ]
            unseen = max(day.unseen.values(), default=0.0)
            rows.append([*cells, f"{unseen:.1%}", f"{drift.value:.2f}"])
        head = ["period", "rows", "PCOC", "loss", "exp.", "AUC", "unseen", "drift"]
        print_table(task, head, rows)
    if found.alarms:
        shown = [
            [
                alarm.where,
                alarm.task,
                alarm.chart,
                alarm.since,
                f"{alarm.calibration.n_rows:,}",
                significant(alarm.calibration.pcoc),
            ]
            for alarm in found.alarms[:_SHOWN_ALARMS]
        ]
        more = f" ({_SHOWN_ALARMS} of {len(found.alarms):,})" if len(found.alarms) > _SHOWN_ALARMS else ""
        print_table(f"Alarms{more}", ["where", "task", "chart", "since", "rows", "PCOC"], shown, left=4)
    print_lines(folded("\n".join(found.beyond))) if found.beyond else None
    remark(
        f"{len(found.alarms):,} of {found.n_charts:,} charts in alarm after {found.n_periods:,} periods with labels; "
        f"chance of any false alarm at most {found.false_alarm_rate:.0%} while the forecast is within "
        f"{found.tolerance:.0%} of the truth. Expected loss (exp.) and AUC assume that it is calibrated."
    )
