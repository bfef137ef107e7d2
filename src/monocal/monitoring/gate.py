"""May a new model replace the old one? A paired comparison on rows that neither has seen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Unpack, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.scores import Floats
from monocal.evaluation.paired import PairedLosses, paired_losses
from monocal.evaluation.result import too_few_to_compare
from monocal.evaluation.stats import joint_discoveries
from monocal.models.artefact import load_model
from monocal.models.facts import check_unseen, known_delays, time_of_fit
from monocal.models.model import Model
from monocal.tables.late_labels import LateLabels
from monocal.tables.roles import Columns, Roles, columns_of
from monocal.tables.source import ClusterTable, TableLike, open_table
from monocal.tables.split import binned
from monocal.tables.table import Table

Verdict = Literal["better", "tie", "slightly worse", "worse", "cannot tell"]


class Outcome(NamedTuple):
    """What an interval says.

    Attributes:
        verdict: What the new model is.
        passes: Whether more harm than is tolerated is excluded.
        words: The verdict in words.
    """

    verdict: Verdict
    passes: bool
    words: str


def outcome(low: float, high: float, tolerated: float) -> Outcome:
    """Returns what the interval of a difference of log-loss, new minus old, says about the new model.

    Arguments:
        low: Lower end of the interval.
        high: Upper end; NaN like the lower one if there is no interval.
        tolerated: The increase that is tolerated, above 0.

    Example:
        >>> for low, high in ((-0.3, -0.1), (-0.1, 0.1), (0.1, 0.2), (0.1, 0.3), (0.3, 0.4), (-0.1, 0.3)):
        ...     print(*outcome(low, high, tolerated=0.2), sep="; ")
        better; True; better
        tie; True; tie
        slightly worse; True; slightly worse, within what is tolerated
        worse; False; worse, and more harm than is tolerated cannot be excluded
        worse; False; worse by more than is tolerated
        cannot tell; False; too few rows to exclude harm
    """
    if math.isnan(low) or math.isnan(high):
        return Outcome("cannot tell", False, "too few rows to compare")
    if high < 0.0:
        return Outcome("better", True, "better")
    if low > tolerated:
        return Outcome("worse", False, "worse by more than is tolerated")
    if low > 0.0 and high > tolerated:
        return Outcome("worse", False, "worse, and more harm than is tolerated cannot be excluded")
    if low > 0.0:
        return Outcome("slightly worse", True, "slightly worse, within what is tolerated")
    if high <= tolerated:
        return Outcome("tie", True, "tie")
    return Outcome("cannot tell", False, "too few rows to exclude harm")


@final
@dataclass(frozen=True)
class Difference:
    """A paired comparison of two models on all rows, or where a guarded column has a value.

    Attributes:
        verdict: What the new model is. On all rows, see `outcome`. For a value: "worse" if more harm than is tolerated
            was shown, "better" if any gain was, both with the false discovery rate held; else "tie".
        rows: Rows, counted with their weights.
        old: Log-loss of the old model.
        new: Log-loss of the new model.
        difference: New minus old.
        low: Lower end of its interval.
        high: Upper end; NaN like the lower one if the rows are too few to compare.
        column: The guarded column; empty on all rows.
        value: Its value.
    """

    verdict: Verdict
    rows: float
    old: float
    new: float
    difference: float
    low: float
    high: float
    column: str = ""
    value: str = ""


@final
@dataclass(frozen=True)
class TaskVerdict:
    """One task.

    Attributes:
        overall: On all rows.
        tolerated: The increase of log-loss that is tolerated.
        rows_needed: Observations (rows, or groups if there are groups) that would decide, four times in five, whether
            more than that is excluded, or the new model shown to be worse.
        pcoc: Predicted over observed positives of the old and the new model.
        segments: Every value of a guarded column that was compared.
    """

    overall: Difference
    tolerated: float
    rows_needed: int
    pcoc: tuple[float, float]
    segments: tuple[Difference, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """What the interval on all rows says."""
        return outcome(self.overall.low, self.overall.high, self.tolerated)

    @property
    def worse(self) -> tuple[Difference, ...]:
        """Values in which more harm than is tolerated was shown."""
        return tuple(segment for segment in self.segments if segment.verdict == "worse")

    @property
    def passed(self) -> bool:
        return self.outcome.passes and not self.worse

    def as_dict(self) -> dict[str, Any]:
        overall = asdict(self.overall)
        del overall["column"], overall["value"]
        return {
            "passed": self.passed,
            **overall,
            "tolerated": self.tolerated,
            "rows_needed": self.rows_needed,
            "pcoc": {"old": self.pcoc[0], "new": self.pcoc[1]},
            "segments": [asdict(segment) for segment in self.segments],
        }

    def describe(self, confidence: float, units: str) -> str:
        """Says in one sentence why the task passes or does not.

        Arguments:
            confidence: Of the interval.
            units: What an observation is: "rows" or "groups".
        """
        found, words, worse = self.overall, self.outcome.words, self.worse
        if worse and self.outcome.verdict != "worse":
            worst = max(worse, key=lambda part: part.difference * part.rows)
            more = f" and {len(worse) - 1} more" if len(worse) > 1 else ""
            words = f"worse where {worst.column} is {worst.value}{more}"
        elif self.outcome.verdict == "cannot tell" and self.rows_needed:
            words += f", about {self.rows_needed:,} {units} are needed"
        interval = "no interval"
        if not math.isnan(found.low):
            interval = f"{confidence:.0%} interval {found.low:+.5f} … {found.high:+.5f}"
        change = f"{found.difference:+.5f}, {interval}; tolerated {self.tolerated:+.5f}"
        return f"{words}: log-loss {found.old:.5f} -> {found.new:.5f} ({change})"


@final
@dataclass(frozen=True)
class GateVerdict:
    """Everything a gate found.

    Attributes:
        tasks: Task to what was found.
        n_rows: Rows that were compared.
        max_harm: The tolerated share.
        confidence: Of intervals; 1 − confidence is the false discovery rate of segments.
        by_groups: Whether groups, not rows, were the observations.
        old: Fingerprint of the old model.
        new: Of the new one.
        late_labels: How mature the rows are, if labels may still come.
    """

    tasks: dict[str, TaskVerdict]
    n_rows: int
    max_harm: float
    confidence: float
    by_groups: bool
    old: str
    new: str
    late_labels: LateLabels | None = None

    @property
    def passed(self) -> bool:
        """Whether the new model may replace the old one."""
        return all(verdict.passed for verdict in self.tasks.values())

    def reasons(self) -> list[str]:
        """Returns one sentence per task that says why it passes or does not."""
        units = "groups" if self.by_groups else "rows"
        return [f"{name}: {verdict.describe(self.confidence, units)}" for name, verdict in self.tasks.items()]

    def as_dict(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "reasons": self.reasons(),
            "n_rows": self.n_rows,
            "max_harm": self.max_harm,
            "confidence": self.confidence,
            "old": self.old,
            "new": self.new,
            **({} if self.late_labels is None else {"late_labels": self.late_labels.as_dict()}),
            "tasks": {name: verdict.as_dict() for name, verdict in self.tasks.items()},
        }

    def __str__(self) -> str:
        maturity = [] if self.late_labels is None else [str(self.late_labels)]
        return "\n".join(["passed" if self.passed else "not passed", *self.reasons(), *maturity])


MAX_HARM = 0.002
"""Share of the old model's log-loss. A forecast that is 13 % too high at a rate of 5 % costs about so much."""

