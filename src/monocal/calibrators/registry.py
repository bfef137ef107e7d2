"""The methods by name: our own, those that installed distributions offer as entry points, and how to make one.

A class is imported when it is first asked for: `methods` of the simple kind never load what networks need.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from inspect import isabstract
from typing import Any, final
from warnings import warn

from monocal.calibrators.base import Calibrator
from monocal.calibrators.contract import Tags, check_arguments, parameter_names
from monocal.core.errors import InvalidInput, MonocalError, MonocalWarning, check_known

AUTO = "auto"
"""In place of a method: the best that is installed."""

GROUP = "monocal.calibrators"
"""The entry-point group: `name = "package.module:Class"`, where the class has the same `name`."""


OWN = {
    "none": "monocal.calibrators.platt:Uncalibrated",
    "histogram": "monocal.calibrators.binned:Histogram",
    "isotonic": "monocal.calibrators.binned:Isotonic",
    "sir": "monocal.calibrators.binned:Sir",
    "platt": "monocal.calibrators.platt:Platt",
    "temperature": "monocal.calibrators.platt:Temperature",
    "beta": "monocal.calibrators.platt:Beta",
    "gauss": "monocal.calibrators.gauss_gamma:Gauss",
    "gamma": "monocal.calibrators.gauss_gamma:Gamma",
    "wide_logistic": "monocal.wide.calibrator:WideLogistic",
    "per_segment": "monocal.calibrators.per_segment:PerSegment",
    "umc": "monocal.neural.methods:Umc",
    "fac": "monocal.neural.methods:Fac",
    "sbcr": "monocal.neural.methods:Sbcr",
    "desc": "monocal.neural.methods:Desc",
}
"""Our own methods, in the order in which they are listed, and where their classes are."""


def own_class(name: str) -> type[Calibrator]:
    """Returns one of our methods by its public name, such as "Umc"."""
    return next(_imported(place) for place in OWN.values() if place.endswith(f":{name}"))


def _imported(place: str) -> type[Calibrator]:
    module, _, kind = place.partition(":")
    found: type[Calibrator] = getattr(import_module(module), kind)
    return found


class BrokenMethod(MonocalError):
    """An installed distribution offers a method that cannot be used. The message names both."""


@lru_cache(maxsize=4)
def _offers(_path: tuple[str, ...]) -> dict[str, list[EntryPoint]]:
    """Returns the entry points by name, for one state of `sys.path`: reading them takes milliseconds."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        found.setdefault(entry.name, []).append(entry)
    return dict(sorted(found.items()))


@final
class Catalogue(Mapping[str, type[Calibrator]]):
    """The classes of all methods; one from elsewhere is imported when it is first asked for, not when it is listed.

    Names of this package come first and cannot be taken by others.

    Example:
        >>> CALIBRATORS["platt"].__name__, "mbct" in CALIBRATORS, "isotonik" in CALIBRATORS
        ('Platt', True, False)
    """

    def __getitem__(self, name: str) -> type[Calibrator]:
        if name in OWN:
            return _imported(OWN[name])
        offers = _offers(tuple(sys.path)).get(name)
        if offers is None:
            raise KeyError(name)
        return _load(name, offers)

    def __contains__(self, name: Any) -> bool:
        return name in OWN or name in _offers(tuple(sys.path))

    def __iter__(self) -> Iterator[str]:
        yield from OWN
        yield from (name for name in _offers(tuple(sys.path)) if name not in OWN)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def named(self, name: str) -> type[Calibrator]:
        """Returns a method's class, or says which names there are."""
        check_known("method", name, self)
        return self[name]


def _load(name: str, offers: list[EntryPoint]) -> type[Calibrator]:
    origins = ", ".join(f"{entry.dist.name if entry.dist else '?'} ({entry.value})" for entry in offers)
    if len(offers) > 1:
        raise BrokenMethod(f"the method {name!r} is offered by {origins}; uninstall all but one of them")
    try:
        found = offers[0].load()
    except (ImportError, AttributeError) as error:
        raise BrokenMethod(f"the method {name!r} of {origins} cannot be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Calibrator) and not isabstract(found) and found.name == name):
        raise BrokenMethod(
            f"the method {name!r} of {origins} is {found!r}; expected a class derived from "
            f"monocal.calibrators.Calibrator whose name is {name!r}"
        )
    return found


CALIBRATORS = Catalogue()


@dataclass(frozen=True)
class MethodInfo:
    """One method.

    Attributes:
        name: What `calibrator` calls it.
        summary: One line about it.
        tags: Its promises.
    """

    name: str
    summary: str
    tags: Tags


def calibrator(method: str | Calibrator, /, **arguments: Any) -> Calibrator:
    """Returns an unfitted calibrator, by name or like another one.

    Arguments:
        method: One of `methods()`, or a calibrator, of which the arguments count and not whether it is fitted. "auto"
            is `umc`, and `wide_logistic` where torch is not installed, which is said.
        arguments: What the method's class takes; an unknown one is refused with the nearest known, an impossible value
            with the possible ones.

    Example:
        >>> calibrator("histogram", n_bins=20)
        Histogram(n_bins=20)
        >>> calibrator("isotonik")
        Traceback (most recent call last):
        ...
        monocal.core.errors.UnknownName: method: got 'isotonik'; ... Hint: did you mean 'isotonic'?
    """
    if isinstance(method, Calibrator):
        kind = type(method)
        if CALIBRATORS.get(method.name) is not kind:
            hint = "offer its class as an entry point of the group monocal.calibrators, so that models with it load"
            raise InvalidInput.of("method", repr(kind), "a method of monocal.methods()", hint)
        arguments = method.changed_params() | arguments
    elif isinstance(method, str):
        kind = CALIBRATORS.named(_best_installed() if method == AUTO else method)
    else:
        hint = 'write method="platt" or method=monocal.Platt(l2=1.0)'
        raise InvalidInput.of("method", repr(method), "the name of a method, or one with its arguments", hint)
    known = parameter_names(kind)
    for name in arguments:
        check_known(f"argument of {kind.name!r}", name, known)
    check_arguments(kind, arguments)
    made = kind(**arguments)
    _ = made.tags  # a method around another one makes that, too, which refuses what it cannot be
    return made


def _best_installed() -> str:
    """The method for a caller who names none."""
    if find_spec("torch") is not None:
        return "umc"
    warn(
        "method: 'wide_logistic', because 'umc' needs torch. Hint: pip install 'monocal[neural]', or name a method",
        MonocalWarning,
        stacklevel=4,
    )
    return "wide_logistic"


def methods() -> list[MethodInfo]:
    """Lists every method with one line and its promises.

    Example:
        >>> [method.name for method in methods()][:3]
        ['none', 'histogram', 'isotonic']
    """
    return [
        MethodInfo(name, (kind.__doc__ or "").strip().splitlines()[0], kind().tags)
        for name, kind in CALIBRATORS.items()
    ]
