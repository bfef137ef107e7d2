"""The `monocal` command: its verbs, imported when they are called."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import FrameType
from typing import Annotated, Any, final

import typer
from typer.core import TyperGroup

from monocal.cli.exits import MEANINGS, Terminated, run_guarded
from monocal.cli.options import examples_of, remember_debug, with_options
from monocal.core import __version__

LABORATORY = "lab"
HOMES: Mapping[str, str] = {
    "demo": "monocal.lab.first_steps",
    "simulate": "monocal.lab.first_steps",
    "calibrate": "monocal.cli.fit",
    "fit": "monocal.cli.fit",
    "apply": "monocal.cli.fit",
    "evaluate": "monocal.cli.judge",
    "compare": "monocal.cli.judge",
    "report": "monocal.cli.judge",
    "inspect": "monocal.cli.judge",
    "methods": "monocal.cli.judge",
    "metrics": "monocal.cli.judge",
    "refresh": "monocal.cli.operate",
    "gate": "monocal.cli.operate",
    "promote": "monocal.cli.operate",
    "rollback": "monocal.cli.operate",
    "watch": "monocal.cli.operate",
    "serve": "monocal.cli.operate",
    "export": "monocal.cli.fit",
    LABORATORY: "monocal.lab.cli",
}
"""Verbs in the order of the data's way, and the modules with functions of these names."""

_EXIT_CODES = "\n".join(["\b", "Exit codes:", *(f"  {code:>3}  {meaning}" for code, meaning in MEANINGS.items())])


@final
class Verbs(TyperGroup):
    """A group whose verbs are built when they are called, so that `--help` costs what its text does."""

    def __init__(self, *, homes: Mapping[str, str] = HOMES, **others: Any) -> None:
        super().__init__(**others)
        self.homes = homes
        # names alone, among which the nearest to a mistyped one is looked for
        self.commands: Any = dict.fromkeys(homes)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 (the signature is typer's)
        return list(self.homes)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Returns a verb, or the group of the laboratory's verbs."""
        if cmd_name in self.homes and self.commands[cmd_name] is None:
            self.commands[cmd_name] = self._built(cmd_name)
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Writes the verbs with the first line of each docstring."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._summary(name)) for name in self.homes])

    def _built(self, name: str) -> Any:
        module: Any = import_module(self.homes[name])
        if name == LABORATORY:
            homes = dict.fromkeys(module.VERBS, module.__name__)
            return Verbs(name=name, homes=homes, help=module.__doc__, no_args_is_help=True, rich_markup_mode=None)
        from monocal.cli.output import in_shell_lines

        verb = getattr(module, name)
        lines = ["\b", "Examples:", *(f"  {line}" for example in examples_of(verb) for line in in_shell_lines(example))]
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        alone.command(name, epilog="\n".join(lines))(with_options(verb))
        return typer.main.get_command(alone)

    def _summary(self, name: str) -> str:
        if name == LABORATORY:
            return "Prepares and ranks raw logs, and runs studies."
        return (getattr(import_module(self.homes[name]), name).__doc__ or "").partition("\n")[0]


app = typer.Typer(
    name="monocal",
    cls=Verbs,
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
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where an error came from.", callback=remember_debug, is_eager=True)
    ] = False,
) -> None:
    pass


def options_of(*words: str) -> frozenset[str]:
    """Returns the options of the verb that the words of a command begin with: ("fit", …), or ("lab", "rank", …)."""
    found: Any = typer.main.get_command(app)
    for word in words:
        if not isinstance(found, Verbs) or word not in found.homes:
            break
        found = found.get_command(None, word)
    return frozenset(option for parameter in found.params for option in parameter.opts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    words = [text for text in given if not text.startswith("-")]
    return run_guarded(
        lambda: app(given, prog_name="monocal", standalone_mode=False), given, lambda: options_of(*words)
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
