"""What a calibrator is made with, promises, takes and keeps: arguments, tags, rows of a fit, learned state."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from types import UnionType
from typing import Any, Literal, NamedTuple, Self, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput, UnknownName, nearest_name
from monocal.core.fields import Ids
from monocal.core.scores import Floats


@dataclass(frozen=True)
class Tags:
    """Promises of one calibrator.

    Attributes:
        monotone: Whether a higher score never gets a lower probability *for a fixed feature row*: `strict` (a
            higher one wherever float64 can tell them apart), `weak` (ties allowed) or `none`.
            With features two impressions may still swap, so AUC can move.
        features: Whether field ids are `unused`, `optional` or `required`.
        keeps_mean: The mean prediction on the fitting rows equals their observed rate: PCOC there is 1.
        deterministic: The same rows and seed give the same numbers.
        weights_exactly: Integer weights give the same fit as repeated rows. Where false (training by mini-batches),
            weights enter every loss and statistic that way, but the batches differ.
        reconstruction: No released code exists; this follows public summaries.
    """

    monotone: Literal["strict", "weak", "none"]
    features: Literal["unused", "optional", "required"] = "unused"
    keeps_mean: bool = False
    deterministic: bool = True
    weights_exactly: bool = True
    reconstruction: bool = False

    @property
    def uses_features(self) -> bool:
        return self.features != "unused"

    def as_dict(self) -> dict[str, str | bool]:
        return asdict(self)


RowScorer = Callable[[Floats, Ids], Floats]
"""A fitted calibrator as one function, for thousands of small calls a second: probabilities of logits and field ids.

