"""What a fit is asked, beside its rows and their roles."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

from monocal.calibrators import CALIBRATORS, Calibrator, calibrator
from monocal.core.errors import InvalidInput
from monocal.core.roles import Roles
from monocal.logs.encoded_log import EncodedLog
from monocal.logs.late_input import Embeddings, late_input
from monocal.logs.scored_input import ScoredInput
from monocal.tables.late_labels import LateLabels
from monocal.tables.rows import Rows


@final
@dataclass(frozen=True, eq=False)
class FitOptions:
    """How rows are fitted; an unknown method or argument is refused at once, before anything is read.

    Attributes:
        method: Name of the calibrator.
        arguments: Constructor arguments of the calibrator.
        min_count: Field values with fewer rows count as unseen.
        max_size: The most values a field may have; rarer ones count as unseen.
        embeddings: A ranker's table per field, for methods that can use it; None means those of the log, if any.
    """

    method: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    min_count: int = 1
    max_size: int | None = None
    embeddings: Embeddings | None = None

    def __post_init__(self) -> None:
        self.calibrator()

    def calibrator(self) -> Calibrator:
        """Returns a calibrator that is not fitted yet."""
        return calibrator(self.method, **self.arguments)

    @property
    def limits(self) -> dict[str, Any]:
        """Bounds of the vocabulary."""
        return {"min_count": self.min_count, "max_size": self.max_size}


def method_and_arguments(
    caller: Callable[..., Any], method: str | Calibrator, arguments: Mapping[str, Any], **own: Any
) -> tuple[str, dict[str, Any]]:
    """Returns a method's name and the arguments that are the method's alone.

    Arguments:
        caller: A public function that takes a method.
        method: A name, or a calibrator with the arguments it was made with; whether it is fitted does not matter.
        arguments: Arguments beside a name.
        own: Arguments of the caller that methods have as well. Beside a name nobody can say whose they are, so one that
            differs from the caller's default is refused; beside a calibrator they are the caller's.

    Example:
        >>> def fit(table, *, method="umc", seed=0, **arguments):
        ...     return method_and_arguments(fit, method, arguments, seed=seed)
        >>> fit([], method="histogram", n_bins=20, seed=1), fit([], method=calibrator("umc", seed=5), seed=1)
        (('histogram', {'n_bins': 20}), ('umc', {'seed': 5}))
        >>> fit([], method="umc", seed=1)
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: seed: got 1; expected to know whose it is: both fit and 'umc' have one. Hint:
        method=monocal.calibrator('umc', seed=1) sets the method's, method=monocal.calibrator('umc') leaves it to fit.
    """
    if isinstance(method, Calibrator):
        return _taken_apart(method, arguments)
    if not isinstance(method, str):
        hint = 'write method="platt" or method=monocal.calibrator("platt", l2=1.0)'
        raise InvalidInput.of("method", repr(method), "the name of a method, or one with its arguments", hint)
    known = CALIBRATORS.named(method)().get_params(deep=False)
    defaults = inspect.signature(caller).parameters
    for name, value in own.items():
        if name in known and value != defaults[name].default:
            raise InvalidInput.of(
                name,
                value,
                f"to know whose it is: both {caller.__name__} and {method!r} have one",
                f"method=monocal.calibrator({method!r}, {name}={value!r}) sets the method's, "
                f"method=monocal.calibrator({method!r}) leaves it to {caller.__name__}",
            )
    return method, dict(arguments)


def _taken_apart(method: Calibrator, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    name = method.name
    if CALIBRATORS.get(name) is not type(method):
        hint = (
            "offer its class as an entry point of the group monocal.calibrators, so that models with it can be loaded"
        )
        raise InvalidInput.of("method", repr(type(method)), "a method of monocal.methods()", hint)
    for argument, value in arguments.items():
        hint = f"write monocal.calibrator({name!r}, {argument}={value!r})"
        raise InvalidInput.of(argument, value, f"arguments of {name!r} in the object that was given", hint)
    return name, method.changed_params()


def rows_to_fit(
    table: ScoredInput, roles: Roles, asked: FitOptions
) -> tuple[Rows | EncodedLog, FitOptions, LateLabels | None]:
    """Returns rows in time order, or a log; options with what only these can tell; what is known of late labels.

    Arguments:
        table: A table, or a log with scores.
        roles: Which column plays which part.
        asked: How they will be fitted.
    """
    rows, embeddings, labels = late_input(table, roles)
    if asked.embeddings is None:
        asked = replace(asked, embeddings=embeddings)
    return rows, asked, labels
