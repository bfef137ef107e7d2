"""Judgements, field tables and selections as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from monocal.cli.output import interval, number, print_table

if TYPE_CHECKING:
    from monocal.judging.compare_methods import MethodComparison, MethodResult
    from monocal.judging.field_table import FieldTable
    from monocal.judging.judge_rows import TaskEvaluation
    from monocal.judging.judgement import Judgement
    from monocal.judging.selection import Selection
    from monocal.spark.measured import Measured

_SHOWN_VALUES = 20


def print_judgement(title: str, judgement: Judgement) -> None:
    """Shows metrics before and after, with intervals, noise floor, and whether the change is more than noise."""
    last = judgement.last
    last.compute_intervals()
    last.compute_floors()
    change = judgement.change
    if change is not None:
        change.first.compute_intervals(change.names)
    head = ["metric"]
    head += ["uncalibrated", "calibrated"] if judgement.after is not None else ["value"]
    head += [f"{last.confidence:.0%} interval", "floor", "excess"]
    head += ["difference", "calibrated is"] if change is not None else []
    rows, notes = [], []
    for name in last.names:
        cells = [name]
        if judgement.after is not None:
            cells.append(number(judgement.before.value(name)))
        cells += [number(last.value(name)), interval(*last.interval(name)), number(last.floor(name))]
        cells.append(number(last.excess(name)))
        if change is not None:
            cells += [interval(*change.interval(name)), "–" if last.reason(name) else change.verdict(name)]
        rows.append(cells)
        if last.reason(name):
            notes.append(f"{name}: {last.reason(name)}")
    notes.append("floor: what a perfect forecaster would have on these rows; excess: how much worse than that.")
    print_table(f"{title}, {last.n_rows:,} rows", head, rows, notes)


def print_measured(title: str, stages: Mapping[str, Measured]) -> None:
    """Shows metrics that were measured on a cluster, before and after calibration."""
    last = list(stages.values())[-1]
    head = ["metric", *(["uncalibrated", "calibrated"] if len(stages) > 1 else ["value"])]
    rows = [[name, *(number(one.value(name)) for one in stages.values())] for name in last.names]
    notes = [f"{name}: {last.reason(name)}" for name in last.names if last.reason(name)]
    notes += [
        f"{name}: from a sketch, at most {number(last.details(name)['error_bound'])} off"
        for name in last.names
        if "error_bound" in last.details(name)
    ]
    print_table(f"{title}, {last.n_rows:,} rows", head, rows, notes)


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
        cells = [str(values[row]), f"{int(last['n_rows'][row]):,}"]
        cells += [number(float(last["observed_rate"][row])), number(float(last["mean_prediction"][row]))]
        if first is not None:
            cells.append(number(earlier.get(values[row])))
        cells += [number(float(last["pcoc"][row])), interval(last["pcoc_low"][row], last["pcoc_high"][row])]
        cells += [number(float(last["pcoc_shrunk"][row])), "outside its noise" if last["flagged"][row] else ""]
        rows.append(cells)
    head = [name, "rows", "observed", "predicted"]
    head += ["PCOC before", "PCOC"] if first is not None else ["PCOC"]
    head += ["interval", "shrunk", ""]
    flagged = int(last["flagged"].sum())
    notes = [f"{flagged:,} of {len(last):,} values are outside their noise; {len(order):,} shown."]
    print_table(f"By {name}", head, rows, notes)


def print_selection(selections: Mapping[str, Selection]) -> None:
    """Shows calibration of what was selected beside calibration of everything."""
    names = {"before": "uncalibrated", "after": "calibrated"} if "after" in selections else {"before": "score"}
    rows = [
        [
            names[stage],
            f"{one.n_selected:,} of {one.n_rows:,}",
            f"{number(one.pcoc)} {interval(*one.pcoc_interval)}",
            f"{number(one.selected_pcoc)} {interval(*one.selected_interval)}",
            number(one.optimism),
        ]
        for stage, one in selections.items()
    ]
    notes = ["optimism: PCOC of the selected rows over PCOC of all; above 1, selection picks errors upwards."]
    print_table("What was selected", ["forecast", "rows", "PCOC of all", "PCOC of selected", "optimism"], rows, notes)
    last = selections.get("after", selections["before"])
    for title, table in (("rank", last.by_rank), ("decile", last.by_decile)):
        if table is not None:
            _print_in_order(title, table)


def print_task(name: str, found: TaskEvaluation) -> None:
    """Shows everything about one task."""
    print_judgement(name, found.judgement)
    if found.selections:
        print_selection(found.selections)
    for field, tables in found.by.items():
        print_field(field, tables)


def print_comparison(found: MethodComparison) -> None:
    """Shows methods from best to worst."""
    metric = found.metric
    rows = [_method_row(one, found) for one in found.results]
    tied = found.tied_with_best
    notes = [
        f"Sorted by the excess of {metric} over its noise floor. Intervals are paired: both methods on the same rows.",
        f"Best: {found.best.method}"
        + (f"; the data cannot tell {', '.join(tied)} from it." if tied else ", beyond noise."),
        *(f"{one.method}: {one.problem}" for one in found.results if one.problem),
        *(f"{one.method}: {one.remark}" for one in found.results if one.remark),
    ]
    head = ["method", f"{metric} excess", metric, "floor", "against uncalibrated", "", "against best", ""]
    print_table("Methods on held-out rows", [*head, "log-loss", "PCOC", "fit s"], rows, notes)


def _method_row(one: MethodResult, found: MethodComparison) -> list[str]:
    report, metric = one.report, found.metric
    if report is None:
        return [one.method, *["–"] * 10]
    cells = [one.method, number(report.excess(metric)), number(report.value(metric)), number(report.floor(metric))]
    for change, itself in ((one.against_uncalibrated, "is it"), (one.against_best, "best")):
        if change is None:
            cells += ["", itself]
        else:
            cells += [interval(*change.interval(metric)), change.verdict(metric)]
    optional = [number(report.value(name)) if name in report.names else "" for name in ("log_loss", "pcoc")]
    return [*cells, *optional, f"{one.fit_seconds:.1f}"]


def _print_in_order(title: str, table: FieldTable) -> None:
    import numpy as np

    values = np.array(table.values)
    order: Sequence[int] = np.argsort(values).tolist()
    rows = [[str(values[row]), *_cells(table, row)] for row in order]
    print_table(f"By {title}", [title, "rows", "observed", "predicted", "PCOC", "interval"], rows)


def _cells(table: FieldTable, row: int) -> list[str]:
    def at(column: str) -> Any:
        return table[column][row]

    return [
        f"{int(at('n_rows')):,}",
        number(float(at("observed_rate"))),
        number(float(at("mean_prediction"))),
        number(float(at("pcoc"))),
        interval(float(at("pcoc_low")), float(at("pcoc_high"))),
    ]