Rows were checked already: finite float64 logits after the sampling correction, ids ≥ 0 `(n, F)`, int32 and
C-contiguous, in the field order of `fit` (ids that were not there count as unseen; F = 0 for a model without fields). A
row's answer depends on that row alone: neither on the rows beside it nor on how many there are. Hence offline and
online numbers agree to the last bit."""


_REFUSALS = {
    "numbers": (
        "numeric",
        "one that can use numeric fields: umc, sbcr, fac, desc, mcnet or wide_logistic",
        "choose one of them, or put the numbers into classes and name those under fields=",
    ),
    "refresh": (
        "model",
        "one that can go on from its last fit",
        "fit it anew on a window of recent rows, or use umc, wide_logistic, platt or isotonic",
    ),
    "interval": ("interval", "one with intervals of rows", "use wide_logistic, umc or another network"),
    "onnx": (
        "model",
        "one that can be exported to ONNX",
        "serve it with monocal serve, or give its class the method _map",
    ),
}
"""What is asked for to the argument that asks, what was expected and a hint."""


def refusal(asked: Literal["numbers", "refresh", "interval", "onnx"], method: str) -> InvalidInput:
    """Returns the error of a method that has no use for fields of numbers, or cannot do one of the others.

    Example:
        >>> str(refusal("interval", "platt")).split("; ")[0]
        "interval: got the method 'platt'"
    """
    argument, wanted, hint = _REFUSALS[asked]
    return InvalidInput.of(argument, f"the method {method!r}", wanted, hint)


# Rows of a fit


def check_both_classes(data: Dataset) -> None:
    """Refuses rows of one class."""
    if not data.has_both_classes:
        raise InvalidInput.of(
            "labels",
            f"only {int(data.labels[:1].sum())}s in {data.n_rows} rows",
            "both 0 and 1 among rows with positive weight",
            'widen the time window until both occur, or keep the score as it is with method "none"',
        )


def check_features(method: str, tags: Tags, data: Dataset, n_fields: int | None = None) -> None:
    """Refuses rows without the fields that a method needs, or with another number of them than its fit saw."""
    if tags.features == "required" and data.ids is None:
        raise InvalidInput.of(
            "features", None, f"field ids, which {method!r} needs", "pass features=, or choose another method"
        )
    given = 0 if data.ids is None else data.ids.shape[1]
    if n_fields is not None and tags.uses_features and given != n_fields:
        raise InvalidInput.of(
            "features",
            f"{given} fields",
            f"the {n_fields} fields that fit saw, in the same order",
            "pass the same columns as at fit",
        )


def check_partition(method: str, fits_in_parts: bool, looks_at_time: bool, data: Dataset) -> None:
    """Refuses to fit rows in parts by what needs all of them in one place."""
    if data.partition is None or data.partition.n == 1:
        return
    if not fits_in_parts:
        expected = "one that is fitted in shards: wide_logistic, umc, sbcr, fac, desc"
        raise InvalidInput.of("method", repr(method), expected, "fit it on one machine")
    if looks_at_time and data.partition.order is None:
        raise InvalidInput.of(
            "time",
            None,
            f"a column that orders rows by time, for {method!r} with carry, recent_share or guard",
            'name the column, or set carry="none", recent_share=0 and guard=False',
        )


# What a fit learned


@dataclass
class CalibratorState:
    """What a fitted calibrator knows: `arrays` go to safetensors, `values` to the JSON manifest.

    Attributes:
        arrays: Numeric arrays by name; nested ones are joined with a slash.
        values: Numbers, strings, booleans, lists and nested calibrators' descriptions.
    """

    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)


def pack(learned: dict[str, Any]) -> CalibratorState:
    """Sorts learned attributes into arrays and values.

    Example:
        >>> state = pack({"slope_": 2.0, "knots_": np.array([0.0, 1.0])})
        >>> state.values, list(state.arrays)
        ({'slope_': 2.0}, ['knots_'])
    """
    state = CalibratorState()
    for name, value in learned.items():
        if isinstance(value, np.ndarray):
            state.arrays[name] = value
        elif isinstance(value, dict) and value and all(isinstance(array, np.ndarray) for array in value.values()):
            state.arrays.update({f"{name}/{key}": array for key, array in value.items()})
        else:
            state.values[name] = value.item() if isinstance(value, np.generic) else value
    return state


def unpack(state: CalibratorState) -> dict[str, Any]:
    """Undoes `pack`."""
    learned: dict[str, Any] = dict(state.values)
    for name, array in state.arrays.items():
        owner, _, key = name.partition("/")
        if key:
            learned.setdefault(owner, {})[key] = array
        else:
            learned[name] = array
    return learned


def with_prefix(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def without_prefix(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    start = prefix + "/"
    return {name[len(start) :]: array for name, array in arrays.items() if name.startswith(start)}


# Arguments


class Parameters:
    """Constructor arguments that can be read, set and copied, by the names of the constructor.

    `sklearn.base.clone`, pipelines and searches need no more. Importing scikit-learn's own base class costs more than
    a second, because it loads scipy.stats and pandas; here it is loaded when one of its functions asks for tags.

    Example:
        >>> class Bins(Parameters):
        ...     def __init__(self, n_bins=10):
        ...         self.n_bins = n_bins
        >>> Bins().set_params(n_bins=20).cloned().get_params()
        {'n_bins': 20}
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Returns the constructor's arguments.

        Arguments:
            deep: Whether to add the arguments of arguments that have some, as `name__argument`.
        """
        found: dict[str, Any] = {}
        for name in parameter_names(type(self)):
            found[name] = value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found |= {f"{name}__{inner}": setting for inner, setting in value.get_params().items()}
        return found

    def set_params(self, **parameters: Any) -> Self:
        """Sets arguments of the constructor, also `name__argument`; an unknown one is refused.

        Arguments:
            parameters: Names and values.
        """
        known = parameter_names(type(self))
        for name, value in parameters.items():
            owner, _, inner = name.partition("__")
            if owner not in known:
                raise UnknownName.among(f"argument of {type(self).__name__}", name, known)
            if inner:
                getattr(self, owner).set_params(**{inner: value})
            else:
                setattr(self, name, value)
        return self

    def changed_params(self) -> dict[str, Any]:
        """Returns the arguments that differ from their defaults."""
        defaults = type(self)().get_params(deep=False)
        return {name: value for name, value in self.get_params(deep=False).items() if value != defaults[name]}

    def cloned(self) -> Self:
        """Returns an unfitted copy with the same arguments, as `sklearn.base.clone` does."""
        return type(self)(**copy.deepcopy(self.get_params(deep=False)))

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        return BaseEstimator.__sklearn_tags__(self)


def parameter_names(kind: type) -> list[str]:
    """Returns the names of a class's constructor arguments, in alphabetical order."""
    given = inspect.signature(kind.__init__).parameters.values()  # type: ignore[misc]
    open_ended = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return sorted(
        parameter.name for parameter in given if parameter.name != "self" and parameter.kind not in open_ended
    )


