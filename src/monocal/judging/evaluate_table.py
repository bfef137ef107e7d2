"""From a table to judgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.spaces import ScoreSpace
from monocal.judging.judge_rows import Judging, TaskEvaluation, judge_rows
from monocal.judging.judged_roles import judged_roles
from monocal.judging.judgement import judgement_columns
from monocal.models.facts import times_seen
from monocal.models.late import known_delays
from monocal.models.learned_rows import warn_about_fitted
from monocal.models.model import Model
from monocal.tables.late_labels import LateLabels, read_mature
from monocal.tables.rows import Rows
from monocal.tables.stream import Table, open_table
from monocal.tables.tabular import Tabular
from monocal.vocabulary.bins import binned


@final
@dataclass(frozen=True, eq=False)
class TableEvaluation(Tabular):
    """All tasks of a table.

    Attributes:
        n_rows: Rows that were read.
        tasks: Task to what was found.
        late_labels: How mature the rows are, if labels may still come.
    """

    n_rows: int
    tasks: dict[str, TaskEvaluation]
    late_labels: LateLabels | None = None

    def __repr__(self) -> str:
        return f"TableEvaluation of {', '.join(self.tasks)} on {self.n_rows:,} rows"

    def _columns(self) -> dict[str, list[Any]]:
        return judgement_columns({name: judged.judgement for name, judged in self.tasks.items()})

    def as_dict(self) -> dict[str, Any]:
        return {
            **({} if self.late_labels is None else {"late_labels": self.late_labels.as_dict()}),
            "n_rows": self.n_rows,
            "tasks": {name: judged.as_dict() for name, judged in self.tasks.items()},
        }


def evaluate_table(
    table: Table,
    *,
    model: Model | None = None,
    score: str | None = None,
    label: str | None = None,
    tasks: Mapping[str, tuple[str, str]] | None = None,
    fields: Sequence[str] | None = None,
    by: Sequence[str] = (),
    group: str | None = None,
    weight: str | None = None,
    time: str | None = None,
    since: str | None = None,
    until: str | None = None,
    sampling_rate: float | str | None = None,
    scores_are: ScoreSpace = "probability",
    soft_labels: bool = False,
    metrics: Sequence[str] | None = None,
    n_bootstrap: int = 200,
    seed: int = 0,
    event_time: str | None = None,
    label_time: str | None = None,
    window: str | None = None,
) -> TableEvaluation:
    """Measures a score column, or a model beside the score it calibrates, on a table.

    Arguments:
        table: Anything `open_table` takes.
        model: Judged beside its own score; it brings its tasks, fields, score space and sampling rate along.
        score: The score column, without a model.
        label: The 0/1 column; with a model the one it was fitted on unless said otherwise.
        tasks: Several tasks: name to (label column, score column).
        fields: Categorical columns for field-wise metrics; None means the model's.
        by: Fields of which every value is judged.
        group: Users, queries or sessions.
        weight: How often each row counts.
        time: Needed for since and until.
        since: Rows before this moment are left out.
        until: Rows at or after it are left out.
        sampling_rate: A number or a column; None means the model's.
        scores_are: The space of the scores, without a model.
        soft_labels: Labels may be any numbers in [0, 1]: q stands for q positives and 1 − q negatives. So they
            are anyway for a model that was fitted on such labels.
        metrics: Names; None means the headline ones.
        n_bootstrap: Replicates behind an interval.
        seed: Seed of resampling.
        event_time: Column that says when a row happened, where its label may still come. Every metric is then that of
            the forecast of labels that have come, the probability times the share that has come by the row's age.
        label_time: Column that says when a positive label came; null where none has.
        window: How long after its event a label counts.

    Example:
        >>> from monocal.lab.simulator import simulate_log
        >>> log = simulate_log(20_000, world="affine").table()
        >>> click = evaluate_table(log, score="pctr", label="click", by=["device"], group="user_id").tasks["click"]
        >>> round(click.judgement.before.value("pcoc"), 1), len(click.by["device"]["before"])
        (2.0, 5)
    """
    columns: dict[str, Any] = {"score": score, "label": label, "tasks": tasks, "scores_are": scores_are}
    columns |= {"sampling_rate": sampling_rate, "soft_labels": soft_labels or None}
    columns |= {"time": time, "group": group, "weight": weight, "fields": fields, "by": by}
    columns |= {"event_time": event_time, "label_time": label_time, "window": window}
    stream = open_table(table)
    roles = judged_roles(model, stream.column_names, **columns)
    delays = None if model is None else known_delays(model)
    rows, labels = read_mature(stream, roles, since=since, until=until, curve=delays)
    if model is not None:
        warn_about_fitted(model.info, model.vocabulary, rows)
    calibrated = None if model is None else model.predict_rows(rows)
    judged = rows if fields is None else rows.with_fields([*fields, *by])
    judged = judged if model is None else binned(judged, model.vocabulary)
    judging = Judging(metrics, by, n_bootstrap, seed, {} if model is None else _times_seen(model, rows))
    found = judge_rows(judged, calibrated, judging)
    return TableEvaluation(rows.n_table_rows, found, labels)


def _times_seen(model: Model, rows: Rows) -> dict[str, NDArray[np.int64]]:
    if not model.value_counts:
        return {}
    ids = model.vocabulary.encode_columns(rows.fields, rows.n_rows)
    found = dict(zip(model.field_names, times_seen(model.value_counts, ids), strict=True))
    return {name: found[name] for name in model.vocabulary.category_names}
