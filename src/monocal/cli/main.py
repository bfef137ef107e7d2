"""The `monocal` command."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Sequence
from itertools import pairwise
from types import FrameType, ModuleType
from typing import Annotated

import typer

from monocal.cli.exits import MEANINGS, Terminated, run_guarded
from monocal.cli.option_groups import with_options_of_groups
from monocal.cli.options import Debug
from monocal.cli.verbs import (
    apply,
    bench,
    compare,
    demo,
    evaluate,
    export,
    fit,
    gate,
    inspect,
    methods,
    metrics,
    prepare,
    promote,
    rank,
    refresh,
    report,
    rollback,
    serve,
    simulate,
    watch,
)
from monocal.core.version import __version__

VERBS: tuple[ModuleType, ...] = (
    demo,
    simulate,
    prepare,
    rank,
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
    bench,
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


def _examples(module: ModuleType) -> str:
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in module.EXAMPLES.strip().splitlines())])


for _module in VERBS:
    _name = _module.__name__.rsplit(".", 1)[-1]
    app.command(_name, epilog=_examples(_module))(with_options_of_groups(getattr(_module, _name)))


def options_of(verb: str) -> frozenset[str]:
    """Returns the options that a verb has."""
    found = typer.main.get_command(app).commands.get(verb)  # type: ignore[attr-defined]
    return frozenset(option for parameter in (found.params if found else ()) for option in parameter.opts)


def _settings(given: Sequence[str]) -> frozenset[str]:
    """The names that were given with --set, those of `compare` without their method."""
    values = [after for before, after in pairwise(given) if before == "--set"]
    values += [text.removeprefix("--set=") for text in given if text.startswith("--set=")]
    return frozenset(value.partition("=")[0].rpartition(".")[2] for value in values)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    verb = next((text for text in given if not text.startswith("-")), "")
    return run_guarded(
        lambda: app(given, prog_name="monocal", standalone_mode=False),
        lambda: options_of(verb),
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
