"""Several methods on one log and the same rows: which are better, and which the data cannot tell apart."""

from __future__ import annotations

import time as clock
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from math import isfinite
from typing import Any, Literal, Unpack, final

import numpy as np

from monocal.calibrators import CALIBRATORS, Calibrator, calibrator
from monocal.calibrators.registry import OWN
from monocal.carry_over.describe import NETWORK_DROPPED, RetainedEffects
from monocal.core.errors import InvalidInput, MonocalError, UnknownName, check_known
from monocal.core.process import progress
from monocal.evaluation.evaluate import headline_metrics
from monocal.evaluation.paired import MARGIN, Comparison, Outcome, compare_evaluations
from monocal.evaluation.result import Evaluation, EvaluationOptions
from monocal.evaluation.table import evaluate_rows
from monocal.metrics import METRICS
from monocal.metrics.base import minimize
from monocal.models.fit import fit_log
from monocal.models.model import Model
from monocal.tables.checks import with_auto_fields
from monocal.tables.late_labels import LateLabels
from monocal.tables.result import Tabular
from monocal.tables.roles import Columns, Roles, columns_of
from monocal.tables.source import TableLike
from monocal.tables.split import DEFAULT_SHARE, HeldOut, Holdout, hold_out
from monocal.tables.table import Table, rows_of_fit

UNCALIBRATED = "none"

NOT_FAST = ("per_segment", "fac", "sbcr", "desc")
"""Methods of this package that are not compared unless they are named."""

DEFAULT_METRIC = "log_loss"
"""What ranks methods: a proper score, which a constant forecast cannot lead as it can lead calibration errors."""


@final
@dataclass(frozen=True, eq=False)
class MethodResult:
    """One method of a comparison.

    Attributes:
        method: Its name.
        evaluation: Its metrics on the held-out rows; None if it could not be fitted.
        cpu_seconds: What the fit took, on all cores together.
        problem: Why it could not be fitted; empty otherwise.
        setting: Arguments that differ from the method's defaults, in words.
        model: The model that was evaluated, fitted on the older rows alone; None if it could not be fitted.
        against_uncalibrated: Paired differences to the score as it is; None for that itself.
        against_best: Paired differences to the best method; None for that itself.
    """

    method: str
    evaluation: Evaluation | None
    cpu_seconds: float
    problem: str = ""
    setting: str = ""
    model: Model | None = None
    against_uncalibrated: Comparison | None = None
    against_best: Comparison | None = None

    @cached_property
    def retained(self) -> RetainedEffects:
        """What of the method's effects held on later rows of its fit; nothing where it could not be fitted."""
        if self.model is None:
            return RetainedEffects()
        return RetainedEffects.of(self.model.task().calibrator, self.model.field_names)

    @property
    def remark(self) -> str:
        """Says that the network was rejected, or that the method is not as by default; empty otherwise."""
        return NETWORK_DROPPED if self.retained.network == 0.0 else self.setting


_SHOWN = ("log_loss", "pcoc", "ece", "mfrce", "auc")
"""What one wants to see of a method beside what methods are sorted by."""


@final
@dataclass(frozen=True, eq=False)
class MethodComparison(Tabular):
    """Methods from the best to the worst.

    Attributes:
        metric: What they are sorted by.
        results: The methods, best first; those that could not be fitted come last.
        holdout: How the rows were split.
        said: What was taken for fields and how the rows were split, in lines.
        margin: Share of a metric below which a difference is a tie.
        late_labels: How mature the rows are, if labels may still come.
    """

    metric: str
    results: tuple[MethodResult, ...]
    holdout: Holdout
    said: tuple[str, ...] = ()
    margin: float = MARGIN
    late_labels: LateLabels | None = None

    def __repr__(self) -> str:
        return f"MethodComparison of {len(self.results)} methods by {self.metric}, best {self.best.method}"

    def _columns(self) -> dict[str, list[Any]]:
        found = [result.evaluation for result in self.results]
        columns: dict[str, list[Any]] = {"method": [result.method for result in self.results]}
        for name in dict.fromkeys([self.metric, *_SHOWN]):
            rated = [None if each is None or name not in each.names else each for each in found]
            if any(rated):
                columns[name] = [None if each is None else each.value(name) for each in rated]
            # an error; the floor of a rate or an order says nothing
            if any(each and each.metrics[name].goal == minimize and isfinite(each.floor(name)) for each in rated):
                columns[f"{name}_floor"] = [None if each is None else each.floor(name) for each in rated]
        columns["against_best"] = [self.verdict_against_best(result) for result in self.results]
        columns["cpu_seconds"] = [round(result.cpu_seconds, 2) for result in self.results]
        columns["remark"] = [result.problem or result.remark for result in self.results]
        return columns

    @property
    def best(self) -> MethodResult:
        return self.results[0]

    @property
    def tied_with_best(self) -> list[str]:
        """Methods that the data cannot tell from the best."""
        return [
            result.method for result in self.results[1:] if self.verdict_against_best(result) not in (None, "worse")
        ]

    @property
    def too_few(self) -> str:
        """Why nothing is claimed about differences: too few held-out rows; empty if they are enough."""
        return "" if self.best.evaluation is None else self.best.evaluation.too_few()

    def verdict_against_best(self, result: MethodResult) -> Outcome | None:
        """What a method is beside the best: "worse", or "tie" where the paired interval includes no difference.

        "cannot tell" on too few rows.
        """
        return None if result.against_best is None else result.against_best.verdict(self.metric)

    def result(self, method: str) -> MethodResult:
        """Returns a method's result by name."""
        for result in self.results:
            if result.method == method:
                return result
        raise UnknownName.among("method", method, [result.method for result in self.results])

    def plot(self, *, ax: Any = None) -> Any:
        """Draws how far each method is behind the best, with paired intervals; needs `monocal[plot]`.

        Arguments:
            ax: Axes of matplotlib; None makes a new figure.
        """
        from monocal.reports.figures import draw_methods

        return draw_methods(self, ax)

    def as_dict(self) -> dict[str, Any]:
        return {
            **({} if self.late_labels is None else {"late_labels": self.late_labels.as_dict()}),
            "metric": self.metric,
            "best": self.best.method,
            "tied_with_best": self.tied_with_best,
            "holdout": self.holdout.as_dict(),
            "methods": [_entry(result) for result in self.results],
        }


