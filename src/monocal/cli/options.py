"""The options of the command line: declared once, spelled like the arguments of the library that they stand for.

Columns are not declared here at all. `with_columns` makes an option of every role that a verb names, from the type and
the docstring of `monocal.tables.roles.Roles`; a new role is an option as soon as a verb names it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from monocal.cli import arguments
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
Registry = Annotated[str, typer.Option(metavar="FOLDER", help="The registry: a folder of models, one of them active.")]
Out = Annotated[str, typer.Option(metavar="PATH", help="What to write.")]

Since = Annotated[
    str | None, typer.Option(metavar="MOMENT", help="Only rows at or after this moment: 2024-05-01, or a number.")
]
Until = Annotated[str | None, typer.Option(metavar="MOMENT", help="Only rows before this moment.")]
By = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMNS", help="Evaluate every value of these columns."),
    arguments.names,
]
Labels = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN|TASK=COLUMN", help="The outcome, if not the column of the fit."),
    partial(arguments.pairs, "--label"),
]

Method = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="How to calibrate; `monocal methods` lists them.", autocompletion=_complete_method
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="An argument of the method, as TOML or JSON; `monocal methods NAME` lists them. Once per argument.",
    ),
    arguments.settings,
]
Holdout = Annotated[
    float,
    typer.Option(
        min=0.0,
        max=0.9,
        metavar="SHARE",
        help="The most recent share of rows that is kept from the fit and evaluates it.",
    ),
]
MinCount = Annotated[int, typer.Option(min=1, help="Field values with fewer rows count as unseen.")]
MaxSize = Annotated[
    int | None, typer.Option(min=1, help="The most values a field may have; rarer ones count as unseen.")
]
MetricNames = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES",
        help="Which metrics, with commas; `monocal metrics` lists them.",
        autocompletion=_complete_metric,
    ),
    arguments.names,
]
MaxHarm = Annotated[
    float, typer.Option(metavar="SHARE", help="The increase that is tolerated, as a share of the log-loss.")
]
Seed = Annotated[int, typer.Option(min=0, help="Another seed draws differently.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document.")]
Debug = Annotated[
    bool, typer.Option("--debug", help="Show where an error came from.", callback=_remember_debug, is_eager=True)
]

SCORED = ("score", "label", "weight", "group", "sampling_rate", "scores_are", "soft_labels")
"""The columns of a table with scores."""
LATE = ("event_time", "label_time", "window")
"""Columns of a table whose labels may still arrive."""

_METAVARS = {"window": "LENGTH", "tasks": "LABEL:SCORE", "sampling_rate": "NUMBER|COLUMN", "scores_are": "SPACE"}
_READERS: dict[str, Callable[[Any], Any]] = {"tasks": arguments.tasks, "sampling_rate": arguments.number_or_column}


def with_columns(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Lets a verb take roles as options; it receives them by name, as the library takes them, in its `**columns`.

    Arguments:
        names: Roles, as `Roles` and `Roles.of` call them.
    """

    def mark(verb: Callable[..., None]) -> Callable[..., None]:
        vars(verb)["columns"] = names
        return verb

    return mark


def with_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Returns a verb whose roles are options of their own, before the verb's other options, and that has --debug.

    Example:
        >>> @with_columns("time", "fields")
        ... def show(table: str, seed: int = 0, **columns: str) -> None:
        ...     print(table, seed, columns)
        >>> list(inspect.signature(with_options(show)).parameters)
        ['table', 'time', 'fields', 'seed', 'debug']
    """
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(verb, eval_str=True).parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    n_required = sum(parameter.default is inspect.Parameter.empty for parameter in own)
    debug = inspect.Parameter("debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Debug)
    columns = _columns(vars(verb).get("columns", ()))
    parameters = [*own[:n_required], *columns, *own[n_required:], debug]

    readers = {parameter.name: _reader(parameter.annotation) for parameter in parameters}

    def flat(debug: bool, **given: Any) -> None:
        del debug  # remembered when it was read, for errors before this call
        verb(**{name: readers[name](value) for name, value in given.items()})

    flat.__doc__, flat.__name__ = verb.__doc__, verb.__name__
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    vars(flat)["__signature__"] = inspect.Signature(parameters)
    return flat


def _reader(annotation: Any) -> Callable[[Any], Any]:
    """Returns what turns the texts of an option into a value: a function beside its declaration, if there is one."""
    beside = [each for each in get_args(annotation)[1:] if inspect.isfunction(each) or isinstance(each, partial)]
    return beside[0] if beside else lambda value: value


def _columns(names: Sequence[str]) -> list[inspect.Parameter]:
    if not names:
        return []
    from monocal.tables.roles import Roles

    hints = get_type_hints(Roles) | {"score": str, "label": str, "tasks": dict}
    meanings = described(Roles) | described(Roles.of)
    return [_option(name, hints[name], meanings[name]) for name in names]


def described(documented: Any) -> dict[str, str]:
    """Returns the meaning of each argument, from the section "Arguments:" of a docstring.

    Example:
        >>> described(with_columns)
        {'names': 'Roles, as Roles and Roles.of call them.'}
    """
    section = inspect.cleandoc(documented.__doc__ or "").partition("Arguments:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^ {4}(\w+): ((?:.+\n?)(?: {8}.+\n?)*)", section, re.M)
    return {name: " ".join(text.replace("`", "").split()) for name, text in entries}


def _option(name: str, hint: Any, meaning: str) -> inspect.Parameter:
    """Returns the option of a role: a flag, one of several words, names with commas, or a column."""
    flag = f"--{name.replace('_', '-')}"
    settings: dict[str, Any] = {"help": meaning, "metavar": _METAVARS.get(name, "COLUMN")}
    kind: Any = str | None
    reader = _READERS.get(name)
    default: Any = None
    if hint is bool:
        kind, default = bool, False
        settings["metavar"] = None
    elif get_origin(hint) is Literal:
        kind, default = hint, get_args(hint)[0]
        settings["metavar"] = "|".join(get_args(hint))
    elif get_origin(hint) is tuple:
        kind, reader = list[str] | None, arguments.names
        settings["metavar"] = "COLUMNS"
    elif name == "tasks":
        kind = list[str] | None
    annotation = Annotated[kind, typer.Option(flag, **settings), reader]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
