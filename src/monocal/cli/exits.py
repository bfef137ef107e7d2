"""How a command ends: exit codes, and one clear line for every error."""

from __future__ import annotations

import re
import sys
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise, takewhile

import typer

from monocal.core.errors import InvalidInput, MissingFolder, MonocalError, MonocalWarning, shown

try:
    from typer import TyperException as UsageError
except ImportError:  # older ones raise what click has
    from click import ClickException as UsageError  # type: ignore[assignment]
OK = 0
FAILURE = 1
UNUSABLE = 2
REFUSED = 3
ALARM = 4
INTERRUPTED = 130
TERMINATED = 143

MEANINGS = {
    OK: "done",
    FAILURE: "failure: a damaged model, a full disk, a lost process, a missing optional package, a fault in monocal",
    UNUSABLE: "the command, an option or the data cannot be used; the message says why and what to do",
    REFUSED: "refused: no verdict SHIP (calibrate), or the gate failed; nothing was replaced",
    ALARM: "an alarm: the model in use is no longer calibrated (watch)",
    INTERRUPTED: "interrupted with Ctrl-C; no half-written output is left",
    TERMINATED: "ended by SIGTERM; no half-written output is left",
}


@dataclass
class _Settings:
    """What is known about the command that runs.

    Attributes:
        debug: Whether errors say where they came from.
        given: The words of the command, of which an error repeats the wrong one.
        options: Returns the options of its verb, as which errors write the arguments of the library.
    """

    debug: bool = False
    given: Sequence[str] = ()
    options: Callable[[], Collection[str]] = tuple


SETTINGS = _Settings()


class Terminated(BaseException):
    """SIGTERM arrived; like an interrupt it must run every clean-up on exit."""


def run_guarded(
    command: Callable[[], object], given: Sequence[str] = (), options: Callable[[], Collection[str]] = tuple
) -> int:
    """Runs a command and returns its exit code; an error becomes one line on standard error.

    Arguments:
        command: What to run.
        given: The words of the command.
        options: Returns the options of its verb.
    """
    SETTINGS.debug, SETTINGS.given, SETTINGS.options = False, given, options
    try:
        with _warnings_as_lines():
            result = command()
        # typer turns Ctrl-C and typer.Exit into return values
        return _end("interrupted", INTERRUPTED) if result == INTERRUPTED else result if isinstance(result, int) else OK
    except KeyboardInterrupt:
        return _end("interrupted", INTERRUPTED)
    except Terminated:
        return _end("terminated", TERMINATED)
    except typer.Abort:
        return _end("aborted", FAILURE)
    except BrokenPipeError:
        # whoever read our output has seen enough; python would complain again while it flushes
        sys.stdout = None
        return FAILURE
    except Exception as error:
        if SETTINGS.debug:
            traceback.print_exc()
        return _end(f"error: {describe(error)}", exit_code(error))


def exit_code(error: Exception) -> int:
    """Returns the exit code that an error means."""
    if isinstance(error, UsageError):
        return error.exit_code
    return UNUSABLE if isinstance(error, InvalidInput | MissingFolder) else FAILURE


def describe(error: Exception) -> str:
    """Returns one line that tells a user what happened and what to do.

    Example:
        >>> describe(ModuleNotFoundError("No module named 'torch'", name="torch"))
        "this needs the package torch, which is not installed. Hint: pip install 'monocal[neural]'."
    """
    if isinstance(error, UsageError):
        return _usage(error)
    if isinstance(error, ModuleNotFoundError) and (extra := _extra_of(error.name or "")):
        package = (error.name or "").split(".")[0]
        return f"this needs the package {package}, which is not installed. Hint: pip install 'monocal[{extra}]'."
    if isinstance(error, MonocalError):
        return to_message(str(error))
    if isinstance(error, OSError):
        return _one_line(str(error))
    if type(error).__module__.split(".")[0] in ("pyspark", "py4j"):
        return _of_spark(str(error))
    if isinstance(error, MemoryError):
        return "out of memory. Hint: fewer rows or fields, or prepare the log first, which then stays on disk."
    return (
        f"{type(error).__name__}: {_one_line(str(error))}. "
        "This is a fault in monocal; run again with --debug to see where."
    )


def _extra_of(module: str) -> str:
    """Returns the first extra of monocal that brings a module's package along; empty if none does."""
    from importlib.metadata import requires

    package = module.partition(".")[0].lower()
    for requirement in requires("monocal") or ():
        found = re.match(r"([\w.-]+).*extra == ['\"](\w+)['\"]", requirement)
        if found and found[1].replace("-", "_").lower() in (package, f"{package}_skinny"):
            return found[2]
    return ""


