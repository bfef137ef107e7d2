"""From a table to evaluations of each task, before and after calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Unpack, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, UnknownName, check_known
from monocal.core.fields import Ids
from monocal.core.scores import Floats
from monocal.evaluation.cells import dispersion_of
from monocal.evaluation.evaluate import evaluate_forecast, forecast_of, headline_metrics
from monocal.evaluation.fields import by_times_seen, field_tables
from monocal.evaluation.result import Evaluation, EvaluationOptions
from monocal.evaluation.verdict import quality_checks
from monocal.metrics import Forecast
from monocal.models.facts import known_delays, times_seen, warn_about_fitted
from monocal.models.model import Model
from monocal.tables.late_labels import LateLabels
from monocal.tables.result import Tabular
from monocal.tables.roles import Columns, Roles, columns_of
from monocal.tables.source import TableLike, open_table
from monocal.tables.split import binned
from monocal.tables.table import Table

BEFORE, AFTER = "before", "after"


def evaluation_roles(
    model: Model | None,
    available: Sequence[str],
    *,
    by: Sequence[str] = (),
    fields: Sequence[str] | None = None,
    **columns: Any,
) -> Roles:
    """Returns the roles of a table on which a score, or a model beside its own score, is evaluated.

    Arguments:
        model: Brings its tasks, fields, score space and sampling rate along; None evaluates a score column.
        available: The columns of the table; one that the model needs and that is missing is refused.
        fields: Columns for field-wise metrics; None means the model's.
        by: Columns of which every value is evaluated.
        columns: The other roles, by name. With a model `label`, `sampling_rate` and `soft_labels` are those of the fit
            unless they are given.

    Example:
        >>> roles = evaluation_roles(None, ["z", "click"], score="z", label="click", scores_are="logit")
        >>> roles.scores, roles.scores_are
        ({'click': 'z'}, 'logit')
    """
    columns["slices"] = [*(fields or ()), *by]
    if model is None:
        roles = Roles(**columns)
        roles.check_scores()
    else:
        model.check_columns(list(available))
        roles = model.roles(**columns)
    check_fields(fields or (), available)
    return roles


def check_fields(fields: Sequence[str], available: Sequence[str]) -> None:
    """Refuses a missing column by the argument that named it: fields of an evaluation are read as slices.

    Example:
        >>> check_fields(["sites"], ["site", "click"])
        Traceback (most recent call last):
        ...
        monocal.core.errors.UnknownName: fields: got 'sites'; expected one of site, click. Hint: did you mean 'site'?
    """
    for name in fields:
        check_known("fields", name, available)


def evaluate_rows(
    rows: Table,
    calibrated: Mapping[str, Floats] | None = None,
    options: EvaluationOptions | None = None,
    times_seen: Mapping[str, NDArray[np.int64]] | None = None,
) -> dict[str, Evaluation]:
    """Evaluates every task of rows that were read.

    Arguments:
        rows: The rows.
        calibrated: Task to a model's probabilities of all rows, which are evaluated beside the scores; None evaluates
            the scores alone.
        options: How; by default headline metrics.
        times_seen: Field to the number of rows of the fit that had each row's value.

    Example:
        >>> from monocal.tables.roles import Roles
        >>> from monocal.tables.table import Table
        >>> rows = Table.read({"y": [0, 1] * 50, "p": [0.4, 0.8] * 50}, Roles(score="p", label="y"))
        >>> round(evaluate_rows(rows)["y"].value("pcoc"), 2)
        1.2
    """
    options, found = options or EvaluationOptions(), {}
    headline = headline_metrics(has_fields=bool(rows.fields), has_groups=rows.groups is not None)
    options = replace(options, metrics=options.metrics or headline)
    for task in rows.scores:
        known = rows.labels[task] >= 0
        if not known.any():
            raise InvalidInput.of(f"labels of task {task!r}", "only nulls", "some labels", "check the label column")
        part = rows.observed(task)
        stages = {BEFORE: part.arrived(part.uncalibrated(task))}
        if calibrated is not None:
            p = calibrated[task]
            stages[AFTER] = part.arrived(p if len(p) == part.n_rows else p[known])
        forecasts = [_forecast(part, task, p) for p in stages.values()]
        shown, evaluated = {name: part.fields[name] for name in options.by}, []
        dispersions = {name: dispersion_of(forecasts[-1], column.ids) for name, column in shown.items()}
        for forecast in forecasts:
            by = field_tables(forecast, shown, dispersions, confidence=options.confidence, values=part.values)
            evaluated.append(replace(evaluate_forecast(forecast, options), by=by))
        seen = {
            name: by_times_seen(counts[known], part.labels[task], stages, part.weights)
            for name, counts in (times_seen or {}).items()
        }
        found[task] = replace(evaluated[-1], before=None if calibrated is None else evaluated[0], times_seen=seen)
    return found


def _forecast(rows: Table, task: str, p: Floats) -> Forecast:
    fields = {name: column.ids for name, column in rows.fields.items()}
    return forecast_of(rows.labels[task], p, fields=fields, groups=rows.groups, units=rows.units, weights=rows.weights)


@final
@dataclass(frozen=True, eq=False)
class TableEvaluation(Tabular):
    """All tasks of a table.

    Attributes:
        tasks: Task to its evaluation; with a model that of the calibrated forecast, whose `before` is the score's.
        n_rows: Rows that were read.
        late_labels: How mature the rows are, if labels may still come.
    """

    tasks: Mapping[str, Evaluation]
    n_rows: int
    late_labels: LateLabels | None = None

    def __repr__(self) -> str:
        return f"TableEvaluation of {', '.join(self.tasks)} on {self.n_rows:,} rows"

    def plot(self, task: str | None = None, *, ax: Any = None) -> Any:
        """Draws reliability before and after calibration, see `Evaluation.plot`.

        Arguments:
            task: Which task; needed where there are several.
            ax: Axes of matplotlib; None makes a new figure.
        """
        if task is None and len(self.tasks) != 1:
            raise InvalidInput.of("task", None, f"one of {', '.join(self.tasks)}", 'pass task="…"')
        if task is not None and task not in self.tasks:
            raise UnknownName.among("task", task, self.tasks)
        return self.tasks[next(iter(self.tasks)) if task is None else task].plot(ax=ax)

    def as_dict(self) -> dict[str, Any]:
        """Returns every task's stages, their difference, and errors by value, as plain numbers."""
        return {
            **({} if self.late_labels is None else {"late_labels": self.late_labels.as_dict()}),
            "n_rows": self.n_rows,
            "tasks": {
                task: {
                    **{stage: found.as_dict() for stage, found in evaluation.stages.items()},
                    **({} if evaluation.change is None else {"change": evaluation.change.as_dict()}),
                    "by": {
                        name: {stage: found.by[name].as_dict() for stage, found in evaluation.stages.items()}
                        for name in evaluation.by
                    },
                    "checks": [asdict(check) for check in quality_checks(evaluation)],
                    "new_and_rare_values": {
                        name: [band.as_dict() for band in bands] for name, bands in evaluation.times_seen.items()
                    },
                }
                for task, evaluation in self.tasks.items()
            },
        }

    def _columns(self) -> dict[str, list[Any]]:
        keys = ("task", "metric", "before", "after", "difference", "low", "high", "verdict")
        columns: dict[str, list[Any]] = {key: [] for key in keys} if self.tasks else {}
        for task, evaluation in self.tasks.items():
            changes = {} if evaluation.change is None else evaluation.change.as_dict()
            for name in evaluation.names:
                change = changes.get(name, {})
                values = [found.value(name) for found in evaluation.stages.values()]
                row = (task, name, *(values if len(values) == 2 else (values[0], None)), change.get("difference"))
                row += (*change.get("interval", (None, None)), change.get("verdict"))
                for key, cell in zip(keys, row, strict=True):
                    columns[key].append(cell)
        return columns


