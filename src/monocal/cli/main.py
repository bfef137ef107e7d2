"""The `monocal` command."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import pairwise
from types import FrameType, ModuleType
from typing import Annotated, Any

import typer

from monocal.cli.exits import MEANINGS, Terminated, run_guarded
from monocal.cli.option_groups import with_options_of_groups
from monocal.cli.options import Debug
from monocal.cli.verbs import (
    apply,
    compare,
    evaluate,
    export,
    fit,
    gate,
    inspect,
    methods,
    metrics,
    promote,
    refresh,
    report,
    rollback,
    serve,
    watch,
)
from monocal.core.version import __version__

VERBS: tuple[ModuleType, ...] = (
    fit,
    apply,
    evaluate,
    compare,
    report,
    inspect,
    methods,
    metrics,
    refresh,
    gate,
    promote,
    rollback,
    watch,
    serve,
    export,
)

_EXIT_CODES = "\n".join(["\b", "Exit codes:", *(f"  {code:>3}  {meaning}" for code, meaning in MEANINGS.items())])

app = typer.Typer(
    name="monocal",
    help="Turns the scores of a ranking or CTR model into probabilities one can bid, budget and fuse with.",
    epilog=_EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # panels and colours would cost more time than everything else that --help does
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"monocal {__version__}")
        raise typer.Exit()


@app.callback()
def _every_command(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_show_version, is_eager=True)
    ] = False,
    debug: Debug = False,
) -> None:
    pass


def _add(commands: typer.Typer, name: str, verb: Callable[..., None], examples: str) -> None:
    lines = ["\b", "Examples:", *(f"  {line}" for line in examples.strip().splitlines())]
    commands.command(name, epilog="\n".join(lines))(with_options_of_groups(verb))


def _add_module(commands: typer.Typer, module: Any) -> None:
    for name, verb in module.VERBS.items():
        _add(commands, name, verb, module.EXAMPLES[name])


# by their names: nothing of the product imports the laboratory
_add_module(app, import_module("monocal.lab.first_steps"))
for _module in VERBS:
    _name = _module.__name__.rsplit(".", 1)[-1]
    _add(app, _name, getattr(_module, _name), _module.EXAMPLES)
laboratory = typer.Typer(
    help="The laboratory: prepares and ranks raw logs, runs studies.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_add_module(laboratory, import_module("monocal.lab.cli"))
app.add_typer(laboratory, name="lab")


def options_of(*words: str) -> frozenset[str]:
    """Returns the options of the verb that the words of a command begin with: ("fit", …), or ("lab", "rank", …)."""
    found: Any = typer.main.get_command(app)
    for word in words:
        if word not in getattr(found, "commands", {}):
            break
        found = found.commands[word]
    return frozenset(option for parameter in found.params for option in parameter.opts)


def _settings(given: Sequence[str]) -> frozenset[str]:
    """The names that were given with --set, those of `compare` without their method."""
    values = [after for before, after in pairwise(given) if before == "--set"]
    values += [text.removeprefix("--set=") for text in given if text.startswith("--set=")]
    return frozenset(value.partition("=")[0].rpartition(".")[2] for value in values)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    words = [text for text in given if not text.startswith("-")]
    return run_guarded(
        lambda: app(given, prog_name="monocal", standalone_mode=False),
        lambda: options_of(*words),
        _settings(given),
        given,
    )


_OBJECTS_BETWEEN_COLLECTIONS = 100_000
"""Libraries make half a million objects that stay; to look through them after every 700 new ones, as is the default,
takes a tenth of a short command."""


def run() -> None:
    """The entry point of the process: as `main`, and SIGTERM cleans up like Ctrl-C."""

    def terminate(_signum: int, _frame: FrameType | None) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, terminate)
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    sys.exit(main())