LEAST_EXPECTED = 20.0
"""A value is compared if both models expect at least so many positives and negatives in it: with fewer the mean
difference is too skewed for its p-value. Chosen without looking at labels."""


def gate(
    old: Model | str | Path,
    new: Model | str | Path,
    table: TableLike,
    roles: Roles | None = None,
    *,
    by: Sequence[str] = (),
    max_harm: float = MAX_HARM,
    since: str | None = None,
    until: str | None = None,
    confidence: float = 0.95,
    **columns: Unpack[Columns],
) -> GateVerdict:
    r"""Says whether a new model is better, worse or as good as the old one, and whether it may be promoted.

    Both answer the same rows, and differences of log-loss are paired row by row. The new model passes if

    1. the interval of the mean difference excludes an increase above `max_harm` times the old log-loss, and
    2. no value of a guarded column is shown to be worse by more than that, with the false discovery rate over all
       values of all columns and tasks held at 1 − `confidence`.

    A model that is shown to be worse by less than that passes and is called "slightly worse". Too few rows to exclude
    harm do not pass, and the verdict says how many it takes. Rows that either model learned from are refused, as far
    as the models remember.

    Arguments:
        old: The active model, or its folder.
        new: The model that may replace it, or its folder.
        table: Labelled rows that neither has seen.
        roles: Which column is what, or the same by name; scores, fields and what is not named are those of the fit.
        by: Guarded columns: each of their values is compared.
        max_harm: The increase of log-loss that is tolerated, as a share of the old model's.
        since: Rows before this moment are left out.
        until: Rows at or after it are left out.
        confidence: Of the interval.
        columns: In place of roles: `label`, `group` (rows of one user or query are one observation), `weight`, `time`
            and others. With `event_time`, `label_time` and `window` labels are held against the probability that they
            have come by now, with the delays that the models know or the rows tell.

    Example:
        >>> import monocal
        >>> log = monocal.simulate_log(30_000, world="affine").table()
        >>> old, new = (monocal.fit(log.slice(0, 10_000), method=name, score="pctr", label="click")
        ...             for name in ("none", "platt"))
        >>> found = gate(old, new, log.slice(10_000))
        >>> found.passed, found.tasks["click"].overall.verdict
        (True, 'better')
    """
    given = columns_of(gate, roles, columns)
    if not 0.0 < max_harm < 1.0:
        raise InvalidInput.of("max_harm", max_harm, "a share of the old log-loss in (0, 1)", f"use {MAX_HARM}")
    first, second = (model if isinstance(model, Model) else load_model(model) for model in (old, new))
    if set(first.task_names) != set(second.task_names):
        raise InvalidInput.of(
            "new",
            f"a model of {', '.join(second.task_names)}",
            f"the old model's tasks, {', '.join(first.task_names)}",
            "fit both on the same labels",
        )
    stream = open_table(table)
    given |= {"slices": by, "time": given.get("time") or time_of_fit(first.info, stream.column_names)}
    asked = []
    for model in (first, second):
        model.check_columns(stream.column_names)
        asked.append(model.roles(**given))
        asked[-1].check_columns(stream.column_names)
    delays = known_delays(first) or known_delays(second)
    if isinstance(stream.dataset, ClusterTable):  # both models answer the same rows, in the same order
        stream.dataset.hold(list(dict.fromkeys(name for parts in asked for name in parts.columns)))
    compared, answers = [], []
    for model, parts, whose in zip((first, second), asked, ("the old model", "the new model"), strict=True):
        rows = Table.read(stream, parts, since=since, until=until, delays=delays)
        check_unseen(model, rows, whose)
        answers.append({task: rows.arrived(p) for task, p in model.predict_rows(rows).items()})
        compared.append(binned(rows, model.vocabulary))
    found = _verdict(compared[0], answers, (first, second), by, max_harm, confidence)
    return replace(found, late_labels=compared[0].late_labels)


