"""monocal compare."""

from __future__ import annotations

from typing import Annotated

import typer

from monocal.cli import arguments
from monocal.cli.options import (
    Debug,
    EventTime,
    Fields,
    Group,
    Holdout,
    Json,
    Label,
    LabelTime,
    Logits,
    MaxSize,
    MinCount,
    SamplingRate,
    Score,
    Seed,
    SoftLabels,
    TableArgument,
    Time,
    Weight,
    Window,
)
from monocal.cli.output import print_json, remark

EXAMPLES = """
monocal compare log.parquet --score pctr --label click --fields site_id,app_id --time timestamp
monocal compare log.parquet --score pctr --label click --fields site_id --methods platt,wide_logistic,umc
monocal compare log.parquet --score pctr --label click --methods histogram --set histogram.n_bins=20 --metric ece
monocal compare ranked/ --label long_view --methods wide_logistic,umc
"""


def compare(
    tables: TableArgument,
    score: Score = None,
    label: Label = None,
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
        str | None,
        typer.Option("--metric", metavar="NAME", help="What to sort by: mfrce with fields, else ece."),
    ] = None,
    time: Time = None,
    weight: Weight = None,
    group: Group = None,
    rate: SamplingRate = None,
    logits: Logits = False,
    soft_labels: SoftLabels = False,
    holdout: Holdout = 0.2,
    min_count: MinCount = 1,
    max_size: MaxSize = None,
    seed: Seed = 0,
    event_time: EventTime = None,
    label_time: LabelTime = None,
    window: Window = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Fits several methods and says which win and which tie.

    The older rows are fitted, the most recent judge. Sorted by how much the metric exceeds its noise floor. TABLE may
    be the folder of a ranked log; --label then chooses one of its tasks.
    """
    table = arguments.table(tables)
    from monocal.judging.compare_methods import compare_methods

    found = compare_methods(
        table,
        arguments.names(methods) or None,
        score=score,
        label=label,
        fields=[name for name in arguments.names(fields) if name != "none"],
        weight=weight,
        time=time,
        group=group,
        sampling_rate=arguments.sampling_rate(rate),
        scores_are="logit" if logits else "probability",
        soft_labels=soft_labels,
        min_count=min_count,
        max_size=max_size,
        holdout=holdout,
        metric=metric,
        arguments=arguments.settings_by_method(options),
        seed=seed,
        event_time=event_time,
        label_time=label_time,
        window=window,
    )
    remark(found.holdout.explanation)
    if found.late_labels is not None:
        remark(str(found.late_labels))
    if as_json:
        print_json(found.as_dict())
        return
    from monocal.cli.tables import print_comparison

    print_comparison(found)