def evaluate_table(
    table: TableLike,
    roles: Roles | None = None,
    *,
    model: Model | None = None,
    by: Sequence[str] = (),
    since: str | None = None,
    until: str | None = None,
    metrics: Sequence[str] | None = None,
    n_bootstrap: int = 200,
    seed: int = 0,
    **columns: Unpack[Columns],
) -> TableEvaluation:
    """Measures a score column, or a model beside the score it calibrates, on a table.

    Arguments:
        table: Anything `open_table` takes.
        model: Evaluated beside its own score; it brings its tasks, fields, score space and sampling rate along.
        roles: Which column is what, or the same by name. Fields are for field-wise metrics, by default the model's.
        by: Fields of which every value is evaluated.
        since: Rows before this moment are left out.
        until: Rows at or after it are left out.
        metrics: Names; None means the headline ones.
        n_bootstrap: Replicates behind an interval.
        seed: Seed of resampling.
        columns: In place of roles: `score`, `label`, `group`, `time` and others; with a model what is not named is as
            in the fit. With `event_time`, `label_time` and `window` every metric is that of the forecast of labels that
            have come, the probability times the share that has come by the row's age.

    Example:
        >>> from monocal.lab.simulator import simulate_log
        >>> log = simulate_log(20_000, world="affine").table()
        >>> click = evaluate_table(log, score="pctr", label="click", by=["device"], group="user_id").tasks["click"]
        >>> round(click.value("pcoc"), 1), len(click.by["device"])
        (2.0, 5)
    """
    given = columns_of(evaluate_table, roles, columns)
    stream, fields = open_table(table), given.get("fields")
    delays = None if model is None else known_delays(model)
    parts = evaluation_roles(model, stream.column_names, by=by, **given)
    rows = Table.read(stream, parts, since=since, until=until, delays=delays)
    labels = rows.late_labels
    chosen, calibrated, seen = rows if fields is None else rows.with_fields([*fields, *by]), None, None
    if model is not None:
        warn_about_fitted(model, rows)
        calibrated = model.predict_rows(rows)
        seen = rows_seen(model, model.vocabulary.encode_columns(rows.fields, rows.n_rows))
        chosen = binned(chosen, model.vocabulary)
    options = EvaluationOptions(metrics, by, n_bootstrap=n_bootstrap, seed=seed)
    return TableEvaluation(evaluate_rows(chosen, calibrated, options, seen), rows.n_table_rows, labels)


def rows_seen(model: Model, ids: Ids) -> dict[str, NDArray[np.int64]]:
    """Returns categorical field to how many rows of the fit had each row's value; empty if the model does not know.

    Arguments:
        model: The model.
        ids: The rows' ids of its fields.
    """
    found = dict(zip(model.field_names, times_seen(model.value_counts, ids), strict=False))
    return {name: found[name] for name in model.vocabulary.category_names if name in found}
