"""Several methods on one log and the same rows: which are better, and which the data cannot tell apart."""

from __future__ import annotations

import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from monocal.calibrators import CALIBRATORS, calibrator
from monocal.calibrators.statistical.carry_over import NETWORK_LEFT_OUT
from monocal.core.errors import MonocalError, UnknownName
from monocal.core.progress import progress
from monocal.core.spaces import Floats, ScoreSpace
from monocal.judging.compare import MARGIN, Comparison, Verdict, compare
from monocal.judging.judge_rows import Judging, judge_rows
from monocal.judging.judgement import headline_metrics
from monocal.judging.report import Report
from monocal.logs.encoded_log import EncodedLog
from monocal.logs.held_out import HeldOut, hold_out
from monocal.logs.holdout import DEFAULT_SHARE, Holdout
from monocal.logs.late_input import late_input
from monocal.logs.scored_input import ScoredInput
from monocal.metrics import METRICS
from monocal.models.fitting import fit_log
from monocal.tables.late_labels import LateLabels
from monocal.tables.rows import Rows
from monocal.tables.tabular import Tabular

UNCALIBRATED = "none"

AT_THEIR_BEST: Mapping[str, Mapping[str, Any]] = {"wide_logistic": {"l2": "auto", "carry": "auto"}}
"""Arguments of methods whose defaults are plainer than what a practitioner would use; given ones come first."""


@final
@dataclass(frozen=True, eq=False)
class MethodResult:
    """One method of a comparison.

    Attributes:
        method: Its name.
        report: Its metrics on the held-out rows; None if it could not be fitted.
        fit_seconds: How long the fit took.
        problem: Why it could not be fitted; empty otherwise.
        against_uncalibrated: Paired differences to the score as it is; None for that itself.
        against_best: Paired differences to the best method; None for that itself.
        carried: Field to the share of its effect that is carried forward; empty if everything is believed.
        network_share: Share to which its network is believed, 0 if it was rejected; None without such a share.
        setting: Arguments that differ from the method's defaults, in words.
    """

    method: str
    report: Report | None
    fit_seconds: float
    problem: str = ""
    against_uncalibrated: Comparison | None = None
    against_best: Comparison | None = None
    carried: Mapping[str, float] = field(default_factory=dict)
    network_share: float | None = None
    setting: str = ""

    @property
    def remark(self) -> str:
        """Says that the network was rejected, or that the method is not as by default; empty otherwise."""
        if self.network_share == 0.0:
            return NETWORK_LEFT_OUT
        return self.setting


@final
@dataclass(frozen=True, eq=False)
class MethodComparison(Tabular):
    """Methods from the best to the worst.

    Attributes:
        metric: What they are sorted by: its excess over the noise floor, its value if it has no floor.
        results: The methods, best first; those that could not be fitted come last.
        holdout: How the rows were split.
        margin: Share of a metric below which a difference is a tie.
        late_labels: How mature the rows are, if labels may still come.
    """

    metric: str
    results: tuple[MethodResult, ...]
    holdout: Holdout
    margin: float = MARGIN
    late_labels: LateLabels | None = None

    @property
    def has_floor(self) -> bool:
        """Whether methods are sorted by their excess over a floor."""
        return METRICS[self.metric].has_floor

    def __repr__(self) -> str:
        return f"MethodComparison of {len(self.results)} methods by {self.metric}, best {self.best.method}"

    def _columns(self) -> dict[str, list[Any]]:
        found = [one.report for one in self.results]
        return {
            "method": [one.method for one in self.results],
            self.metric: [None if one is None else one.value(self.metric) for one in found],
            "floor": [None if one is None else one.floor(self.metric) for one in found],
            "log_loss": [
                None if one is None or "log_loss" not in one.names else one.value("log_loss") for one in found
            ],
            "against_best": [self.verdict_against_best(one) for one in self.results],
            "fit_seconds": [one.fit_seconds for one in self.results],
            "remark": [one.problem or one.remark for one in self.results],
        }

    @property
    def best(self) -> MethodResult:
        return self.results[0]

    @property
    def tied_with_best(self) -> list[str]:
        """Methods that the data cannot tell from the best."""
        return [one.method for one in self.results[1:] if self.verdict_against_best(one) == "tie"]

    def verdict_against_best(self, one: MethodResult) -> Verdict | None:
        """What a method is beside the best: "worse", or "tie" where the paired interval includes no difference."""
        return None if one.against_best is None else one.against_best.verdict(self.metric)

    def result(self, method: str) -> MethodResult:
        """Returns a method's result by name."""
        for one in self.results:
            if one.method == method:
                return one
        raise UnknownName.among("method", method, [one.method for one in self.results])

    def as_dict(self) -> dict[str, Any]:
        return {
            **({} if self.late_labels is None else {"late_labels": self.late_labels.as_dict()}),
            "metric": self.metric,
            "best": self.best.method,
            "tied_with_best": self.tied_with_best,
            "holdout": self.holdout.as_dict(),
            "methods": [_entry(one) for one in self.results],
        }


