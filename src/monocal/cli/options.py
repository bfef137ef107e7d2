"""Verbs are functions; their options are made from signatures and docstrings, and spelled like the parameters.

A positional parameter of a verb is an argument of the command, any other an option. Its meaning, with the word that
stands for its value, is in the verb's docstring, or below if several verbs have it; examples are in the docstring, too.
Verbs do not declare what they only hand on: they name it in `takes`. Types and meanings of columns are those of
`monocal.tables.roles.Roles`, so that a new role is an option as soon as a verb names it; the others are in `_SHARED`.

Arguments:
    table (TABLE): Parquet or CSV: files, a folder, a glob, a URI, or - for standard input.
    model (MODEL): The folder of a saved model.
    registry (FOLDER): The registry: a folder of models, one of them active.
    out (PATH): What to write.
    since (MOMENT): Only rows at or after this moment: 2024-05-01, or a number.
    until (MOMENT): Only rows before this moment.
    by (COLUMNS): Evaluate every value of these columns.
    label (COLUMN|TASK=COLUMN): The outcome, if not the column of the fit.
    method (NAME): How to calibrate; `monocal methods` lists them.
    settings (NAME=VALUE): An argument of the method, as TOML or JSON; `monocal methods NAME` lists them. Give it once
        per argument.
    holdout (SHARE): The most recent share of rows, which is kept from the fits and judges them.
    methods (NAMES): Which methods, with commas.
    pcoc (LOW,HIGH): Predicted over observed that may be shipped; 0.9,1.1 if not given.
    mfrce: Error by field value, above its noise floor, that may be shipped.
    min_count: Field values with fewer rows count as unseen.
    max_size: The most values a field may have; rarer ones count as unseen.
    metrics (NAMES): Which metrics, with commas; `monocal metrics` lists them.
    max_harm (SHARE): The increase that is tolerated, as a share of the log-loss.
    seed: Another seed draws differently.
    engine (local|spark): Where the work is done. With spark, TABLE is a path or a table's name that the Spark session
        knows.
    master (URL): With --engine spark: the cluster, if no session is running yet.
    conf (KEY=VALUE): With --engine spark: a setting of Spark; once per setting.
    as_json: Print the result as one JSON document.
    debug: Show where an error came from.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import typer
from typer.models import ParameterInfo

from monocal.cli import arguments
from monocal.cli.exits import SETTINGS


class Range(NamedTuple):
    """The numbers that an option may have."""

    low: float | None = None
    high: float | None = None


if TYPE_CHECKING:  # what a verb receives; below, what a user types
    Names = list[str] | None
    Pairs = str | Mapping[str, str] | None
    Settings = Mapping[str, Any] | None
    SettingsByMethod = Mapping[str, Mapping[str, Any]] | None
    Limits = tuple[float, float] | None
else:
    Names = Annotated[list[str] | None, arguments.names]
    Pairs = Annotated[list[str] | None, arguments.pairs]
    Settings = Annotated[list[str] | None, arguments.settings]
    SettingsByMethod = Annotated[list[str] | None, arguments.settings_by_method]
    Limits = Annotated[str | None, arguments.limits]

Count = Annotated[int, Range(1)]
Natural = Annotated[int, Range(0)]
Share = Annotated[float, Range(0.01, 0.9)]

SCORED = ("score", "label", "weight", "group", "sampling_rate", "scores_are", "soft_labels")
"""The columns of a table with scores."""
LATE = ("event_time", "label_time", "window")
"""Columns of a table whose labels may still arrive."""
PERIOD = ("since", "until")
SIZES = ("min_count", "max_size")
ENGINE = ("engine", "master", "conf")

_SHARED: Mapping[str, tuple[Any, Any]] = {
    "since": (str | None, None),
    "until": (str | None, None),
    "min_count": (Count, 1),
    "max_size": (Count | None, None),
    "holdout": (Share, 0.2),
    "max_harm": (float, 0.002),
    "seed": (Natural, 0),
    "engine": (Literal["local", "spark"], "local"),
    "master": (str | None, None),
    "conf": (list[str] | None, None),
}
"""Options of several verbs that are no columns: type and default."""

_FLAGS = {"as_json": "--json", "settings": "--set"}
"""Options that would hide a name of Python's own, or read worse in full."""

_METAVARS = {"window": "LENGTH", "tasks": "LABEL:SCORE", "sampling_rate": "NUMBER|COLUMN"}


class Meaning(NamedTuple):
    """What a docstring says about a parameter: the word that stands for its value, and what it does."""

    metavar: str | None
    text: str


def described(documented: Any) -> dict[str, Meaning]:
    """Returns the meaning of each parameter, from the section "Arguments:" of a docstring.

    Example:
        >>> described(takes)["names"].text
        'Roles, as Roles calls them, and shared options.'
    """
    section = _section(documented, "Arguments")
    entries = re.findall(r"^ {4}(\w+)(?: \(([^)]*)\))?: ((?:.+\n?)(?: {8}.+\n?)*)", section, re.M)
    return {name: Meaning(word or None, " ".join(text.replace("`", "").split())) for name, word, text in entries}


def examples_of(verb: Callable[..., None]) -> list[str]:
    """Returns the commands in the section "Examples:" of a verb's docstring."""
    return [line.strip() for line in _section(verb, "Examples").splitlines()]


def _section(documented: Any, title: str) -> str:
    return inspect.cleandoc(documented.__doc__ or "").partition(f"{title}:\n")[2].partition("\n\n")[0]


