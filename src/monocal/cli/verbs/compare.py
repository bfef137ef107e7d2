"""monocal compare."""

from __future__ import annotations

from typing import Annotated

import typer

from monocal.cli import arguments
from monocal.cli.option_groups import FitSettings, LateLabels, ScoredColumns
from monocal.cli.options import Debug, Fields, Json, Seed, TableArgument
from monocal.cli.output import print_json, remark

EXAMPLES = """
monocal compare log.parquet --score pctr --label click --fields site_id,app_id --time timestamp
monocal compare log.parquet --score pctr --label click --fields site_id --methods platt,wide_logistic,umc
monocal compare log.parquet --score pctr --label click --methods histogram --set histogram.n_bins=20 --metric ece
monocal compare log.parquet --score pctr --label click --fields ad_id,advertiser --numeric price
monocal compare ranked/ --label long_view --methods wide_logistic,umc
"""


def compare(
    tables: TableArgument,
    *,
    columns: ScoredColumns,
    fields: Fields = None,
    methods: Annotated[
        list[str] | None,
        typer.Option("--methods", metavar="NAMES", help="Which methods, with commas; by default all of them."),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="METHOD.NAME=VALUE", help="An option of one method, as TOML or JSON."),
    ] = None,
    metric: Annotated[
        str, typer.Option("--metric", metavar="NAME", help="What to sort by, and to call the best.")
    ] = "log_loss",
    fitting: FitSettings,
    seed: Seed = 0,
    late: LateLabels,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Fits several methods and says which win and which tie.

    The older rows are fitted, the most recent judge, by log-loss. Methods are fitted as `monocal fit` fits them; --set
    changes one, and --fields auto takes the categorical columns found. TABLE may be the folder of a ranked log; --label
    then chooses one of its tasks.
    """
    table = arguments.table(tables)
    from monocal.evaluation.compare_methods import compare_methods

    scored = columns.arguments()
    taken = {"time": fitting.time, "numeric": arguments.names(fitting.numeric), **scored, **late.arguments()}
    found = compare_methods(
        table,
        arguments.names(methods) or None,
        fields=arguments.fields_to_use(table, fields, taken),
        metric=metric,
        arguments=arguments.settings_by_method(options),
        seed=seed,
        **scored,
        **fitting.arguments(),
        **late.arguments(),
    )
    remark(found.holdout.explanation)
    if found.late_labels is not None:
        remark(str(found.late_labels))
    if as_json:
        print_json(found.as_dict())
        return
    from monocal.cli.tables import print_comparison

    print_comparison(found)
