"""Packages that only some steps need."""

from __future__ import annotations

from importlib.util import find_spec

from monocal.core.errors import MonocalError


class MissingPackage(MonocalError, ImportError):
    """A package that this step needs is not installed. The message says how to get it."""


def need(package: str, step: str, extra: str) -> None:
    """Refuses to go on without a package.

    Example:
        >>> need("no_such_package", "flying", "wings")
        Traceback (most recent call last):
        ...
        monocal.neural.packages.MissingPackage: flying needs the package 'no_such_package', ...
    """
    if find_spec(package) is None:
        raise MissingPackage(
            f"{step} needs the package {package!r}, which is not installed. Hint: pip install 'monocal[{extra}]'"
        )
