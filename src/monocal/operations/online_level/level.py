"""The correction in force: what all feedback so far, batch after batch, makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.operations.online_level.shift_filter import ShiftFilter

_OVERALL_SD, _VALUE_SD = 0.05, 0.1


@final
@dataclass(frozen=True)
class LevelRules:
    """How far and how fast the correction may go.

    Arguments:
        fields: Fields whose values get a correction of their own, beside the one of the task.
        batch_rows: Rows with labels that make one step.
        max_step: Largest move per step, in logit.
        max_total: Largest correction of the task, and of each value, in logit.
    """

    fields: tuple[str, ...] = ()
    batch_rows: int = 1_000
    max_step: float = 0.1
    max_total: float = 0.5

    def __post_init__(self) -> None:
        for name in ("batch_rows", "max_step", "max_total"):
            if not getattr(self, name) > 0:
                raise InvalidInput.of(f"level_{name}", getattr(self, name), "a positive number", "leave it out")


@final
@dataclass
class _Task:
    """Filters of one task, and rows that wait until a batch is full."""

    overall: ShiftFilter
    by_field: dict[str, ShiftFilter]
    waiting: dict[str, list[Any]] = field(default_factory=lambda: {"base": [], "labels": [], "ids": []})
    n_steps: int = 0


@final
class OnlineLevel:
    """Folds feedback into corrections; equal feedback in equal order gives equal bits.

    The correction of a row is the task's shift plus that of each chosen field's value. For fixed features it is one
    number added to the logit, so the map stays monotone and the order of rows with equal features stays as it was.

    Arguments:
        rules: How far and how fast it may go.
        field_sizes: Number of ids of each field of the rules; id 0, the unseen value, gets no shift of its own.

    Example:
        >>> level = OnlineLevel(LevelRules(batch_rows=200), {})
        >>> rows = {"base": [-2.0] * 400, "labels": [1.0, 0.0, 0.0, 0.0] * 100, "ids": {}}
        >>> level.learn("click", **rows)
        >>> level.n_steps("click"), level.corrections("click", {}, 2).round(2).tolist()
        (2, [0.2, 0.2])
    """

    def __init__(self, rules: LevelRules, field_sizes: Mapping[str, int]) -> None:
        self.rules = rules
        self.field_sizes = {name: int(field_sizes[name]) for name in rules.fields}
        self._tasks: dict[str, _Task] = {}

    @property
    def task_names(self) -> list[str]:
        return list(self._tasks)

    def n_steps(self, task: str) -> int:
        return self._tasks[task].n_steps if task in self._tasks else 0

    def corrections(self, task: str, ids: Mapping[str, Ids], n_rows: int) -> Floats:
        """Returns what is added to the logit of each row."""
        if task not in self._tasks:
            return np.zeros(n_rows)
        found = self._tasks[task]
        total = np.full(n_rows, found.overall.shifts[0])
        for name, filter_ in found.by_field.items():
            total += filter_.shifts[ids[name]]
        return total

    def learn(self, task: str, *, base: list[float], labels: list[float], ids: Mapping[str, list[int]]) -> None:
        """Takes labelled rows in the order of the log; every full batch is one step.

        Arguments:
            task: The task.
            base: Logits of the rows without any correction.
            labels: 0 or 1.
            ids: The rows' ids of each field of the rules.
        """
        found = self._tasks.setdefault(task, self._new_task())
        waiting = found.waiting
        waiting["base"] += base
        waiting["labels"] += labels
        waiting["ids"] += list(zip(*(ids[name] for name in self.rules.fields), strict=True)) or [()] * len(base)
        n_batch = self.rules.batch_rows
        while len(waiting["base"]) >= n_batch:
            self._step(found, *(np.array(waiting[name][:n_batch]) for name in ("base", "labels", "ids")))
            for name in waiting:
                del waiting[name][:n_batch]

    def to_json(self) -> dict[str, Any]:
        """Returns rules and state in plain values that read back to the last bit."""
        tasks = {
            name: {
                "overall": task.overall.to_json(),
                "by_field": {column: filter_.to_json() for column, filter_ in task.by_field.items()},
                "waiting": {part: list(rows) for part, rows in task.waiting.items()},
                "n_steps": task.n_steps,
            }
            for name, task in self._tasks.items()
        }
        return {"rules": asdict(self.rules), "field_sizes": dict(self.field_sizes), "tasks": tasks}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> OnlineLevel:
        """Undoes `to_json`."""
        rules = LevelRules(**{**facts["rules"], "fields": tuple(facts["rules"]["fields"])})
        level = cls(rules, facts["field_sizes"])
        for name, said in facts["tasks"].items():
            task = level._tasks[name] = level._new_task()
            task.overall.restore(said["overall"])
            for column, filter_ in task.by_field.items():
                filter_.restore(said["by_field"][column])
            task.waiting = {**said["waiting"], "ids": [tuple(row) for row in said["waiting"]["ids"]]}
            task.n_steps = int(said["n_steps"])
        return level

    def summary(self) -> dict[str, Any]:
        """Returns the corrections in force, for people and programs."""
        return {
            name: {
                "level": float(task.overall.shifts[0]),
                "drift_rate": task.overall.rate,
                "n_steps": task.n_steps,
                "rows_waiting": len(task.waiting["base"]),
                "largest_by_field": {
                    column: float(np.abs(filter_.shifts).max(initial=0.0)) for column, filter_ in task.by_field.items()
                },
            }
            for name, task in self._tasks.items()
        }

    def _new_task(self) -> _Task:
        limits = {"max_step": self.rules.max_step, "max_total": self.rules.max_total}
        by_field = {name: ShiftFilter(size, start_sd=_VALUE_SD, **limits) for name, size in self.field_sizes.items()}
        return _Task(ShiftFilter(1, start_sd=_OVERALL_SD, **limits), by_field)

    def _step(self, task: _Task, base: Floats, labels: Floats, ids: NDArray[np.int64]) -> None:
        shifts = {name: filter_.shifts[ids[:, place]] for place, (name, filter_) in enumerate(task.by_field.items())}
        offsets = base + sum(shifts.values(), start=np.zeros(base.size))
        task.overall.update(np.zeros(base.size, dtype=np.int64), offsets, labels)
        for place, filter_ in enumerate(task.by_field.values()):
            rest = (
                base
                + task.overall.shifts[0]
                + sum(
                    (
                        filter_of.shifts[ids[:, at]]
                        for at, filter_of in enumerate(task.by_field.values())
                        if at != place
                    ),
                    start=np.zeros(base.size),
                )
            )
            seen = ids[:, place] > 0
            if seen.any():
                filter_.update(ids[seen, place], rest[seen], labels[seen])
        task.n_steps += 1
