"""The model: what users save, load, apply and serve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa

from monocal.calibrators import Calibrator
from monocal.carry_over.describe import RetainedEffects
from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput, UnknownName, check_known
from monocal.core.fields import Ids
from monocal.core.process import progress
from monocal.core.scores import Floats, LogitVariance, RowIntervals, ScoreSpace, check_level, row_intervals
from monocal.models.facts import Counts
from monocal.tables.columns import RawRows, numbers
from monocal.tables.result import Tabular
from monocal.tables.roles import Roles
from monocal.tables.source import BATCH_ROWS, TableLike, open_table
from monocal.tables.table import Table
from monocal.tables.vocabulary import Vocabulary


@final
@dataclass(frozen=True)
class Fusion:
    r"""A weighted sum of powers of calibrated probabilities.

    .. math:: \mathrm{fused} = \sum_k w_k\, s_k'^{\gamma_k}

    Example:
        >>> fusion = Fusion(weights={"click": 1.0, "long_view": 2.0}, powers={"long_view": 0.5})
        >>> fusion.fuse({"click": np.array([0.1]), "long_view": np.array([0.04])}).round(3).tolist()
        [0.5]
    """

    weights: Mapping[str, float]
    powers: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for task, weight in self.weights.items():
            if not np.isfinite(weight):
                raise InvalidInput.of(
                    f"fusion weight of {task!r}", weight, "a finite number", "give each task a weight"
                )
        for task, power in self.powers.items():
            check_known("task of fusion powers", task, self.weights)
            if not (np.isfinite(power) and power > 0.0):
                raise InvalidInput.of(f"fusion power of {task!r}", power, "a positive number", "1 leaves it linear")

    def fuse(self, probabilities: Mapping[str, Floats]) -> Floats:
        """Returns the fused score of every row."""
        total: Floats | None = None
        for task, weight in self.weights.items():
            check_known("task of fusion weights", task, probabilities)
            power = self.powers.get(task, 1.0)
            p = probabilities[task]
            term = weight * (p if power == 1.0 else p**power)
            total = term if total is None else total + term
        if total is None:
            raise InvalidInput.of("fusion weights", "no task", "at least one task", "name the tasks to fuse")
        return total

    def as_dict(self) -> dict[str, Any]:
        return {"weights": dict(self.weights), "powers": dict(self.powers)}


PREDICT_BATCH_ROWS = BATCH_ROWS


@final
@dataclass(frozen=True)
class TaskModel:
    """One task of a model: which score it calibrates and with what.

    Attributes:
        name: The task's name.
        score: Column of the ranker's score.
        label: Column of the label it was fitted on.
        calibrator: The fitted calibrator.
    """

    name: str
    score: str
    label: str
    calibrator: Calibrator


@final
@dataclass(frozen=True)
class Model(Tabular):
    """Vocabularies, one calibrator per task, the sampling correction and the fusion rule, on tables with raw values.

    Attributes:
        tasks: The tasks, in order.
        vocabulary: Values and ids of the fields; empty for a feature-blind model.
        scores_are: The space of the score columns.
        sampling_rate: Share of negatives the ranker was trained on: a number, a column's name, or None.
        fusion: How tasks are combined, or None.
        info: Facts about the fit: rows, rates, fingerprints, score distributions.
        canary: Rows with their answers at fit time, by which a loaded model proves itself.
        value_counts: Per field, the rows that each id had in the fit; empty if that is not known.
    """

    tasks: tuple[TaskModel, ...]
    vocabulary: Vocabulary
    scores_are: ScoreSpace = "probability"
    sampling_rate: float | str | None = None
    fusion: Fusion | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    canary: Mapping[str, Any] = field(default_factory=dict)
    value_counts: Counts = ()
    # as a loaded folder states it; a changed copy of the model has none and computes its own
    _fingerprint: str | None = field(default=None, init=False, repr=False, compare=False)

    def __repr__(self) -> str:
        tasks = ", ".join(f"{task.name}: {task.score} -> {task.calibrator.name}" for task in self.tasks)
        return f"Model({tasks}; {len(self.field_names)} fields); describe() tells more"

    def _columns(self) -> dict[str, list[Any]]:
        facts = [dict(self.info.get("tasks", {})).get(task.name, {}) for task in self.tasks]
        return {
            "task": list(self.task_names),
            "score": [task.score for task in self.tasks],
            "label": [task.label for task in self.tasks],
            "method": [task.calibrator.name for task in self.tasks],
            **{key: [fact.get(key) for fact in facts] for key in ("n_rows", "label_rate", "mean_score")},
        }

    @property
    def task_names(self) -> tuple[str, ...]:
        return tuple(task.name for task in self.tasks)

    @property
    def field_names(self) -> tuple[str, ...]:
        return self.vocabulary.names

    @cached_property
    def fingerprint(self) -> str:
        """Changes whenever anything the model learned or knows changes; the number that its saved folder has.

        `monocal inspect`, reports and the service show the same one.
        """
        if self._fingerprint is not None:
            return self._fingerprint
        from monocal.models.artefact import fingerprint_of

        return fingerprint_of(self)

    @property
    def columns(self) -> list[str]:
        """The columns a table must have to be calibrated."""
        rate = [self.sampling_rate] if isinstance(self.sampling_rate, str) else []
        return list(dict.fromkeys([*(task.score for task in self.tasks), *self.field_names, *rate]))

    def task(self, name: str | None = None) -> TaskModel:
        """Returns a task by name; without a name, the only one."""
        if name is None:
            if len(self.tasks) == 1:
                return self.tasks[0]
            raise InvalidInput.of("task", None, f"one of {', '.join(self.task_names)}", 'pass task="…"')
        for task in self.tasks:
            if task.name == name:
                return task
        raise UnknownName.among("task", name, self.task_names)

    def roles(self, **columns: Any) -> Roles:
        """Returns the roles of a table that this model is judged on: its own scores and fields, and what is given.

        Arguments:
            columns: As of `Roles`, where `label` may also be task to column, and `tasks` may name some of the model's.
                Label, sampling rate and soft labels are those of the fit unless they are given; scores are the model's.
        """
        given: dict[str, Any] = {name: value for name, value in columns.items() if value is not None}
        score, label, tasks = (given.pop(name, None) for name in ("score", "label", "tasks"))
        given |= {"fields": self.vocabulary.category_names, "numeric": self.vocabulary.numeric_names}
        own = {task.name: task.score for task in self.tasks}
        pairs = {task.name: (task.label, score or task.score) for task in self.tasks}
        if tasks is not None:
            if label is not None or score is not None:
                raise InvalidInput.of("tasks", "tasks and label", "one of the two", "put every task into tasks=")
            pairs = {name: (part, own.get(name)) if isinstance(part, str) else part for name, part in tasks.items()}
        elif isinstance(label, str):
            if len(pairs) > 1:
                raise InvalidInput.of(
                    "label",
                    repr(label),
                    f"one label column per task ({', '.join(own)})",
                    "pass a mapping of task to column, or nothing to use the columns of the fit",
                )
            pairs = {name: (label, found) for name, (_, found) in pairs.items()}
        elif label is not None:
            for name in label:
                check_known("task of label", name, own)
            pairs = {name: (label.get(name, known), found) for name, (known, found) in pairs.items()}
        for name, (_, found) in pairs.items():
            if found != self.task(name).score:
                expected = f"the model's, {own[name]!r}"
                raise InvalidInput.of(f"score of task {name!r}", repr(found), expected, "leave it out, or rename it")
        if given.setdefault("scores_are", self.scores_are) != self.scores_are:
            expected = f"the model's score space, {self.scores_are!r}"
            raise InvalidInput.of("scores_are", repr(given["scores_are"]), expected, "convert the column")
        given.setdefault("sampling_rate", self.sampling_rate)
        given.setdefault("soft_labels", bool(self.info.get("soft_labels")))
        return Roles(tasks=pairs, **given)

    def predict(self, table: TableLike, task: str | None = None, *, interval: float | None = None) -> Any:
        """Returns calibrated probabilities of a table: an array, or one per task if there are several.

        Arguments:
            table: A path or data frame with the score and field columns; other columns are ignored.
            task: Which task; None means all.
            interval: How often the true probability is meant to lie between two ends, such as 0.9: `RowIntervals` take
                the place of an array then, with the same `probabilities`, and `lower` and `upper`. Against simulated
                truth intervals of 0.9 hold .80 to .99 of it, least where errors depend on three or more columns
                together (.80 to .91): see the guide on row intervals before bidding by the lower end.

        Example:
            >>> import monocal
            >>> log = monocal.simulate_log(20_000).table()
            >>> model = monocal.fit(log, method="wide_logistic", score="pctr", label="click", fields=["device"])
            >>> found = model.predict(log.slice(0, 2), interval=0.9)
            >>> bool((found.lower < found.probabilities).all() and (found.probabilities < found.upper).all())
            True
        """
        if interval is not None:
            check_level(interval)
        stream = open_table(table)
        self.check_columns(stream.column_names)
        wanted = self.task_names if task is None else (self.task(task).name,)
        parts: dict[str, list[Any]] = {name: [] for name in wanted}
        with progress("calibrating", stream.n_rows) as bar:
            texts = self.vocabulary.category_names
            for rows in stream.placed_batches(self.columns, PREDICT_BATCH_ROWS, texts):
                for name, found in self.predict_batch(rows, wanted, interval=interval).items():
                    parts[name].append(found)
                bar.advance(rows.batch.num_rows)
        joined = {name: _joined(found, with_ends=interval is not None) for name, found in parts.items()}
        return joined[wanted[0]] if len(wanted) == 1 else joined

    def predict_batch(
        self, batch: pa.RecordBatch | RawRows, tasks: tuple[str, ...] | None = None, *, interval: float | None = None
    ) -> dict[str, Any]:
        """Returns the probabilities of one batch of raw rows, or their intervals, for all tasks or those in `tasks`.

        Arguments:
            batch: The rows; with their places in a file an error names them.
            tasks: Which tasks; None means all.
            interval: As for `predict`.
        """
        rows = batch if isinstance(batch, RawRows) else RawRows(batch, "the batch", np.arange(batch.num_rows), "row")
        wanted = [task for task in self.tasks if tasks is None or task.name in tasks]
        rate, scores = self.sampling_rate, {task.name: numbers(rows, task.score, "score") for task in wanted}
        rates = numbers(rows, rate, "sampling rate") if isinstance(rate, str) else rate
        ids = self.vocabulary.encode(rows.batch)
        answers: dict[str, Any] = self.predict_ids(ids, scores, rates)
        if interval is None:
            return answers
        known = logit_variance(self, ids, scores, rates)
        return {name: row_intervals(p, known[name], interval) for name, p in answers.items()}

    def predict_rows(self, rows: Table) -> dict[str, Floats]:
        """Returns the probabilities of rows that were read, for each of their tasks."""
        fields = {name: rows.fields[name] for name in self.field_names}
        lookups = [self.vocabulary[name].encode(column.known_values) for name, column in fields.items()]
        answers = {task: np.empty(rows.n_rows) for task in rows.scores}
        with progress("calibrating", rows.n_rows) as bar:
            for start in range(0, rows.n_rows, PREDICT_BATCH_ROWS):
                at = slice(start, min(start + PREDICT_BATCH_ROWS, rows.n_rows))
                ids = np.empty((at.stop - start, len(lookups)), dtype=np.int32)
                for index, (lookup, column) in enumerate(zip(lookups, fields.values(), strict=True)):
                    ids[:, index] = lookup[column.ids[at]]
                scores = {task: column[at] for task, column in rows.scores.items()}
                rates = rows.rates[at] if isinstance(rows.rates, np.ndarray) else rows.rates
                for task, found in self.predict_ids(ids, scores, rates).items():
                    answers[task][at] = found
                bar.advance(at.stop - start)
        return answers

    def predict_ids(
        self, ids: Ids, scores: Mapping[str, Floats], sampling_rate: Floats | float | None = None
    ) -> dict[str, Floats]:
        """Returns probabilities of rows that are encoded already.

        Arguments:
            ids: Field ids `(n, F)` in the order of `field_names`.
            scores: Scores of the wanted tasks, in the model's score space.
            sampling_rate: Share of negatives kept, one number or one per row.
        """
        answers = {}
        for name, rows in _rows_of_tasks(self, ids, scores, sampling_rate):
            answers[name] = self.task(name).calibrator.predict_data(rows)
        return answers

    def check_columns(self, available: list[str]) -> None:
        """Refuses a table that lacks a column, naming what the model was fitted on and the nearest column there."""
        for role, names in (("score", [task.score for task in self.tasks]), ("field", list(self.field_names))):
            for name in names:
                if name not in available:
                    what = f"{role} column (the model was fitted with it)"
                    raise UnknownName.among(what, name, available, f"add the column {name!r} to the table")
        if isinstance(self.sampling_rate, str) and self.sampling_rate not in available:
            raise UnknownName.among("sampling rate column", self.sampling_rate, available)

    def refresh(self, table: TableLike, roles: Roles | None = None, **options: Any) -> Model:
        """Returns the next generation, which goes on from this model with newer rows; see `refresh_model`.

        Arguments:
            table: Labelled rows that are newer than those it learned from.
            roles: Which column is what, or the same by name.
            options: `label`, `weight`, `time` and other columns, `since` and `until`.
        """
        from monocal.models.refresh import refresh_model

        return refresh_model(self, table, roles, **options)

    def with_fusion(self, fusion: Fusion) -> Model:
        """Returns the same model with a fusion rule, checked against its tasks."""
        for name in fusion.weights:
            self.task(name)
        return replace(self, fusion=fusion)

    def verify_canary(self, tolerance: float = 1e-6) -> float:
        """Scores the stored rows again and returns the largest difference; beyond `tolerance` it raises."""
        from monocal.models.artefact import check_canary

        return check_canary(self, tolerance)

    def save(self, folder: str | Path) -> Path:
        """Writes the model as a folder, atomically; a model that is there is replaced, anything else refused."""
        from monocal.models.artefact import save_model

        return save_model(self, folder)

    def carried(self, task: str) -> list[str]:
        """Returns what a task's fit carries forward, as lines; none if the method shrinks nothing by time."""
        return RetainedEffects.of(self.task(task).calibrator, self.field_names).lines()

    def plot(self, task: str | None = None, *, ax: Any = None) -> Any:
        """Draws the learned map from score to probability, see `reports.figures.draw_model`; needs `monocal[plot]`.

        Arguments:
            task: Which task; needed where there are several.
            ax: Axes of matplotlib; None makes a new figure.
        """
        from monocal.reports.figures import draw_model

        return draw_model(self, task, ax)

    def describe(self) -> str:
        """Returns a few lines for people."""
        from monocal.models.inspect import describe_model

        return describe_model(self)


def _joined(parts: Sequence[Any], *, with_ends: bool) -> Any:
    """Returns answers of batches as one array, or as one set of intervals."""
    if not with_ends:
        return np.concatenate([np.zeros(0), *parts])
    columns = zip(*parts, strict=True) if parts else [()] * 3
    return RowIntervals(*(np.concatenate([np.zeros(0), *column]) for column in columns))


def logit_variance(
    model: Model,
    ids: Ids,
    scores: Mapping[str, Floats],
    sampling_rate: Floats | float | None = None,
) -> dict[str, LogitVariance]:
    """Returns how surely each row's calibrated logit is known, by task; arguments as for `Model.predict_ids`."""
    rows = _rows_of_tasks(model, ids, scores, sampling_rate)
    return {name: model.task(name).calibrator.logit_variance(data) for name, data in rows}


def _rows_of_tasks(
    model: Model, ids: Ids, scores: Mapping[str, Floats], rate: Floats | float | None
) -> Iterator[tuple[str, Dataset]]:
    """Yields the tasks with their rows as calibrators take them, one after the other."""
    features = ids if ids.shape[1] else None
    for task, column in scores.items():
        yield task, Dataset.of(column, features=features, scores_are=model.scores_are, sampling_rate=rate)
