"""Which column of a table is what: labels, scores, fields, time, group, weight, sampling rate and more."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, final

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.scores import ScoreSpace, check_score_space

_LATE_ROLES = {"event_time": "timestamp", "label_time": "paid_at", "window": "7d"}
"""What says that labels may still come, all three together, with examples."""


@final
@dataclass(frozen=True, init=False)
class Roles:
    """Says which column of a table plays which part.

    A column that is a label, a score, a weight or a sampling rate is never a field as well: it would leak the
    outcome into the features. A column that rows are only judged by is a slice, which may be anything.

    Arguments:
        labels: Task name to 0/1 column. One column name, or several, stand for tasks of the same name. A null
            label means that the task was not observed in that row.
        fields: Categorical columns that a model may use, in the order of their ids.
        time: Column that orders the rows: whole numbers, timestamps or dates. Without it they are taken to be in time
            order, oldest first.
        group: Column of the user, query or session, for metrics within groups.
        weight: Column that says how often a row counts.
        sampling_rate: Share of the negatives that the ranker was trained on: a number in (0, 1], or a column of them.
        scores: Task name to the column of an existing ranker's score; one column name if there is one task.
        scores_are: The space of the scores.
        slices: Categorical columns that rows are judged by beside the fields.
        value: Column with what one positive of a row is worth, such as the bid.
        event_time: Column that says when a row happened, where its label may come later.
        label_time: Column that says when a positive label came; null where none has.
        window: How long after its event a label counts: "7d", or a number if the columns hold numbers.
        soft_labels: Labels may be any numbers in [0, 1]: q stands for q positives and 1 − q negatives.
        numeric: Columns of numbers that a model may use, such as a price; nulls are a value of their own.

    Example:
        >>> roles = Roles(labels="click", fields=["site_id", "app_id"], time="hour", scores="pctr")
        >>> roles.tasks, roles.scores, roles.columns
        (('click',), {'click': 'pctr'}, ('click', 'site_id', 'app_id', 'hour', 'pctr'))
        >>> roles.check_columns(["click", "site", "app_id", "hour", "pctr"])
        Traceback (most recent call last):
        ...
        monocal.core.errors.UnknownName: fields: got 'site_id'; expected one of ... did you mean 'site'?
    """

    labels: Mapping[str, str]
    fields: tuple[str, ...]
    time: str | None = None
    group: str | None = None
    weight: str | None = None
    sampling_rate: str | float | None = None
    scores: Mapping[str, str] | None = None
    scores_are: ScoreSpace = "probability"
    slices: tuple[str, ...] = ()
    value: str | None = None
    event_time: str | None = None
    label_time: str | None = None
    window: str | None = None
    soft_labels: bool = False
    numeric: tuple[str, ...] = ()

    def __init__(
        self,
        labels: str | Sequence[str] | Mapping[str, str],
        fields: Sequence[str] = (),
        *,
        time: str | None = None,
        group: str | None = None,
        weight: str | None = None,
        sampling_rate: str | float | None = None,
        scores: str | Mapping[str, str] | None = None,
        scores_are: ScoreSpace = "probability",
        slices: Sequence[str] = (),
        value: str | None = None,
        event_time: str | None = None,
        label_time: str | None = None,
        window: str | None = None,
        soft_labels: bool = False,
        numeric: Sequence[str] = (),
    ) -> None:
        for argument, names in (("fields", fields), ("slices", slices), ("numeric", numeric)):
            if isinstance(names, str):
                raise InvalidInput.of(argument, repr(names), "a list of column names", f"write [{names!r}]")
        tasks = _as_mapping(labels)
        given: dict[str, Any] = {"labels": tasks, "fields": tuple(fields), "time": time}
        given |= {"group": group, "weight": weight, "sampling_rate": sampling_rate}
        given |= {"scores": _scores_by_task(scores, tasks), "scores_are": scores_are}
        given |= {"slices": tuple(dict.fromkeys(slices)), "value": value, "soft_labels": soft_labels}
        given |= {"event_time": event_time, "label_time": label_time, "window": window, "numeric": tuple(numeric)}
        for name, part in given.items():
            object.__setattr__(self, name, part)
        self._check()

    @classmethod
    def of(
        cls,
        *,
        score: str | None = None,
        label: str | None = None,
        tasks: Mapping[str, tuple[str, str]] | None = None,
        **others: Any,
    ) -> Roles:
        """Returns the roles of a table with scores: one task by `score` and `label`, or several by `tasks`.

        Arguments:
            score: Column of the ranker's score.
            label: Column of the 0/1 label, which names the task.
            tasks: Several tasks in their place: task to (label column, score column). A null label is a row
                without that task.
            others: The other roles, by name; rows are in the order of `event_time` unless `time` is given.

        Example:
            >>> Roles.of(score="pctr", label="click", weight="w").scores
            {'click': 'pctr'}
            >>> Roles.of(tasks={"view": ("is_view", "pview"), "buy": ("is_buy", "pbuy")}).labels
            {'view': 'is_view', 'buy': 'is_buy'}
        """
        if tasks is None:
            if score is None or label is None:
                missing = "score" if score is None else "label"
                raise InvalidInput.of(missing, None, f"the name of the {missing} column", f'pass {missing}="…"')
            tasks = {label: (label, score)}
        elif score is not None or label is not None:
            raise InvalidInput.of("tasks", "tasks and score or label", "one of the two", "put every task into tasks=")
        labels = {name: columns[0] for name, columns in tasks.items()}
        others["time"] = others.get("time") or others.get("event_time")
        return cls(labels, scores={name: columns[1] for name, columns in tasks.items()}, **others)

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any], origin: str = "the schema") -> Roles:
        """Builds roles from plain values; an unknown key is refused with the nearest known one."""
        known = [role.name for role in fields(cls)]
        for key in entries:
            if key not in known:
                raise UnknownName.among(f"key of {origin}", key, known)
        if "labels" not in entries:
            raise InvalidInput.of(origin, "no labels", "the label column of each task", 'add labels = "click"')
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
        given = {role.name: getattr(self, role.name) for role in fields(self)}
        plain = {name: list(part) if isinstance(part, tuple) else part for name, part in given.items() if part}
        return {name: dict(part) if isinstance(part, Mapping) else part for name, part in plain.items()}

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self.labels)

    @property
    def score_columns(self) -> dict[str, str]:
        """Task to score column; empty where there are no scores yet."""
        return dict(self.scores or {})

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
            if column not in known:
                raise UnknownName.among(argument, column, known)

    def with_logits(self, columns: Mapping[str, str]) -> Roles:
        """Returns the same roles with logits in the named columns, and only the tasks that have them."""
        labels = {task: column for task, column in self.labels.items() if task in columns}
        return Roles.from_dict({**self.to_dict(), "labels": labels, "scores": dict(columns), "scores_are": "logit"})

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
            *[("tasks" if several else "score", column) for column in self.score_columns.values()],
        ]

    def _check(self) -> None:
        if not self.labels:
            raise InvalidInput.of("labels", "no task", "at least one label column", 'pass labels="click"')
        for argument, column in self._parts():
            if not isinstance(column, str) or not column:
                raise InvalidInput.of(argument, repr(column), "a column name", "name the column as it is in the log")
        used = self.model_fields
        for index, column in enumerate(used):
            if column in used[:index]:
                twice = f"{column!r} twice" if index < len(self.fields) else f"{column!r}, which is named already"
                argument = "fields" if index < len(self.fields) else "numeric"
                raise InvalidInput.of(argument, twice, "every field once", "remove the second one")
        outcomes = {*self.labels.values(), *self.score_columns.values(), self.weight, self.sampling_rate}
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


def _as_mapping(labels: str | Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    if isinstance(labels, str):
        return {labels: labels}
    return dict(labels) if isinstance(labels, Mapping) else {column: column for column in labels}


def _scores_by_task(scores: str | Mapping[str, str] | None, labels: Mapping[str, str]) -> dict[str, str] | None:
    if scores is None:
        return None
    if isinstance(scores, str):
        if len(labels) != 1:
            raise InvalidInput.of(
                "scores", repr(scores), "a column per task", f"pass a mapping with the keys {', '.join(labels)}"
            )
        return {next(iter(labels)): scores}
    for task in scores:
        if task not in labels:
            raise UnknownName.among("task of scores", task, labels)
    return dict(scores) or None


def named_roles(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns those arguments of a call that name roles, as `Roles.of` takes them; what is called begins with it.

    Example:
        >>> def read(table, *, score=None, label=None, time=None, seed=0):
        ...     return named_roles(locals())
        >>> read("log.csv", score="pctr", label="click")
        {'score': 'pctr', 'label': 'click', 'time': None}
    """
    known = {"score", "label", "tasks", *(role.name for role in fields(Roles))}
    return {name: value for name, value in arguments.items() if name in known}