def _of_spark(text: str) -> str:
    r"""Returns what Spark or a worker says first, without the pages of calls that follow.

    Example:
        >>> print(_of_spark("An error occurred while calling o3.x.\n: java.io.IOException: no room\n\tat a.B(C.java)"))
        Spark: java.io.IOException: no room. Hint: run again with --debug to see all that it says.
        >>> print(_of_spark("Aborted: Traceback (most recent call last):\n  File …\nKeyError: 3\n\n\tat a.B(C.java)"))
        a worker of Spark: KeyError: 3. This is a fault in monocal; run again with --debug to see where.
    """
    lines = list(takewhile(lambda line: not line.startswith(("\tat ", "JVM stacktrace")), text.strip().splitlines()))
    said = [line.strip() for line in lines if line.strip() and not line.startswith("An error occurred while calling")]
    if any(line.endswith("Traceback (most recent call last):") for line in said):
        return f"a worker of Spark: {shown(said[-1])}. This is a fault in monocal; run again with --debug to see where."
    first = shown(_one_line(" ".join(said)).removeprefix(": ").removesuffix("."))
    return f"Spark: {first}. Hint: run again with --debug to see all that it says."


def to_message(text: str) -> str:
    """Returns a message of the library in one line, with the options of the verb that runs."""
    settings = {value.partition("=")[0].rpartition(".")[2] for value in _values_of("--set", SETTINGS.given)}
    return in_options(_one_line(text), SETTINGS.options(), settings)


def in_options(message: str, options: Collection[str], settings: Collection[str] = ()) -> str:
    """Returns a message in which arguments are written as the options that are spelled like them.

    An argument is recognised before "got", as `name=`, and by a name of several words in a hint. What stands elsewhere
    may be a column of the caller's.

    Arguments:
        message: An error or a warning of the library.
        options: The options of the verb that was called; other names stay as they are.
        settings: Names that the caller gave with --set.

    Example:
        >>> in_options('score: got None; expected the name of a column. Hint: pass score="…".', {"--score"})
        '--score: got nothing; expected the name of a column. Hint: pass --score ….'
        >>> in_options("scores_are: got 'odds'; expected logits. Hint: leave scores_are out.", {"--scores-are"})
        "--scores-are: got 'odds'; expected logits. Hint: leave --scores-are out."
        >>> in_options("l2: got -1; expected a number ≥ 0. Hint: leave l2 out.", (), {"l2"})
        '--set l2: got -1; expected a number ≥ 0. Hint: leave l2 out.'
    """

    def option(found: re.Match[str]) -> str:
        flag = f"--{found[1].replace('_', '-')}"
        value = next((text for text in found.groups()[1:] if text), "")
        return found[0] if flag not in options else f"{flag} {value}".rstrip()

    head, got, rest = message.replace(": got None;", ": got nothing;").partition(": got ")
    if head in settings:
        head = f"--set {head}"
    elif "--out" in options and re.fullmatch(r"output (file|folder)", head):
        head = "--out"
    elif got and re.fullmatch(r"(\w+, )*(\w+ of )?\w+", head):
        head = re.sub(r"(\w+)(?=,|$)", option, head)
    body, hint, advice = f"{head}{got}{rest}".partition("Hint: ")
    advice = re.sub(r"(?<![\w'\"-])([a-z]+_[a-z_]+)(?![\w'\"=(])", option, advice)
    setting = re.compile(r"""(?<![\w-])([a-z_]+)=(?:"([^"]*)"|(\w+(?:\.\w+)*)|(?![\w"'{(\[]))""")
    return setting.sub(option, body) + hint + setting.sub(option, advice)


def _usage(error: UsageError) -> str:
    text = _one_line(error.format_message())
    option = next(reversed(getattr(getattr(error, "param", None), "opts", ())), "")
    message = _one_line(getattr(error, "message", "")).partition(", unable")[0]
    expected = re.sub(r"^(Input should be |Value error, .* is not (?=one of ))", "", message)
    if option.startswith("-") and expected and (values := _values_of(option, SETTINGS.given)):
        text = f"{option}: got {shown(repr(values[-1]))}; expected {expected.removesuffix('.')}"
    context = getattr(error, "ctx", None)
    stop = "" if text.endswith((".", "?")) else "."
    return text if context is None else f"{text}{stop} Hint: {context.command_path} --help."


def _values_of(option: str, given: Sequence[str]) -> list[str]:
    """The values that an option was given, in order."""
    found = [after for before, after in pairwise(given) if before == option]
    return found + [text.partition("=")[2] for text in given if text.startswith(f"{option}=")]


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _end(line: str, code: int) -> int:
    typer.echo(line, err=True)
    return code


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    def show(message: Warning | str, *_: object, **__: object) -> None:
        typer.echo(f"warning: {to_message(str(message))}", err=True)

    with warnings.catch_warnings():
        # a user can act on our own warnings only
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", MonocalWarning)
        warnings.showwarning = show
        yield