def compare_models(
    old: Model, new: Model, rows: Table, by: Sequence[str] = (), max_harm: float = MAX_HARM, confidence: float = 0.95
) -> GateVerdict:
    """Compares two models on rows that were read and that neither has seen; both have the same columns."""
    answers = [{task: rows.arrived(p) for task, p in model.predict_rows(rows).items()} for model in (old, new)]
    return _verdict(rows, answers, (old, new), by, max_harm, confidence)


def _verdict(
    rows: Table,
    answers: Sequence[Mapping[str, Floats]],
    models: tuple[Model, Model],
    by: Sequence[str],
    max_harm: float,
    confidence: float,
) -> GateVerdict:
    """Compares the answers of both models task by task, with one false discovery rate over all guarded values."""
    tasks: dict[str, TaskVerdict] = {}
    parts: list[tuple[str, str, list[Any], PairedLosses]] = []
    for task in rows.scores:
        known = np.flatnonzero(rows.labels[task] >= 0)
        labels = rows.labels[task][known].astype(np.float64)
        _check_classes(labels, task)
        old, new = (side[task][known] for side in answers)
        weights = None if rows.weights is None else rows.weights[known].astype(np.float64)
        together = None if rows.observations is None else rows.observations[known]
        found = paired_losses(labels, old, new, weights=weights, groups=together)
        observed = float(np.average(labels, weights=weights))
        n_units, n_groups = int(found.n_units[0]), None
        if rows.groups is not None:
            n_units, n_groups = known.size, n_units
        is_enough = not too_few_to_compare(n_units, observed * n_units, n_groups)
        pcoc = [float(np.average(p, weights=weights)) / observed for p in (old, new)]
        tasks[task] = _task_verdict(found, max_harm, confidence, (pcoc[0], pcoc[1]), is_enough=is_enough)
        for name in by:
            column = rows.fields[name].take(known)
            n_cells = int(column.ids.max()) + 1
            cells = paired_losses(labels, old, new, column.ids, n_cells, weights=weights, groups=together)
            kept = np.flatnonzero(_has_enough(old, column.ids, weights) & _has_enough(new, column.ids, weights))
            parts.append((task, name, column.decode(kept), cells.take(kept)))
    worse = joint_discoveries([cells.p_above(max_harm * cells.first) for *_, cells in parts], 1.0 - confidence)
    better = joint_discoveries([cells.p_below(0.0) for *_, cells in parts], 1.0 - confidence)
    for (task, name, values, cells), is_worse, is_better in zip(parts, worse, better, strict=True):
        segments = list(tasks[task].segments)
        for at, value in enumerate(values):
            verdict: Verdict = "worse" if is_worse[at] else "better" if is_better[at] else "tie"
            segments.append(replace(_difference(cells, at, confidence, verdict), column=name, value=str(value)))
        tasks[task] = replace(tasks[task], segments=tuple(segments))
    old_model, new_model = (model.fingerprint for model in models)
    return GateVerdict(tasks, rows.n_table_rows, max_harm, confidence, rows.groups is not None, old_model, new_model)