def compare_methods(
    table: ScoredInput,
    methods: Sequence[str] | None = None,
    *,
    score: str | None = None,
    label: str | None = None,
    fields: Sequence[str] = (),
    weight: str | None = None,
    time: str | None = None,
    group: str | None = None,
    sampling_rate: float | str | None = None,
    scores_are: ScoreSpace = "probability",
    soft_labels: bool = False,
    min_count: int = 1,
    max_size: int | None = None,
    holdout: float = DEFAULT_SHARE,
    metric: str | None = None,
    metrics: Sequence[str] | None = None,
    arguments: Mapping[str, Mapping[str, Any]] | None = None,
    margin: float = MARGIN,
    n_bootstrap: int = 200,
    seed: int = 0,
    event_time: str | None = None,
    label_time: str | None = None,
    window: str | None = None,
) -> MethodComparison:
    """Fits several methods on the same older rows and judges them on the same recent ones.

    The table is sorted by how much a method's metric exceeds its noise floor, the value that a perfect forecaster would
    have on so many rows (log-loss, Brier and AUC, which have no floor, by their value). Differences are paired: both
    methods see the same resampled rows. Where the interval of a difference includes zero, or the difference is below
    the margin, the verdict is "tie". A method that cannot be fitted here is listed with the reason.

    Arguments:
        table: A table with scores, or a prepared log with scores or its folder.
        methods: Names of calibrators; None means all that can be fitted. The uncalibrated score is always among them.
        score: As in `monocal.fit`, like the following columns.
        label: The 0/1 column; of a prepared log the task, by default its first.
        fields: Categorical columns.
        weight: How often a row counts.
        time: Column that orders rows.
        group: Users or queries, which intervals resample.
        sampling_rate: A number or a column.
        scores_are: The space of the scores.
        soft_labels: Labels may be any numbers in [0, 1]: q stands for q positives and 1 − q negatives.
        min_count: Field values with fewer rows count as unseen.
        max_size: The most values a field may have.
        holdout: The most recent share of rows, which judges.
        metric: What to sort by; by default `mfrce` if there are fields, else `ece`.
        metrics: Further metrics to report; by default the headline ones.
        arguments: Method to its constructor arguments. Without any, `wide_logistic` learns its penalties and shares
            (`l2="auto"`, `carry="auto"`): the baseline at its best.
        margin: Differences below this share of the metric are ties.
        n_bootstrap: Replicates behind an interval.
        seed: Seed of resampling.
        event_time: Where labels may still come, as in `monocal.fit`; metrics are those of the labels that have come.
        label_time: When a positive label came.
        window: How long labels count.

    Example:
        >>> from monocal.lab.simulator import simulate_log
        >>> log = simulate_log(20_000, world="affine").table()
        >>> found = compare_methods(log, ["platt", "beta"], score="pctr", label="click", time="timestamp")
        >>> found.results[-1].method, found.tied_with_best in (["platt"], ["beta"])
        ('none', True)
    """
    arguments = {**AT_THEIR_BEST, **(arguments or {})}
    _check_methods(list(CALIBRATORS) if methods is None else [*methods, UNCALIBRATED], arguments)
    given, embeddings, labels = late_input(
        table,
        event_time=event_time,
        label_time=label_time,
        window=window,
        score=score,
        label=label,
        fields=fields,
        weight=weight,
        time=time,
        group=group,
        sampling_rate=sampling_rate,
        scores_are=scores_are,
        soft_labels=soft_labels,
    )
    maturity = given.maturity if isinstance(given, Rows) else None
    rows = hold_out(_one_task(given, label), holdout, min_count=min_count, max_size=max_size)
    has_fields = bool(rows.test.fields)
    chosen = list(
        dict.fromkeys([*(default_methods(has_fields=has_fields) if methods is None else methods), UNCALIBRATED])
    )
    by = _sorting_metric(metric, has_fields)
    headline = headline_metrics(has_fields=has_fields, has_groups=rows.test.groups is not None)
    judging = Judging(list(dict.fromkeys([by, *(metrics or headline)])), n_bootstrap=n_bootstrap, seed=seed)
    results = []
    with progress("comparing", len(chosen), unit="methods") as bar:
        for name in chosen:
            bar.note(name)
            results.append(_run(name, rows, embeddings, arguments.get(name, {}), judging, maturity))
            bar.advance(1)
    return MethodComparison(by, _ranked(results, by, margin), rows.holdout, margin, labels)