class Range(NamedTuple):
    """Possible numbers.

    Attributes:
        low: The least.
        high: The bound above.
        includes_low: Whether `low` itself is possible.
        includes_high: Whether `high` itself is possible.
    """

    low: float
    high: float = float("inf")
    includes_low: bool = True
    includes_high: bool = False

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int | float):
            return False
        above = number >= self.low if self.includes_low else number > self.low
        return above and (number <= self.high if self.includes_high else number < self.high)

    def __str__(self) -> str:
        if self.high == float("inf"):
            return f"a number {'≥' if self.includes_low else '>'} {self.low:g}"
        left, right = "[" if self.includes_low else "(", "]" if self.includes_high else ")"
        return f"a number in {left}{self.low:g}, {self.high:g}{right}"


_COUNT, _POSITIVE, _NOT_NEGATIVE, _SHARE = Range(1), Range(0, includes_low=False), Range(0), Range(0, 1)
RANGES: Mapping[str, Range] = {
    "batch_rows": _COUNT,
    "bits": Range(1, 30, includes_high=True),
    "cap": _POSITIVE,
    "curve_rows": _COUNT,
    "field": _NOT_NEGATIVE,
    "held_out_share": _SHARE,
    "kappa": _NOT_NEGATIVE,
    "l2": _NOT_NEGATIVE,
    "learning_rate": _POSITIVE,
    "max_depth": _COUNT,
    "max_iterations": _COUNT,
    "min_count": _COUNT,
    "min_events": _NOT_NEGATIVE,
    "min_positives": _NOT_NEGATIVE,
    "min_rows": _COUNT,
    "n_bins": _COUNT,
    "n_dimensions": _COUNT,
    "n_epochs": _COUNT,
    "n_intervals": _COUNT,
    "n_knots": Range(2),
    "n_threads": _COUNT,
    "n_trees": _COUNT,
    "negative_rate": Range(0, 1, includes_low=False, includes_high=True),
    "level_share": Range(0, 1, includes_high=True),
    "recent_share": _SHARE,
    "sc_weight": _NOT_NEGATIVE,
    "order_weight": _NOT_NEGATIVE,
    "score_bins": _COUNT,
    "seed": _NOT_NEGATIVE,
    "shrinkage": _NOT_NEGATIVE,
    "tau": _SHARE,
    "tolerance": _POSITIVE,
}
"""Argument to its possible numbers; an argument means the same in every method and ranker."""

_LISTS = {list, tuple, Sequence}
_LISTED: Mapping[type[Any], str] = {int: "whole numbers", float: "numbers", str: "names", object: "values"}


class Argument(NamedTuple):
    """One constructor argument.

    Attributes:
        name: What it is called.
        default: Its value if nothing is given.
        meaning: What it does, in a sentence or two.
        expected: Which values are possible, in words; empty if that is not known beforehand.
    """

    name: str
    default: Any
    meaning: str
    expected: str


def arguments_of(kind: type[Any]) -> list[Argument]:
    """Returns every constructor argument, its meaning from the docstrings of the class and of those it derives from.

    The class's own come first, then those of its bases.

    Example:
        >>> from monocal.calibrators.binned import Histogram
        >>> found = {argument.name: argument for argument in arguments_of(Histogram)}
        >>> found["binning"].expected, found["recent_share"].expected
        ("'width' or 'mass'", 'a number in [0, 1)')
    """
    found = [entry for base in reversed(kind.__mro__) for entry in _documented(base).items()]
    meanings = {name: text for name, text in found if not text.startswith("See `")}
    hints = _hints(kind)
    defaults = {name: parameter.default for name, parameter in inspect.signature(kind).parameters.items()}
    generality = {name: at for at, base in enumerate(kind.__mro__) for name in inspect.get_annotations(base)}
    return [
        Argument(name, defaults[name], meanings.get(name, ""), Possible.of(hints.get(name)).in_words(name))
        for name in sorted(defaults, key=lambda name: generality.get(name, 0))
    ]