def _task_verdict(
    found: PairedLosses, max_harm: float, confidence: float, pcoc: tuple[float, float], *, is_enough: bool = True
) -> TaskVerdict:
    # Student's interval of few skewed losses holds nothing like its confidence
    shown = found if is_enough else replace(found, error=np.full_like(found.error, np.nan))
    low, high = (float(end[0]) for end in shown.interval(confidence))
    tolerated, difference = max_harm * float(found.first[0]), float(found.difference[0])
    overall = _difference(shown, 0, confidence, outcome(low, high, tolerated).verdict)
    # from the difference to the limit that is farther away: the other one cannot be excluded by any number of rows
    margin = max(tolerated - max(difference, 0.0), difference)
    return TaskVerdict(overall, tolerated, found.units_needed(margin, confidence), pcoc)


def _difference(found: PairedLosses, place: int, confidence: float, verdict: Verdict) -> Difference:
    columns = (found.weight, found.first, found.second, found.difference, *found.interval(confidence))
    rows, old, new, difference, low, high = (float(numbers[place]) for numbers in columns)
    return Difference(verdict, rows, old, new, difference, low, high)


def _has_enough(p: Floats, ids: NDArray[Any], weights: Floats | None) -> NDArray[np.bool_]:
    """Says of which values a forecast expects enough positives and enough negatives."""
    expected = [np.bincount(ids, q if weights is None else weights * q) for q in (p, 1.0 - p)]
    return np.minimum(*expected) >= LEAST_EXPECTED


def _check_classes(labels: Floats, task: str) -> None:
    if labels.size == 0 or labels.min() == labels.max():
        got = "no label" if labels.size == 0 else f"only {int(labels[0])}s in {labels.size:,} rows"
        raise InvalidInput.of(
            f"labels of task {task!r}", got, "rows with both labels", "check the join that brought the labels"
        )
