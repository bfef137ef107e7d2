"""monocal watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from monocal.cli import arguments
from monocal.cli.engines import TablePlace
from monocal.cli.exits import ALARM
from monocal.cli.options import (
    Debug,
    Json,
    Label,
    LabelTime,
    ModelArgument,
    SamplingRate,
    Since,
    TableArgument,
    Until,
    Window,
)
from monocal.cli.output import print_json, print_lines, print_table, remark
from monocal.cli.prose import folded
from monocal.core.numbers import significant

if TYPE_CHECKING:
    from monocal.monitoring.watch import Watch

EXAMPLES = """
monocal watch model/ day.parquet --time ts --by store_id,placement
monocal watch model/ day.parquet --time ts --state watch/ --false-alarm-rate 0.01 --json
monocal watch model/ log.parquet --time ts --since 2024-05-01 --until 2024-05-02 --max-unseen 0.1
"""

_SHOWN_ALARMS = 20
_SHOWN_DAYS = 14


def watch(
    model: ModelArgument,
    tables: TableArgument,
    time: Annotated[str, typer.Option("--time", metavar="COLUMN", help="When a row happened.")],
    *,
    by: Annotated[
        list[str] | None,
        typer.Option("--by", metavar="COLUMNS", help="Every value of these columns gets charts of its own."),
    ] = None,
    label: Label = None,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="FOLDER",
            help="Where the watch is kept from run to run; by default beside the model, with .watch added.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option("--every", metavar="LENGTH", help="The length of a period: 1d, 12h; a number for numbers."),
    ] = None,
    false_alarm_rate: Annotated[
        float, typer.Option("--false-alarm-rate", help="The chance of any false alarm, ever, in any chart.")
    ] = 0.05,
    tolerance: Annotated[
        float, typer.Option("--tolerance", min=0.0, help="Relative error of a forecast that is tolerated.")
    ] = 0.05,
    max_unseen: Annotated[
        float | None, typer.Option("--max-unseen", metavar="SHARE", help="Alarm, too, beyond this share of unseen.")
    ] = None,
    max_drift: Annotated[
        float | None, typer.Option("--max-drift", metavar="PSI", help="Alarm, too, beyond this drift of scores.")
    ] = None,
    since: Since = None,
    until: Until = None,
    rate: SamplingRate = None,
    label_time: LabelTime = None,
    window: Window = None,
    place: TablePlace,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Says every day whether a model in use is still calibrated.

    PCOC and log-loss are followed overall and by slice. The chance of any false alarm, in any chart on any day since
    the watch began, is at most the stated rate. Every day is read once. Exit code 4 is an alarm, 0 none. Days without
    labels show what the forecast expects of itself, and are read again when their labels are there.
    """
    table = place.open(tables)
    from monocal.models import load_model
    from monocal.monitoring.watch import watch as watch_table

    found = watch_table(
        load_model(model),
        table,
        time=time,
        by=arguments.names(by),
        label=label,
        state=state or model.with_name(f"{model.resolve().name}.watch"),
        every=every,
        false_alarm_rate=false_alarm_rate,
        tolerance=tolerance,
        max_unseen=max_unseen,
        max_drift=max_drift,
        since=since,
        until=until,
        sampling_rate=arguments.sampling_rate(rate),
        label_time=label_time,
        window=window,
    )
    if as_json:
        print_json(found.as_dict())
    else:
        _print(found)
    if found.is_alarmed:
        raise typer.Exit(ALARM)


def _print(found: Watch) -> None:
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