def _check_methods(methods: Sequence[str], arguments: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuses unknown methods and arguments before anything is read."""
    for name in methods:
        calibrator(name, **arguments.get(name, {}))
    for name in arguments:
        if name not in methods and name not in AT_THEIR_BEST:
            raise UnknownName.among("method of arguments", name, methods)


def _one_task(log: Rows | EncodedLog, task: str | None) -> Rows | EncodedLog:
    if isinstance(log, Rows):
        return log
    if task is not None and task not in log.scores:
        raise UnknownName.among("task", task, log.scores)
    names = list(log.scores)[:1] if task is None else [task]
    return replace(log, scores={name: log.scores[name] for name in names})


def _run(
    method: str,
    rows: HeldOut,
    embeddings: Sequence[Any] | None,
    arguments: Mapping[str, Any],
    judging: Judging,
    maturity: Floats | None,
) -> MethodResult:
    started = clock.perf_counter()
    try:
        kept = None if maturity is None else maturity[: rows.fit.n_rows]
        model = fit_log(rows.fit, method, arguments, embeddings, maturity=kept)
    except MonocalError as problem:
        return MethodResult(method, None, clock.perf_counter() - started, str(problem))
    seconds = clock.perf_counter() - started
    calibrated = model.predict_ids(rows.features, rows.test.scores, rows.test.rates)
    (found,) = judge_rows(rows.test, calibrated, judging).values()
    carry = getattr(model.task().calibrator, "carry_", {})
    return MethodResult(
        method,
        found.judgement.last,
        seconds,
        carried={
            model.field_names[place]: float(share)
            for place, share in zip(carry.get("field", ()), carry.get("share", ()), strict=True)
        },
        network_share=float(carry["network"][0]) if "network" in carry else None,
        setting=", ".join(f"{name}={value}" for name, value in arguments.items()),
    )


def _ranked(results: list[MethodResult], by: str, margin: float) -> tuple[MethodResult, ...]:
    def place(one: MethodResult) -> float:
        if one.report is None:
            return np.inf
        found = one.report.metrics[by]
        key = one.report.excess(by) if found.has_floor else found.goal.loss(one.report.value(by))
        return key if np.isfinite(key) else np.finfo(np.float64).max

    ordered = sorted(results, key=place)
    reference = next(one.report for one in results if one.method == UNCALIBRATED)
    best = ordered[0].report
    ranked = []
    for one in ordered:
        if one.report is None or reference is None or best is None:
            ranked.append(one)
            continue
        ranked.append(
            replace(
                one,
                against_uncalibrated=None if one.report is reference else compare(reference, one.report, margin=margin),
                against_best=None if one.report is best else compare(best, one.report, margin=margin),
            )
        )
    return tuple(ranked)


def _sorting_metric(metric: str | None, has_fields: bool) -> str:
    if metric is None:
        return "mfrce" if has_fields else "ece"
    if metric not in METRICS:
        raise UnknownName.among("metric", metric, METRICS)
    return metric


def _entry(one: MethodResult) -> dict[str, Any]:
    return {
        "method": one.method,
        "problem": one.problem,
        "fit_seconds": one.fit_seconds,
        "carried": dict(one.carried),
        "network_share": one.network_share,
        "report": None if one.report is None else one.report.as_dict(),
        "against_uncalibrated": None if one.against_uncalibrated is None else one.against_uncalibrated.as_dict(),
        "against_best": None if one.against_best is None else one.against_best.as_dict(),
    }


def default_methods(*, has_fields: bool) -> list[str]:
    """Returns every method that can be fitted with or without fields.

    Example:
        >>> "per_segment" in default_methods(has_fields=False)
        False
    """
    return [name for name, kind in CALIBRATORS.items() if has_fields or kind.class_tags.features != "required"]
