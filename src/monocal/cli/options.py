"""Options that several verbs share, declared once so that they read the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from monocal.cli.exits import SETTINGS


def _remember_debug(debug: bool) -> bool:
    SETTINGS.debug = SETTINGS.debug or debug
    return debug


def _complete_method(incomplete: str) -> list[str]:
    from monocal.calibrators import CALIBRATORS

    return [name for name in CALIBRATORS if name.startswith(incomplete)]


def _complete_metric(incomplete: str) -> list[str]:
    from monocal.metrics import METRICS

    return [name for name in METRICS if name.startswith(incomplete)]


TableArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="TABLE",
        help="Parquet or CSV: files, a folder, a glob, a URI, or - for standard input.",
        show_default=False,
    ),
]

ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="The folder of a saved model.", show_default=False)
]
ModelPlace = Annotated[
    str, typer.Argument(metavar="MODEL", help="The folder of a saved model, or its URI.", show_default=False)
]
RegistryFolder = Annotated[
    str, typer.Option("--registry", metavar="FOLDER", help="The registry: a folder of models, one of them in force.")
]

Score = Annotated[str | None, typer.Option("--score", metavar="COLUMN", help="The ranker's score.")]
Label = Annotated[str | None, typer.Option("--label", metavar="COLUMN", help="The 0/1 outcome.")]
Tasks = Annotated[
    list[str] | None,
    typer.Option(
        "--task",
        metavar="LABEL:SCORE",
        help="Several tasks instead of --label and --score; give it once per task. A null label is a row without it.",
    ),
]
Fields = Annotated[
    list[str] | None, typer.Option("--fields", metavar="COLUMNS", help="Categorical columns, with commas.")
]
Numeric = Annotated[
    list[str] | None,
    typer.Option("--numeric", metavar="COLUMNS", help="Columns of numbers (a price, an age), with commas."),
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time", metavar="COLUMN", help="Orders the rows; without it they are taken to be in time order, oldest first."
    ),
]
Weight = Annotated[str | None, typer.Option("--weight", metavar="COLUMN", help="How often each row counts.")]
Group = Annotated[str | None, typer.Option("--group", metavar="COLUMN", help="The user, query or session of a row.")]
SamplingRate = Annotated[
    str | None,
    typer.Option(
        "--sampling-rate", metavar="NUMBER|COLUMN", help="The share of negatives that the ranker was trained on."
    ),
]
SoftLabels = Annotated[
    bool,
    typer.Option("--soft-labels", help="Labels are numbers in [0, 1]: q counts as q positives and 1 − q negatives."),
]
Logits = Annotated[bool, typer.Option("--logits", help="The scores are logits, not probabilities.")]

EventTime = Annotated[
    str | None, typer.Option("--event-time", metavar="COLUMN", help="When a row happened, if its label may still come.")
]
LabelTime = Annotated[
    str | None, typer.Option("--label-time", metavar="COLUMN", help="When a positive label came; null where none has.")
]
Window = Annotated[
    str | None,
    typer.Option("--window", metavar="LENGTH", help="How long after its event a label counts: 7d, 12h, a number."),
]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="MOMENT", help="Only rows at or after this moment: 2024-05-01, or a number."),
]
Until = Annotated[str | None, typer.Option("--until", metavar="MOMENT", help="Only rows before this moment.")]
Holdout = Annotated[
    float,
    typer.Option(
        "--holdout",
        min=0.0,
        max=0.9,
        metavar="SHARE",
        help="The most recent share of rows that is kept from the fit and used to judge it.",
    ),
]
MinCount = Annotated[int, typer.Option("--min-count", min=1, help="Field values with fewer rows count as unseen.")]
MaxSize = Annotated[
    int | None, typer.Option("--max-size", min=1, help="The most values a field may have; rarer ones count as unseen.")
]

Method = Annotated[
    str,
    typer.Option(
        "--method",
        metavar="NAME",
        help="How to calibrate; `monocal methods` lists them.",
        autocompletion=_complete_method,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="An option of the method, as TOML or JSON; `monocal methods NAME` lists them. Give it once per option.",
    ),
]
MetricNames = Annotated[
    list[str] | None,
    typer.Option(
        "--metrics",
        metavar="NAMES",
        help="Which metrics, with commas; `monocal metrics` lists them.",
        autocompletion=_complete_metric,
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Another seed draws differently.")]

Out = Annotated[str, typer.Option("--out", metavar="PATH", help="What to write.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document.")]
Debug = Annotated[
    bool, typer.Option("--debug", help="Show where an error came from.", callback=_remember_debug, is_eager=True)
]
