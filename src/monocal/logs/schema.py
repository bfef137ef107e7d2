"""What the columns of a log mean: labels, fields, time, group, weight, sampling rate, existing scores."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, final

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.spaces import ScoreSpace, check_score_space


@final
@dataclass(frozen=True, init=False)
class LogSchema:
    """Says which column of a log plays which part.

    A column that is a label, a score, a weight or a sampling rate is never a field as well: it would leak the
    outcome into the features.

    Arguments:
        labels: Task name to 0/1 column. One column name, or several, stand for tasks of the same name. A null
            label means that the task was not observed in that row.
        fields: Categorical columns, in the order of their ids.
        time: Column that orders the rows: integers, timestamps or dates.
        group: Column of the user, query or session, for metrics within groups and splits by group.
        weight: Column that says how often a row counts.
        sampling_rate: Share of negatives kept: one number in (0, 1], or a column of them.
        scores: Task name to the column of an existing ranker's score; one column name if there is one task.
        scores_are: The space of those scores.

    Example:
        >>> schema = LogSchema(labels="click", fields=["site_id", "app_id"], time="hour", scores="pctr")
        >>> schema.tasks, schema.scores, schema.columns
        (('click',), {'click': 'pctr'}, ('click', 'site_id', 'app_id', 'hour', 'pctr'))
        >>> schema.check_columns(["click", "site", "app_id", "hour", "pctr"])
        Traceback (most recent call last):
        ...
        monocal.core.errors.UnknownName: field column: got 'site_id'; wanted one of ... did you mean 'site'?
    """

    labels: Mapping[str, str]
    fields: tuple[str, ...]
    time: str | None = None
    group: str | None = None
    weight: str | None = None
    sampling_rate: str | float | None = None
    scores: Mapping[str, str] | None = None
    scores_are: ScoreSpace = "probability"

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
    ) -> None:
        if isinstance(fields, str):
            raise InvalidInput.of("fields", repr(fields), "a list of column names", f"write [{fields!r}]")
        tasks = _as_mapping(labels)
        put = object.__setattr__
        put(self, "labels", tasks)
        put(self, "fields", tuple(fields))
        put(self, "time", time)
        put(self, "group", group)
        put(self, "weight", weight)
        put(self, "sampling_rate", sampling_rate)
        put(self, "scores", _scores_by_task(scores, tasks))
        put(self, "scores_are", scores_are)
        self._check()

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any], origin: str = "the schema") -> LogSchema:
        """Builds a schema from plain values; an unknown key is refused with the nearest known one."""
        known = [one.name for one in fields(cls)]
        for key in entries:
            if key not in known:
                raise UnknownName.among(f"key of {origin}", key, known)
        if "labels" not in entries:
            raise InvalidInput.of(origin, "no labels", "the label column of each task", 'add labels = "click"')
        return cls(**entries)

    @classmethod
    def from_toml(cls, path: str | Path) -> LogSchema:
        """Reads a schema from a TOML file: its `[schema]` table if there is one, else the whole file."""
        name = Path(path).name
        try:
            entries = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InvalidInput.of(
                "schema file", f"{name} ({error})", "a readable TOML file", "mend the file"
            ) from error
        table = entries.get("schema", entries)
        if not isinstance(table, dict):
            raise InvalidInput.of(name, f"schema = {table!r}", "a table", "write [schema] on a line of its own")
        return cls.from_dict(table, name)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values that `from_dict` turns back into an equal schema."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self.labels)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column the schema needs, each once."""
        return tuple(dict.fromkeys(column for _, column in self._roles()))

    def check_columns(self, available: Iterable[str]) -> None:
        """Refuses the first column that is missing from `available` and suggests the nearest one that is there."""
        known = list(available)
        for role, column in self._roles():
            if column not in known:
                raise UnknownName.among(f"{role} column", column, known)

    def _roles(self) -> list[tuple[str, str]]:
        rate = self.sampling_rate if isinstance(self.sampling_rate, str) else None
        single = {"time": self.time, "group": self.group, "weight": self.weight, "sampling_rate": rate}
        return [
            *[(f"label of task {task!r}", column) for task, column in self.labels.items()],
            *[("field", column) for column in self.fields],
            *[(role, column) for role, column in single.items() if column is not None],
            *[(f"score of task {task!r}", column) for task, column in (self.scores or {}).items()],
        ]

    def _check(self) -> None:
        if not self.labels:
            raise InvalidInput.of("labels", "no task", "at least one label column", 'pass labels="click"')
        for role, column in self._roles():
            if not isinstance(column, str) or not column:
                raise InvalidInput.of(role, repr(column), "a column name", "name the column as it is in the log")
        for index, column in enumerate(self.fields):
            if column in self.fields[:index]:
                raise InvalidInput.of("fields", f"{column!r} twice", "every field once", "remove the second one")
        outcomes = {*self.labels.values(), *(self.scores or {}).values(), self.weight, self.sampling_rate}
        for column in self.fields:
            if column in outcomes:
                raise InvalidInput.of(
                    "fields",
                    f"{column!r}, which is also a label, score, weight or sampling rate",
                    "columns known before the outcome",
                    "remove it from fields",
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
