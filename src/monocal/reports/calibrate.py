"""From a log to a decision: candidates judged on the newest rows, a verdict, and a model of all rows if it ships."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Unpack, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators import Calibrator
from monocal.core.errors import MonocalError
from monocal.core.folder import FolderFormat
from monocal.core.numbers import percent, ratio
from monocal.evaluation.compare import (
    UNCALIBRATED,
    MethodComparison,
    MethodResult,
    chosen_methods,
    installed,
    judge_candidates,
    rows_of_one_task,
)
from monocal.evaluation.result import Evaluation, EvaluationOptions
from monocal.evaluation.verdict import Check, Limits, Verdict, drift_check, quality_checks, rows_check
from monocal.models.artefact import save_model
from monocal.models.facts import share_fitted
from monocal.models.fit import fit_log
from monocal.models.model import Model
from monocal.reports.page import report
from monocal.tables.checks import (
    Doubt,
    DoubtWarning,
    doubts_about_fields,
    doubts_about_scores,
    warn_about,
    with_auto_fields,
)
from monocal.tables.result import Tabular
from monocal.tables.roles import AUTO, Columns, Roles, columns_of
from monocal.tables.source import TableLike
from monocal.tables.split import DEFAULT_SHARE, HeldOut, hold_out
from monocal.tables.table import Table

CANDIDATES = (UNCALIBRATED, "platt", "wide_logistic", "umc")
"""From the simplest to the most able; the last one needs torch."""

MOST_FITTED = 0.1
"""A larger share of judged rows that the fit has seen makes every number too good."""

_DOUBTS = ("score_constant", "score_is_label", "score_reversed", "field_leaks")

BOX = FolderFormat(
    "monocal calibration",
    1,
    "verdict.json",
    called="what monocal calibrate wrote",
    remedy="calibrate again",
    known=("report.html",),
)
"""A verdict on disk, with its report and, if it ships, its model."""


@final
@dataclass(frozen=True, eq=False)
class Calibration(Tabular):
    """A verdict with its evidence.

    Attributes:
        verdict: SHIP, DO NOT SHIP or NOT ENOUGH DATA, with every check.
        table: The candidates on the newest rows, by log-loss.
        model: The chosen method fitted on all rows; None unless the verdict is SHIP.
        judged: The newest rows.
        limits: What the checks compared with.
    """

    verdict: Verdict
    table: MethodComparison
    model: Model | None
    judged: Table = field(repr=False)
    limits: Limits

    def plot(self, *, ax: Any = None) -> Any:
        """Draws reliability on the newest rows, see `Evaluation.plot`.

        Arguments:
            ax: Axes of matplotlib; None makes a new figure.
        """
        return self._judged()[1].plot(ax=ax)

    def report(self, path: str | Path, **options: Any) -> Path:
        """Writes the report about the newest rows, by the model of the older ones, which has not seen them.

        Arguments:
            path: The HTML file.
            options: See `monocal.report`: `title`, `command` and others.
        """
        given = {"title": str(self.verdict).partition(":")[0], "note": self.table.holdout.explanation} | options
        return report(self._judged()[0], self.judged, path, limits=self.limits, **given)

    def save(self, folder: str | Path, **options: Any) -> Path:
        """Writes `verdict.json`, `report.html` (with `monocal[report]`) and, if it ships, `model`; whole or not at all.

        Arguments:
            folder: A new folder, or one that holds an earlier verdict and nothing else.
            options: Of the report.
        """
        with BOX.writing(folder) as temporary:
            if self.model is not None:
                save_model(self.model, temporary / "model")
            if self.has_report:
                self.report(temporary / "report.html", **options)
            BOX.seal(temporary, self.as_dict())
        return Path(folder)

    @property
    def has_report(self) -> bool:
        """Whether a report can be written: a method was judged, on a table, and jinja2 is installed."""
        return self.verdict.method is not None and self.judged.features is None and find_spec("jinja2") is not None

    def as_dict(self) -> dict[str, Any]:
        """Returns the verdict and the candidates as plain values for JSON."""
        return {**self.verdict.as_dict(), "said": list(self.table.said), "comparison": self.table.as_dict()}

    def _judged(self) -> tuple[Model, Evaluation]:
        """The method of the verdict as it was judged, fitted on the older rows."""
        name = self.verdict.method
        found = None if name is None else self.table.result(name)
        if found is None or found.model is None or found.evaluation is None:
            raise MonocalError(f"no method could be fitted: {self.verdict.reason}")
        return found.model, found.evaluation

    def __repr__(self) -> str:
        return str(self.verdict)

    def __str__(self) -> str:
        return f"{self.table}\n{self.verdict}"

    def _columns(self) -> Any:
        return self.table._columns()

    def _repr_html_(self) -> str:
        return f"<p><b>{self.verdict}</b></p>{self.table._repr_html_()}{self.verdict._repr_html_()}"


def calibrate(
    table: TableLike,
    roles: Roles | None = None,
    *,
    methods: Sequence[str | Calibrator] | None = None,
    pcoc: tuple[float, float] = Limits.pcoc,
    mfrce: float = Limits.mfrce,
    min_count: int = 1,
    max_size: int | None = None,
    holdout: float = DEFAULT_SHARE,
    seed: int = 0,
    **columns: Unpack[Columns],
) -> Calibration:
    """Says whether a calibrated forecast may be shipped, and fits it on all rows if so.

    Candidates are fitted on the older rows and judged on the newest, by `time`, else in the order of the rows. Of
    those that the data cannot tell from the best, the simplest that passes all checks is chosen.

    Arguments:
        table: Rows with scores and labels: a path, a data frame, or a prepared log.
        roles: Which column is what, or the same by name, see `columns`.
        methods: Candidates from the simplest to the most able, names or methods with their arguments; None takes those
            of `none`, `platt`, `wide_logistic` and `umc` that are installed. The score as it is, `none`, is always
            among them.
        pcoc: The smallest and the largest predicted over observed rate that may be shipped.
        mfrce: The largest error by field value above its noise floor that may be shipped.
        min_count: Field values with fewer rows count as unseen.
        max_size: The most values a field may have; rarer ones count as unseen.
        holdout: The most recent share of rows, which judges.
        seed: Seed of resampling.
        columns: In place of roles: `score`, `label`, `time` and others. `fields` are proposed unless they are named.

    Example:
        >>> from monocal.lab.simulator import simulate_log
        >>> log = simulate_log(40_000, world="affine").table()
        >>> found = calibrate(log, methods=["platt"], score="pctr", label="click", time="timestamp")
        >>> found.verdict.decision, found.verdict.method, found.model.info["n_rows"]
        ('SHIP', 'platt', 40000)
    """
    limits = Limits(pcoc, mfrce)
    given = columns_of(calibrate, roles, columns)
    if not isinstance(table, Table):  # a prepared log knows its fields
        given = {"fields": AUTO, **given}
    wanted, not_tried = installed(CANDIDATES) if methods is None else (methods, [])
    chosen = list(chosen_methods([*wanted, UNCALIBRATED], {}).values())
    uses_fields = any(method.class_tags.uses_features for method in chosen)
    given, said = with_auto_fields(table, given, uses_fields=uses_fields)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)  # they become checks
        read = rows_of_one_task(table, given)
        rows = hold_out(read, holdout, min_count=min_count, max_size=max_size, keep_all=True)
    doubts = [*doubts_about_scores(read), *doubts_about_fields(rows.fit)]
    warn_about(doubt for doubt in doubts if doubt.kind == "field_names_rows")
    compared = judge_candidates(rows, chosen, EvaluationOptions(seed=seed), said=[*said, *not_tried])
    compared = replace(compared, late_labels=read.late_labels)
    (labels,) = (read.labels[task] for task in read.scores)
    data = _label_checks(np.asarray(labels), "".join(each.text for each in doubts if each.kind == "label_missing"))
    names = [method.name for method in chosen]
    verdict = _verdict(compared, rows, data, _doubt_checks(doubts), limits, names)
    model = None
    if verdict.ships and rows.all_rows is not None:
        model = fit_log(rows.all_rows(), next(method for method in chosen if method.name == verdict.method))
    return Calibration(verdict, compared, model, rows.test, limits)


def _label_checks(labels: NDArray[Any], text: str) -> list[Check]:
    """Returns whether labels are there, of both outcomes."""
    n_known, n_positive = int(np.count_nonzero(labels >= 0)), int(np.count_nonzero(labels > 0))
    missing, rarer = 1.0 - n_known / max(labels.size, 1), min(n_positive, n_known - n_positive)
    all_are = f"all {n_known:,} labels are {int(n_positive > 0)}; at least 100 rows with the other outcome would do"
    return [
        Check.of("label_missing", missing, "< 0.5", text, passed=not text, enough=not text),
        Check.of("one_class", rarer, "≥ 1", all_are, passed=rarer > 0, enough=rarer > 0),
    ]


def _doubt_checks(doubts: Sequence[Doubt]) -> list[Check]:
    """Returns whether columns can be meant as they are named."""
    found = {kind: [doubt.text for doubt in doubts if doubt.kind == kind] for kind in _DOUBTS}
    return [
        Check.of(kind, len(texts), "0 columns", "; ".join(texts), passed=not texts) for kind, texts in found.items()
    ]


def _verdict(
    compared: MethodComparison,
    rows: HeldOut,
    data: Sequence[Check],
    doubts: Sequence[Check],
    limits: Limits,
    names: Sequence[str],
) -> Verdict:
    """Returns the verdict on the simplest of the best that passes all checks, else on the simplest of the best.

    Arguments:
        compared: The candidates.
        rows: The rows, cut.
        data: Checks of labels.
        doubts: Checks of the columns.
        limits: What the forecast must keep to.
        names: The candidates from the simplest to the most able.
    """
    tied = [compared.best.method, *compared.tied_with_best]
    results = sorted((compared.result(name) for name in tied), key=lambda result: names.index(result.method))
    better = [result for result in results if _is_better(result)]
    verdicts = []
    for result in better or results:
        if result.evaluation is None or result.model is None:
            continue
        share = share_fitted(result.model, rows.test, rows.features)
        checks = [
            *data,
            rows_check(result.evaluation, rows.holdout.n_fit),
            *doubts,
            *([] if math.isnan(share) else [_seen(share)]),
            *quality_checks(result.evaluation, limits),
            drift_check(result.evaluation, limits),
        ]
        verdicts.append(Verdict.of(checks, result.method, _reason(result.evaluation, result.method, compared)))
    if not verdicts:
        text = next(result.problem for result in compared.results if result.problem)
        return Verdict.of([*data, *doubts, Check("not_fitted", 0.0, "≥ 1 method", "failed", text)], None, "")
    return next((verdict for verdict in verdicts if verdict.ships), verdicts[0])


def _is_better(result: MethodResult) -> bool:
    change = None if result.evaluation is None else result.evaluation.change
    return change is not None and change.verdict("log_loss") == "better"


def _seen(share: float) -> Check:
    text = f"about {percent(share)} of the judged rows are rows of the fit. Hint: remove rows that occur twice"
    return Check.of("fitted_rows", share, f"< {MOST_FITTED:g}", text, passed=share < MOST_FITTED)


def _reason(found: Evaluation, method: str, compared: MethodComparison) -> str:
    """Why a method ships, in words."""
    assert found.change is not None
    pcoc, (low, high) = found.value("pcoc"), found.interval("pcoc")
    gain = percent(-found.change.size("log_loss"))
    text = f"log-loss is {gain} below the score's; PCOC {ratio(pcoc)} ({ratio(low)} to {ratio(high)})"
    best = compared.best.method
    return text if method == best else f"{text}; {best} is no better beyond noise"
