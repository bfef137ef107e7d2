"""monocal refresh."""

from __future__ import annotations

from typing import Annotated

import typer

from monocal.cli import arguments
from monocal.cli.exits import REFUSED
from monocal.cli.options import (
    Debug,
    EventTime,
    Json,
    Label,
    LabelTime,
    Logits,
    ModelArgument,
    Out,
    Since,
    TableArgument,
    Time,
    Until,
    Weight,
    Window,
)
from monocal.cli.output import print_json, print_lines, remark
from monocal.cli.verbs.gate import By, MaxHarm

EXAMPLES = """
monocal refresh model/ today.parquet --out next/
monocal refresh model/ today.parquet --out next/ --gate --by store_id
monocal refresh model/ log.parquet --time ts --since 2026-05-04 --out next/ --json
"""


def refresh(
    model: ModelArgument,
    tables: TableArgument,
    out: Out,
    gate: Annotated[
        bool, typer.Option("--gate", help="Write nothing unless a refresh on the older rows passes on the newest.")
    ] = False,
    by: By = None,
    max_harm: MaxHarm = 0.002,
    label: Label = None,
    weight: Weight = None,
    time: Time = None,
    since: Since = None,
    until: Until = None,
    logits: Logits = False,
    event_time: EventTime = None,
    label_time: LabelTime = None,
    window: Window = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Goes on from a model with newer rows.

    Level, slope and shifts move as far as the rows and what was known before say; new field values get a shift, values
    unseen for long fade. The model itself stays as it is. Exit code 3: the gate did not let the refresh pass.
    """
    table = arguments.table(tables)
    from monocal.models.inspection import history_lines
    from monocal.operations import refresh as refresh_folder

    done = refresh_folder(
        model,
        table,
        out,
        gate=gate,
        by=tuple(arguments.names(by)),
        max_harm=max_harm,
        label=label,
        weight=weight,
        time=time,
        since=since,
        until=until,
        scores_are="logit" if logits else None,
        event_time=event_time,
        label_time=label_time,
        window=window,
    )
    if done.late_labels is not None:
        remark(str(done.late_labels))
    if as_json:
        print_json(done.as_dict())
    else:
        print_lines("\n".join(history_lines(done.model.info)[-1:]))
        if done.verdict is not None:
            remark(str(done.verdict))
    if not done.written:
        raise typer.Exit(REFUSED)
    remark(f"wrote generation {done.model.info['generation']} to {out}")
