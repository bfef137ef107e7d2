"""Evaluations, comparisons, field tables and watches as tables for people."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING

from monocal.cli.exits import to_message
from monocal.cli.output import folded, print_lines, print_table, remark
from monocal.core.numbers import percent, ratio, shorten, signed_percent, significant, span

if TYPE_CHECKING:
    from monocal.evaluation.compare_methods import MethodComparison, MethodResult
    from monocal.evaluation.fields import FieldTable
    from monocal.evaluation.result import Evaluation
    from monocal.monitoring.watch import Watch

_SHOWN_VALUES = 20
_SHOWN_ALARMS = 20
_SHOWN_DAYS = 14


def print_evaluation(title: str, found: Evaluation) -> None:
    """Shows metrics before and after, with intervals and noise floors, changes beyond noise, and errors by value."""
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
    metric = found.metric
    rows = [_method_row(result, found) for result in found.results]
    notes = [
        f"Sorted by {metric}.",
        f"vs: change of {metric} on the same rows; tie: within noise, or below {percent(found.margin)}.",
        *([found.too_few] if found.too_few else [_best(found)]),
        *_by_log_loss(found),
        *(f"{result.method}: {to_message(result.problem)}" for result in found.results if result.problem),
        *(f"{result.method}: {result.remark}" for result in found.results if result.remark),
        *_carry_over(found),
    ]
    head = ["method", metric, "vs none", "vs best", *_beside(metric).values(), "fit s"]
    print_table("Methods on held-out rows", head, rows, notes)


def _best(found: MethodComparison) -> str:
    from monocal.evaluation.compare_methods import DEFAULT_METRIC

    tied = found.tied_with_best
    by = "" if found.metric == DEFAULT_METRIC else f" by {found.metric}"
    return f"Best{by}: {found.best.method}" + (
        f"; not significantly different: {', '.join(tied)}." if tied else ", beyond noise."
    )


def _by_log_loss(found: MethodComparison) -> list[str]:
    """Says which method log-loss prefers where something else sorted that a constant forecast can be best by."""
    losses = {
        result.method: result.evaluation.value("log_loss")
        for result in found.results
        if result.evaluation is not None and "log_loss" in result.evaluation.names
    }
    first = min(losses, key=losses.__getitem__, default=found.best.method)
    if first == found.best.method:
        return []
    return [f"By log-loss, which decides what a forecast is worth: {first}."]


def _carry_over(found: MethodComparison) -> list[str]:
    """Returns what of each method's effects held on later rows of its fit, as lines."""
    lines = [f"{result.method}: {line}" for result in found.results for line in result.describe_carry_over()]
    return ["Carried forward, as shares of what was learned:", *lines] if lines else []


def _beside(metric: str) -> dict[str, str]:
    """Metrics that are shown beside the one that sorts, with their titles."""
    titles = {"log_loss": "log-loss", "pcoc": "PCOC", "ece": "ECE", "mfrce": "MFRCE"}
    return {name: title for name, title in titles.items() if name != metric}


def _method_row(result: MethodResult, found: MethodComparison) -> list[str]:
    report, metric = result.evaluation, found.metric
    if report is None:
        return [result.method, *["–"] * (4 + len(_beside(metric)))]
    cells = [result.method, significant(report.value(metric), 4)]
    for change, itself in ((result.against_uncalibrated, ""), (result.against_best, "best")):
        if change is None:
            cells.append(itself)
        else:
            verdict = change.verdict(metric)
            cells.append(verdict if verdict in ("tie", "cannot tell") else signed_percent(change.size(metric)))
    optional = [significant(report.value(name), 4) if name in report.names else "" for name in _beside(metric)]
    return [*cells, *optional, f"{result.fit_seconds:.1f}"]


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
