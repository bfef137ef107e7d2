"""Which column of a table is what: labels, scores, fields, time, group, weight, sampling rate and more."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypedDict, final

from monocal.core.errors import InvalidInput, UnknownName, check_known
from monocal.core.scores import ScoreSpace, check_score_space

_LATE_ROLES = {"event_time": "timestamp", "label_time": "paid_at", "window": "7d"}
"""What says that labels may still come, all three together, with examples."""
AUTO = "auto"
"""In place of fields: those that a look at the table proposes."""
_TASKS = ("score", "label", "tasks")


class Columns(TypedDict, total=False):
    """The columns of a table by name, as every public function takes them in place of a `Roles`; see there."""

    score: str | None
    label: str | Mapping[str, str] | None
    tasks: Mapping[str, str | tuple[str, str | None]] | None
    fields: Sequence[str] | None
    numeric: Sequence[str] | None
    time: str | None
    group: str | None
    weight: str | None
    value: str | None
    sampling_rate: float | str | None
    scores_are: ScoreSpace | None
    soft_labels: bool | None
    event_time: str | None
    label_time: str | None
    window: str | None
    slices: Sequence[str] | None


@final
@dataclass(frozen=True, kw_only=True)
class Roles:
    """Says which column of a table plays which part.

    A column that is a label, a score, a weight or a sampling rate is never a field as well: it would leak the
    outcome into the features. A column that rows are only judged by is a slice, which may be anything.

    Arguments:
        score: Column of the ranker's score; none where a log has no scores yet.
        label: Column of the 0/1 label, which names the task. A null label means that the task was not observed.
        tasks: Several tasks in their place: name to (label column, score column), or to a label column alone.
        fields: Categorical columns that a model may use, in the order of their ids; "auto" takes those that a look at
            the table proposes.
        numeric: Columns of numbers, such as a price: each gets a smooth shift, and nulls are a value of their own.
        time: Column that orders the rows: whole numbers, timestamps or dates. Without it they are taken to be in time
            order, oldest first.
        group: Column of the user, query or session, for metrics and intervals within groups.
        weight: Column that says how often a row counts.
        value: Column with what one positive of a row is worth, such as the bid.
        sampling_rate: Share of the negatives that the ranker was trained on: a number in (0, 1], or a column of them.
        scores_are: The space of the scores.
        soft_labels: Labels may be any numbers in [0, 1]: q stands for q positives and 1 − q negatives.
        event_time: Column that says when a row happened, where its label may still come; it orders rows, too.
        label_time: Column that says when a positive label came; null where none has.
        window: How long after its event a label counts: "7d", or a number if the columns hold numbers.
        slices: Categorical columns that rows are judged by beside the fields.

    Example:
        >>> roles = Roles(score="pctr", label="click", fields=["site_id", "app_id"], time="hour")
        >>> roles.labels, roles.scores, roles.columns
        ({'click': 'click'}, {'click': 'pctr'}, ('click', 'site_id', 'app_id', 'hour', 'pctr'))
        >>> Roles(tasks={"view": ("is_view", "pview"), "buy": ("is_buy", "pbuy")}).labels
        {'view': 'is_view', 'buy': 'is_buy'}
        >>> roles.check_columns(["click", "site", "app_id", "hour", "pctr"])
        Traceback (most recent call last):
        ...
        monocal.core.errors.UnknownName: fields: got 'site_id'; expected one of ... did you mean 'site'?
    """

    score: str | None = None
    label: str | None = None
    tasks: Mapping[str, str | tuple[str, str | None]] = field(default_factory=dict)
    fields: Sequence[str] = ()
    numeric: Sequence[str] = ()
    time: str | None = None
    group: str | None = None
    weight: str | None = None
    value: str | None = None
    sampling_rate: float | str | None = None
    scores_are: ScoreSpace = "probability"
    soft_labels: bool = False
    event_time: str | None = None
    label_time: str | None = None
    window: str | None = None
    slices: Sequence[str] = ()

    def __post_init__(self) -> None:
        given: dict[str, Any] = {"tasks": self._every_task(), "time": self.time or self.event_time}
        for argument in ("fields", "slices", "numeric"):
            names = getattr(self, argument)
            if isinstance(names, str) and (argument, names) != ("fields", AUTO):
                raise InvalidInput.of(argument, repr(names), "a list of column names", f"write [{names!r}]")
            given[argument] = (names,) if isinstance(names, str) else tuple(names)
        given["slices"] = tuple(dict.fromkeys(given["slices"]))
        (name, (label, score)), *others = given["tasks"].items()
        if name == label and not others:
            given |= {"label": label, "score": score}
        for name, part in given.items():
            object.__setattr__(self, name, part)
        self._check()

    def _every_task(self) -> dict[str, tuple[str, str | None]]:
        pairs = {name: (part, None) if isinstance(part, str) else part for name, part in self.tasks.items()}
        tasks = {name: (label, score) for name, (label, score) in pairs.items()}
        named = {} if self.label is None else {self.label: (self.label, self.score)}
        if tasks and (self.label is not None or self.score is not None) and tasks != named:
            raise InvalidInput.of("tasks", "tasks and score or label", "one of the two", "put every task into tasks=")
        if not tasks and not named:
            raise InvalidInput.of("label", None, "the name of the label column", 'pass label="…"')
        return tasks or named

    def check_scores(self) -> None:
        """Refuses a task without a score column."""
        if len(self.scores) < len(self.tasks):
            raise InvalidInput.of("score", None, "the name of the score column", 'pass score="…"')

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any], origin: str = "the schema") -> Roles:
        """Builds roles from plain values; an unknown key is refused with the nearest known one."""
        known = [role.name for role in fields(cls)]
        for key in entries:
            check_known(f"key of {origin}", key, known)
        return cls(**entries)

    @classmethod
    def from_toml(cls, path: str | Path) -> Roles:
        """Reads roles from a TOML file: its `[schema]` table if there is one, else the whole file."""
        name = Path(path).name
        try:
            entries = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InvalidInput.of("schema file", f"{name} ({error})", "a readable TOML file", "fix the file") from error
        table = entries.get("schema", entries)
        if not isinstance(table, dict):
            raise InvalidInput.of(name, f"schema = {table!r}", "a table", "write [schema] on a line of its own")
        return cls.from_dict(table, name)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values that `from_dict` turns back into equal roles; roles that nothing plays are left out."""
        given = {"tasks": self.tasks, **{name: part for name, part in self.given.items() if name not in _TASKS}}
        return {name: list(part) if isinstance(part, tuple) else part for name, part in given.items()}

    @property
    def given(self) -> dict[str, Any]:
        """The arguments that make equal roles: one task by `score` and `label`, where its label names it."""
        found = {role.name: getattr(self, role.name) for role in fields(self)}
        found = {name: part for name, part in found.items() if part != DEFAULTS[name]}
        return {name: part for name, part in found.items() if name != "tasks" or self.label is None}

    @property
    def labels(self) -> dict[str, str]:
        """Task to label column."""
        return {name: part[0] for name, part in self.tasks.items()}

    @property
    def scores(self) -> dict[str, str]:
        """Task to score column; a task without scores is left out."""
        return {name: part[1] for name, part in self.tasks.items() if part[1] is not None}

    @property
    def rate_column(self) -> str | None:
        """The column of sampling rates; None if the rate is a number or not known."""
        return self.sampling_rate if isinstance(self.sampling_rate, str) else None

    @property
    def model_fields(self) -> tuple[str, ...]:
        """What a model may use, in the order of its fields: categories, then numbers."""
        return (*self.fields, *self.numeric)

    @property
    def category_columns(self) -> tuple[str, ...]:
        """Categorical fields and slices, each once; one that is a numeric field as well is read as numbers."""
        return tuple(name for name in dict.fromkeys([*self.fields, *self.slices]) if name not in self.numeric)

    @property
    def has_late_labels(self) -> bool:
        """Whether labels may still come; refuses event time, label time and window unless all three are there."""
        if not any(getattr(self, name) for name in _LATE_ROLES):
            return False
        for name, example in _LATE_ROLES.items():
            if not getattr(self, name):
                raise InvalidInput.of(
                    name,
                    None,
                    "when a row happened, when its positive label came, and how long labels count, all three together",
                    f'pass {name}="{example}"',
                )
        return True

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that plays a part, each once."""
        return tuple(dict.fromkeys(column for _, column in self._parts()))

    def check_columns(self, available: Iterable[str]) -> None:
        """Refuses the first column that is missing from `available`, by the argument that named it."""
        known = list(available)
        for argument, column in self._parts():
            check_known(argument, column, known)

    def with_logits(self, columns: Mapping[str, str]) -> Roles:
        """Returns the same roles with logits in the named columns, and only the tasks that have them."""
        tasks = {task: (label, columns[task]) for task, label in self.labels.items() if task in columns}
        return Roles.from_dict({**self.to_dict(), "tasks": tasks, "scores_are": "logit"})

    def _parts(self) -> list[tuple[str, str]]:
        """Every column with the argument that names it in functions and, as an option, on the command line."""
        several = len(self.labels) > 1
        single = {"time": self.time, "group": self.group, "weight": self.weight, "sampling_rate": self.rate_column}
        single |= {"value": self.value}
        single |= {"event_time": self.event_time, "label_time": self.label_time}
        return [
            *[("tasks" if several else "label", column) for column in self.labels.values()],
            *[("fields", column) for column in self.fields],
            *[("numeric", column) for column in self.numeric],
            *[("by", column) for column in self.slices],
            *[(argument, column) for argument, column in single.items() if column is not None],
            *[("tasks" if several else "score", column) for column in self.scores.values()],
        ]

    def _check(self) -> None:
        for argument, column in self._parts():
            if not isinstance(column, str) or not column:
                raise InvalidInput.of(argument, repr(column), "a column name", "name the column as it is in the log")
        used = self.model_fields
        for index, column in enumerate(used):
            if column in used[:index]:
                twice = f"{column!r} twice" if index < len(self.fields) else f"{column!r}, which is named already"
                argument = "fields" if index < len(self.fields) else "numeric"
                raise InvalidInput.of(argument, twice, "every field once", "remove the second one")
        outcomes = {*self.labels.values(), *self.scores.values(), self.weight, self.sampling_rate}
        outcomes.add(self.label_time)
        for column in used:
            if column in outcomes:
                argument = "fields" if column in self.fields else "numeric"
                raise InvalidInput.of(
                    argument,
                    f"{column!r}, which is also a label, its time, a score, weight or sampling rate",
                    "columns known before the outcome",
                    f"name {argument}= without it",
                )
        if self.soft_labels and self.label_time is not None:
            raise InvalidInput.of(
                "soft_labels",
                f"true, beside the label time {self.label_time!r}",
                "one of the two: a label that may still come is 0 or 1",
                "leave out young rows, or soft_labels",
            )
        rate = self.sampling_rate
        if rate is not None and not isinstance(rate, str) and not 0.0 < rate <= 1.0:
            raise InvalidInput.of(
                "sampling_rate", rate, "the share of negatives kept, in (0, 1]", "pass 0.1 if one in ten was kept"
            )
        check_score_space(self.scores_are)


DEFAULTS = {role.name: role.default for role in fields(Roles)}
"""Roles that nobody plays."""


def columns_of(
    caller: Callable[..., Any], roles: Roles | None, columns: Mapping[str, Any], *methods: Any
) -> dict[str, Any]:
    """Returns the columns of a public function: those of its `Roles`, or those given by name, but not both.

    Arguments:
        caller: The function, whose own arguments are near an unknown name, too.
        roles: As it was given.
        columns: What was given by name; None is as if it was not given.
        methods: The function's methods, which have arguments of their own.

    Example:
        >>> def read(table, roles=None, *, since=None, **columns):
        ...     return columns_of(read, roles, columns)
        >>> read("log.csv", Roles(score="pctr", label="click")) == read("log.csv", score="pctr", label="click")
        True
        >>> read("log.csv", scroe="pctr")
        Traceback (most recent call last):
        ...
        monocal.core.errors.UnknownName: argument of read: got 'scroe'; ... Hint: did you mean 'score'?
    """
    for name, value in columns.items():
        if name in Columns.__annotations__:
            continue
        for method in methods:
            if name in method.get_params(deep=False):
                kind = type(method).__name__
                expected = f"an argument of {caller.__name__} or a column"
                raise InvalidInput.of(name, repr(value), expected, f"write method=monocal.{kind}({name}={value!r})")
        own = [parameter for parameter in inspect.signature(caller).parameters if parameter != "columns"]
        raise UnknownName.among(f"argument of {caller.__name__}", name, [*own, *Columns.__annotations__])
    given = {name: value for name, value in columns.items() if value is not None}
    if roles is None:
        return given
    if not isinstance(roles, Roles):
        raise InvalidInput.of("roles", repr(roles), "a monocal.Roles", 'name columns, as in score="pctr"')
    for name, value in given.items():
        raise InvalidInput.of(name, repr(value), "columns in roles or by name, not both", f"write Roles(…, {name}=…)")
    return roles.given