def check_arguments(kind: type[Any], given: Mapping[str, Any]) -> None:
    """Refuses the first value that is impossible.

    Example:
        >>> from monocal.calibrators.platt import Platt
        >>> check_arguments(Platt, {"recent_share": 5})
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: recent_share: got 5; expected a number in [0, 1). Hint: ... the default, 0.0.
    """
    hints = _hints(kind)
    for name, value in given.items():
        possible = Possible.of(hints.get(name))
        if not possible.allows(name, value):
            choices = [choice for choice in possible.choices if isinstance(choice, str)]
            near = nearest_name(value, choices) if isinstance(value, str) else None
            default = inspect.signature(kind).parameters[name].default
            hint = f"did you mean {near!r}?" if near else f"leave {name} out to use the default, {default!r}"
            raise InvalidInput.of(name, repr(value), possible.in_words(name), hint)


class Possible(NamedTuple):
    """What a type hint allows: the values it names, types without their own arguments, and types inside of a list."""

    choices: Sequence[Any]
    types: set[Any]
    inside: set[Any]

    @classmethod
    def of(cls, hint: Any) -> Possible:
        members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        types = {get_origin(member) or member for member in members}
        lists = [member for member in members if get_origin(member) in _LISTS]
        return cls(
            [choice for member in members if get_origin(member) is Literal for choice in get_args(member)],
            types,
            {kind for member in lists for kind in get_args(member) if kind is not Ellipsis},
        )

    def is_known(self, name: str) -> bool:
        """Whether the hint says which values are possible; texts, and what is in a mapping, are left to the method."""
        return name in RANGES or bool(self.choices or self.types & {int, float, bool, dict, Mapping, *_LISTS})

    def allows(self, name: str, value: Any) -> bool:
        """Whether the argument of that name may have the value."""
        if value is None:
            return type(None) in self.types or not self.is_known(name)
        if any(value == choice and type(value) is type(choice) for choice in self.choices):
            return True
        if isinstance(value, bool):
            return bool in self.types or not self.is_known(name)
        if {int, float} & self.types and isinstance(value, int | float):
            is_whole = float in self.types or float(value).is_integer()
            return is_whole and value in RANGES.get(name, Range(-float("inf"), includes_low=False))
        if isinstance(value, str):
            return str in self.types or not self.is_known(name)
        if isinstance(value, list | tuple) and self.types & _LISTS:
            inside = tuple(self.inside | ({int} if float in self.inside else set()))
            return all(not isinstance(entry, bool) and isinstance(entry, inside) for entry in value if inside)
        return not self.is_known(name) or bool(self.types - {int, float, bool, type(None), Literal, *_LISTS})

    def in_words(self, name: str) -> str:
        """Says which values the argument of that name may have; empty if that is not known beforehand."""
        kinds = [repr(choice) for choice in self.choices]
        if {int, float} & self.types:
            number = str(RANGES.get(name, "a number"))
            kinds.append(number if float in self.types else number.replace("a number", "a whole number"))
        kinds += ["True", "False"] if bool in self.types else []
        kinds += ["a mapping"] if {Mapping, dict} & self.types else []
        if self.types & _LISTS:
            kinds.append(f"a list of {_LISTED[next(iter(self.inside & _LISTED.keys()), object)]}")
        kinds += ["None"] if kinds and type(None) in self.types else []
        return " or ".join([", ".join(kinds[:-1]), kinds[-1]] if len(kinds) > 1 else kinds)


def _hints(kind: type[Any]) -> dict[str, Any]:
    # fields of a dataclass are looked up in the module of the class that declares them, plain arguments in its __init__
    source = kind if hasattr(kind, "__dataclass_fields__") else kind.__init__
    try:
        return get_type_hints(source)
    except NameError:  # a class may import names for type checkers alone; its other arguments are known
        declaring = reversed(kind.__mro__) if source is kind else (source,)
        return {name: hint for place in declaring for name, hint in _resolvable(place).items()}


def _resolvable(place: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, text in inspect.get_annotations(place).items():
        alone = type("Alone", (), {"__annotations__": {name: text}, "__module__": place.__module__})
        with suppress(NameError):
            found |= get_type_hints(alone)
    return found


def _documented(base: type[Any]) -> dict[str, str]:
    """The entries of a docstring's "Arguments:" section."""
    section = re.search(r"^Arguments:\n((?:    .*\n?|\n)+)", inspect.cleandoc(base.__dict__.get("__doc__") or ""), re.M)
    if section is None:
        return {}
    entries = re.findall(r"^    (\w+): ((?:.*\n?)(?:^        .*\n?)*)", section[1], re.M)
    return {name: " ".join(text.split()) for name, text in entries}