def takes(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Lets a verb take options that it does not declare, which it receives by name in its `**given`.

    Arguments:
        names: Roles, as `Roles` calls them, and shared options.
    """

    def mark(verb: Callable[..., None]) -> Callable[..., None]:
        vars(verb)["taken"] = names
        return verb

    return mark


def with_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Returns a verb as typer takes it: what is required, columns, its own options, shared ones, --json and --debug.

    Example:
        >>> @takes("time", "fields", "until")
        ... def show(table: str, *, method: str = "umc", as_json: bool = False, **given: str) -> None:
        ...     print(table, method, as_json, given)
        >>> list(inspect.signature(with_options(show)).parameters)
        ['table', 'time', 'fields', 'method', 'until', 'as_json', 'debug']
    """
    specific = described(verb)
    meanings = described(sys.modules[__name__]) | specific
    own = [
        _declared(parameter, meanings)
        for parameter in inspect.signature(verb, eval_str=True).parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    n_required = sum(parameter.default is inspect.Parameter.empty for parameter in own)
    taken = vars(verb).get("taken", ())
    columns = _columns([name for name in taken if name not in _SHARED], specific)
    shared = [
        _declared(_parameter(name, default, kind), meanings)
        for name, (kind, default) in _SHARED.items()
        if name in taken
    ]
    others = sorted([*own[n_required:], *shared], key=lambda parameter: parameter.name == "as_json")
    debug = typer.Option("--debug", help=meanings["debug"].text, callback=remember_debug, is_eager=True)
    parameters = [*own[:n_required], *columns, *others, _parameter("debug", False, bool, debug)]
    readers = {parameter.name: _reader(parameter) for parameter in parameters}

    def flat(debug: bool, **given: Any) -> None:
        del debug  # remembered when it was read, for errors before this call
        verb(**{name: readers[name](value) for name, value in given.items()})

    flat.__name__ = verb.__name__
    flat.__doc__ = re.split(r"\n(?:Arguments|Examples):\n", inspect.cleandoc(verb.__doc__ or ""))[0]
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    vars(flat)["__signature__"] = inspect.Signature(parameters)
    return flat


def _declared(parameter: inspect.Parameter, meanings: Mapping[str, Meaning]) -> inspect.Parameter:
    """Returns a parameter of a verb as an argument or an option, unless it says itself what it is."""
    name, annotation = parameter.name, parameter.annotation
    kind, beside = _parts(annotation)
    if any(isinstance(each, ParameterInfo) for each in beside):
        return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    metavar, text = meanings[name]
    info: Any
    if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
        info = typer.Argument(metavar=metavar, help=text, show_default=False)
    else:
        limits = next((each for each in beside if isinstance(each, Range)), Range())
        flag = _FLAGS.get(name, f"--{name.replace('_', '-')}")
        complete = _COMPLETE.get(name)
        info = typer.Option(flag, metavar=metavar, help=text, min=limits.low, max=limits.high, autocompletion=complete)
    return _parameter(name, parameter.default, kind, info, *beside)


def _parts(annotation: Any) -> tuple[Any, Sequence[Any]]:
    """Returns a type and what stands beside it, also where the type may be None."""
    if get_origin(annotation) is Annotated:
        kind, *beside = get_args(annotation)
        return kind, beside
    inner = next((member for member in get_args(annotation) if get_origin(member) is Annotated), None)
    if inner is None:
        return annotation, ()
    kind, *beside = get_args(inner)
    return kind | None, beside


def _columns(names: Sequence[str], specific: dict[str, Meaning]) -> list[inspect.Parameter]:
    """Returns the options of roles: flags, one of several words, names with commas, or a column."""
    if not names:
        return []
    from monocal.tables.roles import Roles

    hints = get_type_hints(Roles)
    meanings = described(Roles) | specific
    found = []
    for name in names:
        hint = hints[name]
        metavar: str | None = _METAVARS.get(name, "COLUMN")
        kind: Any = str | None
        reader: Any = arguments.number_or_column if name == "sampling_rate" else None
        if hint is bool:
            kind, metavar = bool | None, None
        elif get_origin(hint) is Literal:
            kind, metavar = hint | None, "|".join(get_args(hint))
        elif get_origin(hint) is Sequence:
            kind, metavar = list[str] | None, "COLUMNS"
            reader = arguments.fields if name == "fields" else arguments.names
        elif name == "tasks":
            kind, reader = list[str] | None, arguments.tasks
        option = typer.Option(f"--{name.replace('_', '-')}", metavar=metavar, help=meanings[name].text)
        found.append(_parameter(name, None, kind, option, reader))
    return found


def _parameter(name: str, default: Any, kind: Any, *beside: Any) -> inspect.Parameter:
    annotation = Annotated[(kind, *beside)] if beside else kind
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _reader(parameter: inspect.Parameter) -> Callable[[Any], Any]:
    """Returns what turns the texts of an option into a value: a function beside its type, if there is one."""
    beside = [each for each in get_args(parameter.annotation)[1:] if inspect.isfunction(each)]
    if not beside:
        return lambda value: value
    if "option" in inspect.signature(beside[0]).parameters:
        return partial(beside[0], f"--{parameter.name.replace('_', '-')}")
    return beside[0]


def remember_debug(debug: bool) -> bool:
    """Keeps what --debug says for errors, wherever in the command it stands."""
    SETTINGS.debug = SETTINGS.debug or debug
    return debug


def _completion(module: str, catalogue: str) -> Callable[[str], list[str]]:
    """Returns what completes the names of a catalogue, which is imported when a shell asks for them."""

    def complete(incomplete: str) -> list[str]:
        known: Any = getattr(import_module(module), catalogue)
        return [name for name in known if name.startswith(incomplete)]

    return complete


_COMPLETE = {
    "method": _completion("monocal.calibrators", "CALIBRATORS"),
    "methods": _completion("monocal.calibrators", "CALIBRATORS"),
    "metrics": _completion("monocal.metrics", "METRICS"),
}
