"""monocal refresh."""

from __future__ import annotations

from typing import Annotated

import typer

from monocal.cli import arguments
from monocal.cli.engines import TablePlace
from monocal.cli.exits import REFUSED
from monocal.cli.option_groups import LateLabels, Period
from monocal.cli.options import Debug, Json, Label, Logits, ModelArgument, Out, TableArgument, Weight
from monocal.cli.output import print_json, print_lines, remark
from monocal.cli.prose import folded
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
    *,
    gate: Annotated[
        bool, typer.Option("--gate", help="Write nothing unless a refresh on the older rows passes on the newest.")
    ] = False,
    by: By = None,
    max_harm: MaxHarm = 0.002,
    label: Label = None,
    weight: Weight = None,
    period: Period,
    logits: Logits = False,
    late: LateLabels,
    place: TablePlace,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Goes on from a model with newer rows.

    Level, slope and shifts move as far as the rows and what was known before say; new field values get a shift, values
    unseen for long fade. The model itself stays as it is. Exit code 3: the gate did not let the refresh pass.
    """
    table = place.open(tables)
    from monocal.models.inspect import history_lines
    from monocal.monitoring.refresh import refresh as refresh_folder

    done = refresh_folder(
        model,
        table,
        out,
        gate=gate,
        by=tuple(arguments.names(by)),
        max_harm=max_harm,
        label=label,
        weight=weight,
        scores_are="logit" if logits else None,
        **period.arguments(),
        **late.arguments(),
    )
    if done.late_labels is not None:
        remark(str(done.late_labels))
    if as_json:
        print_json(done.as_dict())
    else:
        print_lines(folded("\n".join(history_lines(done.model.info)[-1:])))
        if done.verdict is not None:
            remark(str(done.verdict))
    if not done.written:
        raise typer.Exit(REFUSED)
    remark(f"wrote generation {done.model.info['generation']} to {out}")
