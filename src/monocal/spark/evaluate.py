"""Metrics of a Spark table: the numbers of `monocal evaluate`, from sums that stay on the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from monocal.core.errors import InvalidInput
from monocal.core.spaces import ScoreSpace
from monocal.evaluation.evaluate import Evaluation, EvaluationOptions, chosen_metrics, headline_metrics
from monocal.evaluation.table import TableEvaluation, evaluation_roles
from monocal.metrics import AnyMetric, Mvce, Value, metric
from monocal.metrics.fields import FieldMetric
from monocal.models.model import Model
from monocal.spark.by_field import measure_fields
from monocal.spark.by_group import GroupMetric, measure_groups
from monocal.spark.exact_auc import measure_auc
from monocal.spark.judged_rows import AFTER, BEFORE, Judging, Slot
from monocal.spark.resampling import NO_INTERVAL, Resampling
from monocal.spark.shipping import ship
from monocal.spark.sums import SlotSums, measure_sums

CELLS = 65_536
"""Cells of the sketch behind metrics that need the order of all rows."""


def evaluate(
    df: Any,
    *,
    model: Model | str | Path | None = None,
    score: str | None = None,
    label: str | None = None,
    tasks: Mapping[str, tuple[str, str]] | None = None,
    fields: Sequence[str] | None = None,
    group: str | None = None,
    weight: str | None = None,
    time: str | None = None,
    since: str | None = None,
    until: str | None = None,
    sampling_rate: float | str | None = None,
    scores_are: ScoreSpace = "probability",
    metrics: Sequence[str] | None = None,
    exact: bool = False,
    intervals: bool = False,
    confidence: float = 0.95,
    n_bootstrap: int = 200,
    n_floor: int = 100,
    seed: int = 0,
) -> TableEvaluation:
    """Measures a score column, or a model beside the score it calibrates, on a Spark table.

    How far the numbers may be from those of one machine: sums (`log_loss`, `ne`, `brier`, `pcoc`, `ece`, `mce`,
    `rce`, `smooth_ece`), field metrics, `gauc` and `ndcg` agree to 1e-12 relative: doubles are added in another order.
    `auc`, `adaptive_ece` and `cal_n` come from a sketch of 65,536 cells of the logit and carry their `error_bound` in
    the details; `exact=True` computes `auc` from all rows. `mvce` needs every row in one place and is NaN with that
    reason.

    With `intervals`, metrics of a few hundred sums (`log_loss`, `ne`, `brier`, `pcoc`, `ece`, `mce`, `rce`) get their
    bootstrap intervals and noise floors in the same pass, and `gauc` and `ndcg` their intervals. Rows, or groups where
    a group is given, are dealt at random into 512 blocks, and sums per block are what travels; statistically that is
    what one machine does. For the other metrics the interval is NaN with a reason (`interval_reason`): a sketch or the
    values of a field in 512 blocks would be too large.

    Arguments:
        df: The table.
        model: Judged beside its own score: a model, the folder of one, or its URI.
        score: The score column, without a model.
        label: The 0/1 column; with a model the one it was fitted on unless said otherwise.
        tasks: Several tasks: name to (label column, score column).
        fields: Categorical columns for field-wise metrics; None means the model's.
        group: Users, queries or sessions.
        weight: How often each row counts.
        time: Needed for since and until.
        since: Rows before this moment are left out.
        until: Rows at or after it are left out.
        sampling_rate: A number or a column; None means the model's.
        scores_are: The space of the scores, without a model.
        metrics: Names; None means the headline ones.
        exact: Whether `auc` is computed from all rows, in a pass of its own.
        intervals: Whether intervals and noise floors are computed.
        confidence: Coverage of intervals.
        n_bootstrap: Replicates behind an interval.
        n_floor: Label redraws behind a floor.
        seed: Seed of resampling and redrawing.

    Example:
        found = evaluate(spark.table("ads.test"), model="s3://models/ctr", group="user_id")
        found.tasks["click"].value("gauc")
        0.7312
    """
    loaded, shipped = (None, None) if model is None else ship(model)
    named = list(dict.fromkeys(fields if fields is not None else loaded.field_names if loaded else ()))
    columns: dict[str, Any] = {"score": score, "label": label, "tasks": tasks, "scores_are": scores_are}
    columns |= {"sampling_rate": sampling_rate, "soft_labels": False, "group": group, "weight": weight, "time": time}
    roles = evaluation_roles(loaded, df.columns, fields=named, by=[group] if group else [], **columns)
    roles.check_columns(df.columns)
    names = metrics or headline_metrics(has_fields=bool(named), has_groups=group is not None)
    chosen = chosen_metrics(names)
    stages = (BEFORE,) if loaded is None else (BEFORE, AFTER)
    slots = tuple(Slot(task, stage) for task in roles.labels for stage in stages)
    judging = Judging(roles, slots, shipped, since, until)
    rows = df.select(*(f"`{name}`" for name in roles.columns))
    options = EvaluationOptions(names, (), confidence, n_bootstrap, n_floor, seed)
    resampling = Resampling(n_bootstrap, n_floor, seed, group) if intervals else None
    measured = _measure(rows, judging, chosen, named, group, exact, resampling)
    found: dict[str, Evaluation] = {}
    for number, slot in enumerate(slots):
        if number not in measured:
            raise InvalidInput.of(
                f"labels of task {slot.task!r}", "no rows with a label", "some labels", "check the table and the filter"
            )
        sums = measured[number]
        evaluation = Evaluation(
            chosen, {name: sums.values[name] for name in chosen}, sums.n_rows, options, before=found.get(slot.task)
        )
        if intervals:
            evaluation.resampled, evaluation.redrawn, evaluation.no_interval = sums.replicates, sums.draws, NO_INTERVAL
        found[slot.task] = evaluation
    return TableEvaluation(found, max(evaluation.n_rows for evaluation in found.values()))


def _measure(
    df: Any,
    judging: Judging,
    chosen: Mapping[str, AnyMetric],
    fields: Sequence[str],
    group: str | None,
    exact: bool,
    resampling: Resampling | None,
) -> dict[int, SlotSums]:
    by_field = {name: measure for name, measure in chosen.items() if isinstance(measure, FieldMetric)}
    absent = {
        name: Value.undefined(reason)
        for name, measure in chosen.items()
        for reason in (_reason(measure, bool(fields), group is not None),)
        if reason
    }
    of_rows = {"auc"} if exact else set()
    sums = {
        name: _sketched(measure)
        for name, measure in chosen.items()
        if name not in by_field and name not in absent and name not in of_rows and not isinstance(measure, GroupMetric)
    }
    # the number of rows comes with any sum
    found = measure_sums(df, judging, sums or {"pcoc": metric("pcoc")}, resampling)
    for slot in found.values():
        slot.values.update(absent)
    by_group = {name: measure for name, measure in chosen.items() if isinstance(measure, GroupMetric)}
    if by_field and fields:
        for number, values in measure_fields(df, judging, by_field, fields).items():
            if number in found:
                found[number].values.update(values)
    if by_group and group is not None:
        for number, (values, replicates) in measure_groups(df, judging, by_group, group, resampling).items():
            found[number].values.update(values)
            found[number].replicates.update(replicates)
    if exact and "auc" in chosen:
        for number, area in measure_auc(df, judging).items():
            found[number].values["auc"] = area
    return found


def _reason(measure: AnyMetric, has_fields: bool, has_groups: bool) -> str:
    if isinstance(measure, Mvce):
        return "needs every row in one place"
    if isinstance(measure, FieldMetric) and not has_fields:
        return "no field was given"
    return "no groups were given" if isinstance(measure, GroupMetric) and not has_groups else ""


def _sketched(measure: AnyMetric) -> AnyMetric:
    """The metric itself, or its sketch if its state grows with the rows."""
    return measure if measure.summary.bounded else metric(measure.name, cells=CELLS)