def compare(
    table: TableLike,
    roles: Roles | None = None,
    *,
    methods: Sequence[str | Calibrator] | Literal["all"] | None = None,
    min_count: int = 1,
    max_size: int | None = None,
    holdout: float = DEFAULT_SHARE,
    metric: str = DEFAULT_METRIC,
    metrics: Sequence[str] | None = None,
    arguments: Mapping[str, Mapping[str, Any]] | None = None,
    margin: float = MARGIN,
    n_bootstrap: int = 200,
    seed: int = 0,
    **columns: Unpack[Columns],
) -> MethodComparison:
    """Fits several methods on the same older rows and evaluates them on the same recent ones.

    The table is sorted by log-loss, unless another metric is asked for. Differences are paired: both methods see the
    same resampled rows. Where the interval of a difference includes zero, or the difference is below
    the margin, the verdict is "tie". A method that cannot be fitted here is listed with the reason.

    Arguments:
        table: A table with scores, or a prepared log with scores or its folder.
        roles: Which column is what, as in `monocal.fit`; of a prepared log `label` chooses the task.
        methods: Names of calibrators, or calibrators with their arguments, as in `monocal.fit`; None means those of
            this package that take seconds, "all" all that can be fitted. The uncalibrated score is always among them.
        min_count: Field values with fewer rows count as unseen.
        max_size: The most values a field may have.
        holdout: The most recent share of rows, which is evaluated.
        metric: What to sort by and to call the best: log-loss. A calibration error may be asked for, of which a
            forecast that tells no rows apart can have the smallest.
        metrics: Further metrics to report; by default the headline ones.
        arguments: Name of a method to its constructor arguments. Without any, a method is as `monocal.fit` has it.
        margin: Differences below this share of the metric are ties.
        n_bootstrap: Replicates behind an interval.
        seed: Seed of resampling; a network's own is one of its arguments.
        columns: In place of roles: `score`, `label`, `group` (which intervals resample) and others.

    Example:
        >>> from monocal.lab.simulator import simulate_log
        >>> log = simulate_log(20_000, world="affine").table()
        >>> found = compare(log, methods=["platt", "beta"], score="pctr", label="click", time="timestamp")
        >>> found.results[-1].method, found.tied_with_best in (["platt"], ["beta"])
        ('none', True)
    """
    given = columns_of(compare, roles, columns)
    check_known("metric", metric, METRICS)
    named = None if methods is None or list(methods) == ["all"] or methods == "all" else [*methods, UNCALIBRATED]
    every, not_tried = installed([name for name in OWN if name not in NOT_FAST] if methods is None else CALIBRATORS)
    chosen = chosen_methods(named or every, arguments or {})
    uses_fields = any(method.class_tags.uses_features for method in chosen.values())
    given, said = with_auto_fields(table, given, uses_fields=uses_fields)
    read = rows_of_one_task(table, given)
    labels = read.late_labels
    rows = hold_out(read, holdout, min_count=min_count, max_size=max_size)
    del read
    if named is None and not rows.test.fields:
        chosen = {name: method for name, method in chosen.items() if method.class_tags.features != "required"}
    options = EvaluationOptions(metrics, n_bootstrap=n_bootstrap, seed=seed)
    said += [] if named else not_tried
    found = judge_candidates(rows, list(chosen.values()), options, metric=metric, margin=margin, said=said)
    return replace(found, late_labels=labels)


