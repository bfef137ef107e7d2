"""monocal gate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from monocal.cli import arguments
from monocal.cli.engines import TablePlace
from monocal.cli.exits import REFUSED
from monocal.cli.option_groups import LateLabels, Period
from monocal.cli.options import Debug, Group, Json, Label, TableArgument, Weight
from monocal.cli.output import print_json, print_lines
from monocal.cli.prose import folded

EXAMPLES = """
monocal gate old/ new/ fresh.parquet
monocal gate old/ new/ fresh.parquet --by store_id,placement --html gate.html
monocal gate old/ new/ fresh.parquet --max-harm 0.001 --json | jq .reasons
"""

By = Annotated[
    list[str] | None,
    typer.Option("--by", metavar="COLUMNS", help="Guarded columns, with commas: every value of them is judged."),
]
MaxHarm = Annotated[
    float,
    typer.Option("--max-harm", metavar="SHARE", help="The increase that is tolerated, as a share of the log-loss."),
]
Html = Annotated[str | None, typer.Option("--html", metavar="FILE", help="Write the verdict as one page, too.")]


def gate(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="The folder of the model in force.", show_default=False)],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The folder of the challenger.", show_default=False)],
    tables: TableArgument,
    *,
    by: By = None,
    max_harm: MaxHarm = 0.002,
    label: Label = None,
    group: Group = None,
    weight: Weight = None,
    period: Period,
    html: Html = None,
    late: LateLabels,
    place: TablePlace,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Says whether a new model may replace the old one.

    Both are compared row by row on rows that neither has seen. Exit code 0: it may. Exit code 3: it is worse, overall
    or in a guarded segment, or there are too few rows to exclude that; the message says how many it takes.
    """
    from monocal.core.outputs import output_file
    from monocal.monitoring.gate import gate as gate_models

    page = None if html is None else output_file(html, "html")
    table = place.open(tables)

    found = gate_models(
        old,
        new,
        table,
        by=arguments.names(by),
        max_harm=max_harm,
        label=label,
        group=group,
        weight=weight,
        **period.arguments(),
        **late.arguments(),
    )
    if page is not None:
        from monocal.report.gate_page import write_gate_page

        write_gate_page(found, page)
    if as_json:
        print_json(found.as_dict())
    else:
        print_lines(folded(str(found)))
    if not found.passed:
        raise typer.Exit(REFUSED)
