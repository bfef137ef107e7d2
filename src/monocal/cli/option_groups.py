"""Options that verbs share, several at a time: each group is declared once and says what the library gets."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from typing import Any, final, get_type_hints

from monocal.cli import arguments
from monocal.cli.options import (
    EventTime,
    Group,
    Holdout,
    Label,
    LabelTime,
    Logits,
    MaxSize,
    MinCount,
    Numeric,
    SamplingRate,
    Score,
    Since,
    SoftLabels,
    Time,
    Until,
    Weight,
    Window,
)


class _Group:
    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of library functions that these options stand for."""
        return dict(vars(self))


@final
@dataclass(frozen=True)
class ScoredColumns(_Group):
    """A score, its label, and how rows count."""

    score: Score = None
    label: Label = None
    weight: Weight = None
    group: Group = None
    rate: SamplingRate = None
    logits: Logits = False
    soft_labels: SoftLabels = False

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of library functions that these options stand for."""
        found = dict(vars(self))
        found["sampling_rate"] = arguments.sampling_rate(found.pop("rate"))
        found["scores_are"] = "logit" if found.pop("logits") else "probability"
        return found


@final
@dataclass(frozen=True)
class FitSettings(_Group):
    """What a fit makes of its fields, and which rows judge it."""

    numeric: Numeric = None
    time: Time = None
    holdout: Holdout = 0.2
    min_count: MinCount = 1
    max_size: MaxSize = None

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of library functions that these options stand for."""
        return vars(self) | {"numeric": arguments.names(self.numeric)}


@final
@dataclass(frozen=True)
class Period(_Group):
    """Which rows of a table, by time."""

    time: Time = None
    since: Since = None
    until: Until = None


@final
@dataclass(frozen=True)
class LateLabels(_Group):
    """Where labels may still come."""

    event_time: EventTime = None
    label_time: LabelTime = None
    window: Window = None


def with_options_of_groups(verb: Callable[..., None]) -> Callable[..., None]:
    """Returns a verb that takes, instead of each group, the options of the group one by one, in its place.

    Arguments:
        verb: A function some of whose parameters are groups, as their annotations say.

    Example:
        >>> def show(table: str, period: Period, late: LateLabels) -> None:
        ...     print(table, period.arguments(), late.window)
        >>> flat = with_options_of_groups(show)
        >>> list(inspect.signature(flat).parameters)
        ['table', 'time', 'since', 'until', 'event_time', 'label_time', 'window']
        >>> flat(table="log", time="t", since="1", until=None, event_time=None, label_time=None, window="7d")
        log {'time': 't', 'since': '1', 'until': None} 7d
    """
    hints = get_type_hints(verb, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    if not groups:
        return verb
    options: list[inspect.Parameter] = []
    for given in inspect.signature(verb).parameters.values():
        # by name only: a group has no default, and may then stand behind options that have one
        parameter = given.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[given.name])
        if parameter.name not in groups:
            options.append(parameter)
            continue
        kinds = get_type_hints(groups[parameter.name], include_extras=True)
        for option in fields(groups[parameter.name]):
            options.append(parameter.replace(name=option.name, default=option.default, annotation=kinds[option.name]))

    @wraps(verb)
    def flat(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{option.name: given.pop(option.name) for option in fields(group)})
        verb(**given)

    vars(flat)["__signature__"] = inspect.Signature(options)
    flat.__annotations__ = {option.name: option.annotation for option in options}
    return flat
