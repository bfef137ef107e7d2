"""A fit that is judged on rows it has not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from monocal.calibrators import Calibrator
from monocal.core.spaces import ScoreSpace
from monocal.core.team import Team
from monocal.judging.judge_rows import Judging, judge_rows
from monocal.judging.judgement import Judgement, judgement_columns
from monocal.logs.encoded_log import EncodedLog
from monocal.logs.held_out import hold_out
from monocal.logs.holdout import DEFAULT_SHARE, Holdout
from monocal.logs.scored_input import ScoredInput, scored_input
from monocal.models.fit import DEFAULT_METHOD, FitOptions, fit_log, method_and_arguments, rows_to_fit
from monocal.models.late import with_late_labels
from monocal.models.model import Model
from monocal.tables.late_labels import LateLabels
from monocal.tables.rows import Rows
from monocal.tables.tabular import Tabular


@final
@dataclass(frozen=True, eq=False)
class JudgedFit(Tabular):
    """A model with the evidence for it.

    Attributes:
        model: The model; its `info["holdout"]` keeps the headline numbers.
        holdout: How rows were split, in words and numbers.
        tasks: Task to its judgement on the held-out rows; empty if nothing was held out.
        late_labels: How mature the rows are, if labels may still come.
    """

    model: Model
    holdout: Holdout
    tasks: dict[str, Judgement]
    late_labels: LateLabels | None = None

    def __repr__(self) -> str:
        return f"JudgedFit of {self.model!r}: {self.holdout.explanation}"

    def _columns(self) -> dict[str, list[Any]]:
        return judgement_columns(self.tasks)

    def as_dict(self) -> dict[str, Any]:
        return {
            **({} if self.late_labels is None else {"late_labels": self.late_labels.as_dict()}),
            "holdout": self.holdout.as_dict(),
            "tasks": {name: judged.as_dict() for name, judged in self.tasks.items()},
        }


def fit_and_judge(
    table: ScoredInput,
    *,
    method: str | Calibrator = DEFAULT_METHOD,
    score: str | None = None,
    label: str | None = None,
    fields: Sequence[str] = (),
    numeric: Sequence[str] = (),
    tasks: Mapping[str, tuple[str, str]] | None = None,
    weight: str | None = None,
    time: str | None = None,
    group: str | None = None,
    sampling_rate: float | str | None = None,
    scores_are: ScoreSpace = "probability",
    soft_labels: bool = False,
    min_count: int = 1,
    max_size: int | None = None,
    holdout: float = DEFAULT_SHARE,
    refit: bool = False,
    n_bootstrap: int = 200,
    seed: int = 0,
    team: Team | None = None,
    n_shards: int | None = None,
    event_time: str | None = None,
    label_time: str | None = None,
    window: str | None = None,
    **arguments: Any,
) -> JudgedFit:
    """Fits on the older rows and judges on the most recent ones, which the fit has not seen.

    Arguments:
        table: A table with scores, or a prepared log with scores or its folder. A log that knows its parts is fitted
            on "calibration" and judged on "test".
        method: Name of the calibrator, or one with its arguments, as in `monocal.fit`.
        score: As in `monocal.fit`, like the following columns.
        label: The 0/1 column.
        fields: Categorical columns.
        numeric: Columns of numbers, as in `monocal.fit`.
        tasks: For several tasks: name to (label column, score column).
        weight: Column that says how often a row counts.
        time: Column that orders rows.
        group: Column of users, so that intervals resample users.
        sampling_rate: A number or a column.
        scores_are: The space of the scores.
        soft_labels: Labels may be any numbers in [0, 1]: q stands for q positives and 1 − q negatives.
        min_count: Field values with fewer rows count as unseen.
        max_size: The most values a field may have.
        holdout: The most recent share of rows that judges; 0 fits on all rows and judges nothing.
        refit: Whether to fit once more on all rows afterwards. The numbers then belong to the first fit.
        n_bootstrap: Replicates behind an interval.
        seed: Seed of resampling; a network's own is given as `method=monocal.calibrator("umc", seed=5)`.
        team: Who fits together, see `fit_log`; only the first member judges.
        n_shards: Into how many shards the rows are dealt.
        event_time: Where labels may still come, as in `monocal.fit`; metrics are those of the labels that have come.
        label_time: When a positive label came.
        window: How long labels count.
        arguments: Constructor arguments of the calibrator, where `method` is a name.

    Example:
        >>> from monocal.lab.simulator import simulate_log
        >>> log = simulate_log(20_000, world="affine").table()
        >>> judged = fit_and_judge(log, method="platt", score="pctr", label="click", time="timestamp")
        >>> judged.tasks["click"].change.verdict("log_loss"), judged.holdout.n_test
        ('better', 4000)
    """
    chosen, arguments = method_and_arguments(fit_and_judge, method, arguments, min_count=min_count, seed=seed)
    columns: dict[str, Any] = {"score": score, "label": label, "tasks": tasks, "fields": fields, "numeric": numeric}
    columns |= {"group": group, "weight": weight, "time": time}
    columns |= {"sampling_rate": sampling_rate, "scores_are": scores_are}
    columns |= {"soft_labels": soft_labels, "event_time": event_time, "label_time": label_time, "window": window}
    asked = FitOptions(chosen, arguments, min_count, max_size)
    table, roles = scored_input(table, columns)
    given, asked, labels = rows_to_fit(table, roles, asked)
    maturity = given.maturity if isinstance(given, Rows) else None
    rows = hold_out(given, holdout, **asked.limits, keep_all=refit)
    del given  # the parts above have its ids; a second copy of all of them would stay during the fit

    def learn(log: EncodedLog) -> Model:
        mature = None if maturity is None else maturity[: log.n_rows]
        return fit_log(log, asked, team=team, n_shards=n_shards, maturity=mature)

    model = learn(rows.fit)
    if not rows.holdout.n_test or (team is not None and team.rank > 0 and not refit):
        return JudgedFit(model if labels is None else with_late_labels(model, labels), rows.holdout, {}, labels)
    calibrated = model.predict_ids(rows.features, rows.test.scores, rows.test.rates)
    found = judge_rows(rows.test, calibrated, Judging(n_bootstrap=n_bootstrap, seed=seed))
    judged = {task: task_judged.judgement for task, task_judged in found.items()}
    if rows.all_rows is not None and refit:
        model = learn(rows.all_rows())
    facts = {**rows.holdout.as_dict(), "refitted": refit, "metrics": _headline(judged)}
    model = replace(model, info={**model.info, "holdout": facts})
    model = model if labels is None else with_late_labels(model, labels)
    return JudgedFit(model, rows.holdout, judged, labels)


def _headline(judged: Mapping[str, Judgement]) -> dict[str, Any]:
    return {
        task: {
            name: {"before": judgement.before.value(name), "after": judgement.last.value(name)}
            for name in judgement.before.names
            if not judgement.before.reason(name)
        }
        for task, judgement in judged.items()
    }
