"""Errors that name the argument, the value, the wish and the way out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class MonocalError(Exception):
    """Everything this package raises on purpose."""


class InvalidInput(MonocalError, ValueError):
    """An argument cannot be used.

    The message is always built from the same four parts, so that a reader knows where to look.

    Example:
        >>> print(InvalidInput.of("weights", -1.0, "numbers that are zero or positive", "drop the row or use 0"))
        weights: got -1.0; wanted numbers that are zero or positive. Way out: drop the row or use 0.
    """

    @classmethod
    def of(cls, argument: str, value: Any, wish: str, way_out: str) -> InvalidInput:
        return cls(f"{argument}: got {value}; wanted {wish}. Way out: {way_out}.")


class UnknownName(InvalidInput):
    """A name (column, method, metric, option) that does not exist, with the nearest ones that do.

    Example:
        >>> print(UnknownName.among("column", "site", ["site_id", "app_id", "click"]))
        column: got 'site'; wanted one of site_id, app_id, click. Way out: did you mean 'site_id'?
    """

    @classmethod
    def among(cls, kind: str, name: str, known: Iterable[str]) -> UnknownName:
        names = list(known)
        near = nearest_name(name, names)
        shown = ", ".join(names[:20]) + (f", … ({len(names)} in all)" if len(names) > 20 else "")
        hint = f"did you mean {near!r}?" if near else "choose one of them."
        return cls(f"{kind}: got {name!r}; wanted one of {shown or '(there are none)'}. Way out: {hint}")


class ArtefactError(MonocalError):
    """A saved model is damaged, tampered with, or written by a newer version. Nothing was loaded."""


class MonocalWarning(UserWarning):
    """Something worth knowing that does not stop the work (a fall-back, a step limit reached)."""


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name closest to `name`, or None if nothing is close.

    Example:
        >>> nearest_name("isotonik", ["isotonic", "platt"])
        'isotonic'
    """
    by_lower = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    if found:
        return by_lower[found[0]]
    return next((full for low, full in by_lower.items() if name.lower() in low or low in name.lower()), None)
