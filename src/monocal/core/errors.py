"""Errors that name the argument, the value, what was expected and a hint."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Collection, Iterable
from importlib.util import find_spec
from typing import Any

LONGEST_SHOWN = 200
"""Characters of a value or a name that a message repeats."""


_BRIEF = reprlib.Repr()  # its bounds are arguments only from python 3.12 on
_BRIEF.maxlevel = 4
_BRIEF.maxlist = _BRIEF.maxtuple = _BRIEF.maxdict = _BRIEF.maxset = 50
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = LONGEST_SHOWN


class MonocalError(Exception):
    """Everything this package raises on purpose."""


class InvalidInput(MonocalError, ValueError):
    """An argument cannot be used.

    The message is always built from the same four parts, so that a reader knows where to look.

    Example:
        >>> print(InvalidInput.of("weights", -1.0, "numbers that are zero or positive", "drop the row or use 0"))
        weights: got -1.0; expected numbers that are zero or positive. Hint: drop the row or use 0.
    """

    @classmethod
    def of(cls, argument: str, value: Any, expected: str, hint: str) -> InvalidInput:
        return cls(f"{shown(argument)}: got {shown(value)}; expected {expected}. Hint: {hint}.")


class UnknownName(InvalidInput):
    """A name (column, method, metric, option) that does not exist, with the nearest ones that do.

    Example:
        >>> print(UnknownName.among("column", "site", ["site_id", "app_id", "click"]))
        column: got 'site'; expected one of site_id, app_id, click. Hint: did you mean 'site_id'?
    """

    @classmethod
    def among(cls, kind: str, name: str, known: Iterable[str], otherwise: str = "choose one of them") -> UnknownName:
        names = list(known)
        # comparing a text of megabytes with every name takes seconds and finds nothing
        near = nearest_name(name, names) if len(name) <= LONGEST_SHOWN else None
        listed = ", ".join(names[:20]) + (f", … ({len(names)} in all)" if len(names) > 20 else "")
        hint = f"did you mean {near!r}?" if near else f"{otherwise}."
        got = shown(repr(name[: LONGEST_SHOWN + 1]))
        return cls(f"{shown(kind)}: got {got}; expected one of {listed or '(there are none)'}. Hint: {hint}")


def check_known(kind: str, name: str, known: Collection[str]) -> None:
    """Refuses a name that is not among the known ones; arguments as for the error, `UnknownName.among`.

    Example:
        >>> check_known("method", "platt", ["platt", "isotonic"])
        >>> check_known("method", "isotonik", ["platt", "isotonic"])
        Traceback (most recent call last):
        ...
        monocal.core.errors.UnknownName: method: got 'isotonik'; ... Hint: did you mean 'isotonic'?
    """
    if name not in known:
        raise UnknownName.among(kind, name, known)


class ArtefactError(MonocalError):
    """A saved model is damaged, tampered with, or written by a newer version. Nothing was loaded."""


class MissingFolder(ArtefactError):
    """There is no folder where a saved model or a log was looked for."""


class DiskFull(MonocalError, OSError):
    """There was no room to write something. What was there before is there still, and nothing half-written is."""


class LostMember(MonocalError):
    """A process that fits together with this one is gone or cannot be reached. This one saves nothing.

    Example:
        >>> print(LostMember.of("Connection closed by peer"))
        a process of this fit is lost: Connection closed by peer. Nothing is saved. Hint: see which process ended
        first and why, then start again.
    """

    @classmethod
    def of(cls, what: str) -> LostMember:
        return cls(
            f"a process of this fit is lost: {shown(what)}. Nothing is saved. Hint: see which process ended first "
            "and why, then start again."
        )


class MissingPackage(MonocalError, ModuleNotFoundError):
    """A package that this step needs is not installed. The message says how to get it."""


def need(package: str, step: str, extra: str) -> None:
    """Refuses to go on without a package.

    Example:
        >>> need("no_such_package", "flying", "wings")
        Traceback (most recent call last):
        ...
        monocal.core.errors.MissingPackage: flying needs the package 'no_such_package', ...
    """
    if find_spec(package) is None:
        raise MissingPackage(
            f"{step} needs the package {package!r}, which is not installed. Hint: pip install 'monocal[{extra}]'"
        )


class MonocalWarning(UserWarning):
    """Something worth knowing that does not stop the work (a fall-back, a step limit reached)."""


def shown(value: Any) -> str:
    """Returns a value as text, cut so that a message stays readable whatever came in.

    Example:
        >>> shown([1, 2]), len(shown("x" * 10_000_000))
        ('[1, 2]', 200)
    """
    text = _BRIEF.repr(value) if isinstance(value, list | tuple | dict | set) else str(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…"


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name closest to `name`, or None if nothing is close.

    Example:
        >>> nearest_name("isotonik", ["isotonic", "platt"])
        'isotonic'
    """
    by_lower = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    if found:
        return by_lower[found[0]]
    return next((full for low, full in by_lower.items() if name.lower() in low or low in name.lower()), None)
