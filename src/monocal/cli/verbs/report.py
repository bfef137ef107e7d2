"""monocal report."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from typing import Annotated

import typer

from monocal.cli import arguments
from monocal.cli.option_groups import LateLabels, Period
from monocal.cli.options import (
    Debug,
    Fields,
    Group,
    Json,
    ModelArgument,
    Out,
    SamplingRate,
    Seed,
    TableArgument,
    Weight,
)
from monocal.cli.output import print_json, remark

EXAMPLES = """
monocal report model/ test.parquet --out report.html
monocal report model/ test.parquet --time timestamp --group user_id --out report.html
monocal report model/ test.parquet --value bid --fields site_id,country --title "May" --out report.html
"""


def report(
    model: ModelArgument,
    tables: TableArgument,
    out: Out,
    *,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="COLUMN|TASK=COLUMN", help="The outcome, if not the column of the fit."),
    ] = None,
    fields: Fields = None,
    period: Period,
    group: Group = None,
    weight: Weight = None,
    value: Annotated[
        str | None,
        typer.Option("--value", metavar="COLUMN", help="What one positive is worth: adds the largest error in money."),
    ] = None,
    rate: SamplingRate = None,
    title: Annotated[str | None, typer.Option("--title", help="The headline of the page.")] = None,
    seed: Seed = 0,
    late: LateLabels,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Writes one HTML page on what calibration changed.

    Before and after on every section, with intervals and noise floors. The file needs no network and can be forwarded.
    """
    table = arguments.table(tables)
    from monocal.models import load_model
    from monocal.report import write_report

    chosen = model if rate is None else replace(load_model(model), sampling_rate=arguments.sampling_rate(rate))
    written = write_report(
        chosen,
        table,
        out,
        label=arguments.pairs("--label", label),
        value=value,
        group=group,
        weight=weight,
        fields=arguments.names(fields) or None,
        title=title,
        command=shlex.join(["monocal", *sys.argv[1:]]),
        seed=seed,
        **period.arguments(),
        **late.arguments(),
    )
    n_bytes = written.stat().st_size
    if as_json:
        print_json({"out": written, "n_bytes": n_bytes})
    else:
        remark(f"wrote {written} ({n_bytes / 1e6:.1f} MB); open it in a browser")
