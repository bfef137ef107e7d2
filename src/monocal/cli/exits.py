"""How a command ends: exit codes, and one clear line for every error."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise, takewhile

import typer

from monocal.cli.spelling import in_options
from monocal.core.errors import InvalidInput, MissingFolder, MonocalError, MonocalWarning, shown

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
    REFUSED: "the gate did not let a new model pass; nothing was replaced",
    ALARM: "an alarm: the model in use is no longer calibrated (watch)",
    INTERRUPTED: "interrupted with Ctrl-C; no half-written output is left",
    TERMINATED: "ended by SIGTERM; no half-written output is left",
}

_EXTRAS = {
    "torch": "neural",
    "numba": "neural",
    "altair": "report",
    "vl_convert": "report",
    "matplotlib": "report",
    "starlette": "serve",
    "uvicorn": "serve",
    "orjson": "serve",
    "prometheus_client": "serve",
    "onnx": "export",
    "onnxruntime": "export",
    "optuna": "bench",
    "lightgbm": "bench",
    "psutil": "bench",
    "mcgrad": "peers",
}


@dataclass
class _Settings:
    """What is known about the command that runs.

    Attributes:
        debug: Whether errors say where they came from.
        offered: Returns the options of its verb.
        settings: Names that the caller gave with --set.
        given: The words of the command.
    """

    debug: bool = False
    offered: Callable[[], Collection[str] | None] = lambda: None
    settings: Collection[str] = ()
    given: Sequence[str] = ()


SETTINGS = _Settings()


class Terminated(BaseException):
    """SIGTERM arrived; like an interrupt it must run every clean-up on exit."""


def run_guarded(
    command: Callable[[], object],
    offered: Callable[[], Collection[str] | None] = lambda: None,
    settings: Collection[str] = (),
    given: Sequence[str] = (),
) -> int:
    """Runs a command and returns its exit code; an error becomes one line on standard error.

    Arguments:
        command: What to run.
        offered: Returns the options of its verb, in whose words errors are told.
        settings: Names that the caller gave with --set.
        given: The words of the command, of which an error repeats the wrong one.
    """
    SETTINGS.debug, SETTINGS.offered, SETTINGS.settings, SETTINGS.given = False, offered, settings, given
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
    if isinstance(error, typer.TyperException):
        return error.exit_code
    return UNUSABLE if isinstance(error, InvalidInput | MissingFolder) else FAILURE


def describe(error: Exception) -> str:
    """Returns one line that tells a user what happened and what to do.

    Example:
        >>> describe(ModuleNotFoundError("No module named 'torch'", name="torch"))
        "this needs the package torch, which is not installed. Hint: pip install 'monocal[neural]'."
    """
    if isinstance(error, typer.TyperException):
        return _usage(error)
    if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] in _EXTRAS:
        package = (error.name or "").split(".")[0]
        return (
            f"this needs the package {package}, which is not installed. "
            f"Hint: pip install 'monocal[{_EXTRAS[package]}]'."
        )
    if isinstance(error, MonocalError):
        return told(str(error))
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


def told(message: str) -> str:
    """Returns a message of the library in one line, in the words of the verb that runs."""
    return in_options(_one_line(message), SETTINGS.offered(), SETTINGS.settings)


def _usage(error: typer.TyperException) -> str:
    text = _one_line(error.format_message())
    option = next(reversed(getattr(getattr(error, "param", None), "opts", ())), "")
    wish = _one_line(getattr(error, "message", "")).removeprefix("Input should be ").partition(", unable")[0]
    if option.startswith("-") and wish and (value := _value_of(option, SETTINGS.given)) is not None:
        text = f"{option}: got {shown(repr(value))}; expected {wish.removesuffix('.')}"
    context = getattr(error, "ctx", None)
    stop = "" if text.endswith((".", "?")) else "."
    return text if context is None else f"{text}{stop} Hint: {context.command_path} --help."


def _value_of(option: str, given: Sequence[str]) -> str | None:
    found = [after for before, after in pairwise(given) if before == option]
    found += [text.partition("=")[2] for text in given if text.startswith(f"{option}=")]
    return found[-1] if found else None


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _end(line: str, code: int) -> int:
    typer.echo(line, err=True)
    return code


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    def show(message: Warning | str, *_: object, **__: object) -> None:
        typer.echo(f"warning: {told(str(message))}", err=True)

    with warnings.catch_warnings():
        # a user can act on our own warnings only
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", MonocalWarning)
        warnings.showwarning = show
        yield