def installed(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Returns the methods that can be fitted here, and lines on what the others need.

    Example:
        >>> installed(["platt", "beta"])
        (['platt', 'beta'], [])
    """
    has_torch = find_spec("torch") is not None
    missing = [name for name in names if not has_torch and OWN.get(name, "").startswith("monocal.neural")]
    lines = [f"not tried: {name}, which needs torch: pip install 'monocal[neural]'" for name in missing]
    return [name for name in names if name not in missing], lines


def judge_candidates(
    rows: HeldOut,
    methods: Sequence[Calibrator],
    options: EvaluationOptions,
    *,
    metric: str = DEFAULT_METRIC,
    margin: float = MARGIN,
    said: Sequence[str] = (),
) -> MethodComparison:
    """Fits every method on the older rows and judges it on the newest; arguments as in `compare`.

    Arguments:
        rows: The rows, cut.
        methods: Calibrators that stay unfitted, the uncalibrated score among them.
        options: How to evaluate; the metric that sorts is added.
        metric: What sorts.
        margin: Differences below this share of the metric are ties.
        said: What was said before rows were cut.
    """
    shown = rows.shown
    headline = headline_metrics(has_fields=bool(shown.fields), has_groups=shown.groups is not None)
    options = replace(options, metrics=list(dict.fromkeys([metric, *(options.metrics or headline)])))
    results = []
    with progress("fitting and judging", len(methods), unit="methods") as bar:
        for method in methods:
            bar.note(method.name)
            results.append(_run(method, rows, shown, options))
            bar.advance(1)
    remarks = (*said, rows.holdout.explanation)
    return MethodComparison(metric, _ranked(results, metric, margin), rows.holdout, remarks, margin)


def chosen_methods(
    methods: Sequence[str | Calibrator], arguments: Mapping[str, Mapping[str, Any]]
) -> dict[str, Calibrator]:
    """Returns the methods by name, and refuses unknown methods and arguments before anything is read."""
    found: dict[str, Calibrator] = {}
    for method in methods:
        made = calibrator(method, **arguments.get(method.name if isinstance(method, Calibrator) else method, {}))
        if found.setdefault(made.name, made).get_params() != made.get_params():
            raise InvalidInput.of(
                "methods", f"{made.name!r} twice", "each method once", "compare its settings one by one"
            )
    for name in arguments:
        check_known("method of arguments", name, found)
    return found


def rows_of_one_task(table: TableLike, columns: Mapping[str, Any]) -> Table:
    """Returns the rows of a fit; of a prepared log those of the task that `label` names, by default the first."""
    log, task = rows_of_fit(table, columns), columns.get("label")
    if log.features is None:
        if len(log.scores) > 1:
            raise InvalidInput.of("tasks", ", ".join(log.scores), "one task at a time", "name its score and its label")
        return log
    if task is not None and task not in log.scores:
        raise UnknownName.among("task", task, log.scores)
    names = list(log.scores)[:1] if task is None else [task]
    return replace(log, scores={name: log.scores[name] for name in names})


def _run(method: Calibrator, rows: HeldOut, shown: Table, options: EvaluationOptions) -> MethodResult:
    started = clock.process_time()
    try:
        model = fit_log(rows.fit, method)
    except MonocalError as problem:
        return MethodResult(method.name, None, clock.process_time() - started, str(problem))
    seconds = clock.process_time() - started
    calibrated = model.predict_ids(rows.features, rows.test.scores, rows.test.rates)
    (found,) = evaluate_rows(shown, calibrated, options).values()
    return MethodResult(
        method.name,
        found,
        seconds,
        setting=", ".join(f"{name}={value}" for name, value in method.changed_params().items()),
        model=model,
    )


def _ranked(results: list[MethodResult], by: str, margin: float) -> tuple[MethodResult, ...]:
    def loss(result: MethodResult) -> float:
        if result.evaluation is None:
            return np.inf
        found = result.evaluation.metrics[by].goal.loss(result.evaluation.value(by))
        return found if np.isfinite(found) else np.finfo(np.float64).max

    def against(reference: Evaluation | None, result: MethodResult) -> Comparison | None:
        if reference is None or result.evaluation is None or result.evaluation is reference:
            return None
        return compare_evaluations(reference, result.evaluation, margin=margin)

    ordered = sorted(results, key=loss)
    uncalibrated = next(result.evaluation for result in results if result.method == UNCALIBRATED)
    best = ordered[0].evaluation
    return tuple(
        replace(result, against_uncalibrated=against(uncalibrated, result), against_best=against(best, result))
        for result in ordered
    )


def _entry(result: MethodResult) -> dict[str, Any]:
    changes = {"against_uncalibrated": result.against_uncalibrated, "against_best": result.against_best}
    return {
        "method": result.method,
        "problem": result.problem,
        "cpu_seconds": result.cpu_seconds,
        **result.retained.as_dict(),
        "report": None if result.evaluation is None else result.evaluation.as_dict(),
        **{name: None if change is None else change.as_dict() for name, change in changes.items()},
    }
