"""The only place that opens test labels: answers in, numbers out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.process import progress
from monocal.core.scores import Floats
from monocal.evaluation.evaluate import evaluate
from monocal.evaluation.paired import compare_evaluations
from monocal.evaluation.result import Evaluation
from monocal.lab.studies.cells import Cell
from monocal.lab.studies.study import Study
from monocal.lab.studies.study_data import PreparedData, Truth

N_FLOOR = 3
"""Redraws of the labels behind a floor."""


@final
class FieldErrors:
    """MFRCE of many answers to the same rows, with everything that they share counted once.

    Equal to the metric `mfrce` of `evaluate`, which keeps sums for intervals as well and is slower for it.

    Arguments:
        labels: 0 or 1 of every row.
        features: Ids, one column per field.

    Example:
        >>> errors = FieldErrors(np.array([1.0, 0.0, 1.0, 1.0]), np.array([[1], [1], [2], [2]]))
        >>> errors.of(np.array([0.25, 0.25, 0.5, 0.5])).tolist()
        [0.5]
    """

    def __init__(self, labels: Any, features: Any) -> None:
        self.labels = labels
        self.values = [np.ascontiguousarray(features[:, place]) for place in range(features.shape[1])]
        self.n_rows = [np.bincount(values) for values in self.values]

    def of(self, answers: Floats, labels: Any = None) -> Floats:
        """Returns the error of every field; MFRCE is their mean."""
        labels = self.labels if labels is None else labels
        errors = []
        for values, n_rows in zip(self.values, self.n_rows, strict=True):
            positive = np.bincount(values, labels)
            kept = positive > 0
            gaps = np.abs(np.bincount(values, answers)[kept] - positive[kept]) / positive[kept]
            errors.append(float(np.average(gaps, weights=n_rows[kept])))
        return np.array(errors)

    def floor(self, answers: Floats) -> Floats:
        """Returns what perfect answers would have: labels are drawn from the answers themselves."""
        rng = np.random.default_rng(0)
        draws = [(rng.random(len(answers)) < answers).astype(np.float64) for _ in range(N_FLOOR)]
        floor: Floats = np.mean([self.of(answers, drawn) for drawn in draws], axis=0)
        return floor

    def excess(self, answers: Floats) -> float:
        """Returns MFRCE beyond its floor."""
        return float((self.of(answers) - self.floor(answers)).mean())


TRUTH_METRICS = ("kl_to_truth", "error_to_truth")
PERIOD_METRIC = "pcoc in "
"""What precedes a period in the name of its PCOC."""


def judge(study: Study, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Returns one row per cell and metric: value, interval, floor, paired differences and verdicts.

    Every cell is compared with the study's reference and with the best cell of its data set (smallest mean log-loss
    over seeds), on the same rows, with the same resampling.
    """
    rows: list[dict[str, Any]] = []
    by_data: dict[str, list[Cell]] = {}
    for cell in cells:
        by_data.setdefault(cell.data_name, []).append(cell)
    periods = {spec.name: spec.period for spec in study.data}
    with progress("judging", len(cells), "cells") as bar:
        for data_name, group in by_data.items():
            data = PreparedData(group[0].data_folder)
            truth = data.truth()
            reports = {}
            judged: dict[Path, Evaluation] = {}  # a method without randomness has one folder for all seeds
            for cell in group:
                if cell.result()["status"] == "ok":
                    if cell.folder not in judged:
                        judged[cell.folder] = _report(study, data, truth, cell.answers())
                    reports[cell.spec.name, cell.seed] = judged[cell.folder]
            best = _best(reports)
            for cell in group:
                found = _rows(study, data, data_name, cell, reports, best, truth)
                rows += found
                if periods[data_name] and found[0]["status"] == "ok":
                    rows += _rows_by_period(periods[data_name], found[0], cell.answers(), truth)
                bar.advance(1)
    return rows


def _report(study: Study, data: PreparedData, truth: Truth, answers: Floats) -> Evaluation:
    features = data.test().features
    names = data.field_names
    main = data.facts["main_field"]
    ordered = [main, *[name for name in names if name != main]]
    return evaluate(
        truth.labels,
        answers,
        fields={name: np.asarray(features[:, names.index(name)]) for name in ordered},
        # one group for all rows would leave the bootstrap nothing to resample
        groups=None if truth.groups is None else np.asarray(truth.groups),
        metrics=[name for name in study.metrics if name != "gauc" or truth.groups is not None],
        n_bootstrap=study.n_bootstrap,
        n_floor=min(study.n_bootstrap, 50),
    )


def _best(reports: dict[tuple[str, int], Evaluation]) -> str | None:
    losses: dict[str, list[float]] = {}
    for (name, _), report in reports.items():
        if "log_loss" in report.names:
            losses.setdefault(name, []).append(report.value("log_loss"))
    return min(losses, key=lambda name: float(np.mean(losses[name]))) if losses else None


def _rows(
    study: Study,
    data: PreparedData,
    data_name: str,
    cell: Cell,
    reports: dict[tuple[str, int], Evaluation],
    best: str | None,
    truth: Truth,
) -> list[dict[str, Any]]:
    result = cell.result()
    head = {
        "study": study.name,
        "data": data_name,
        "calibrator": cell.spec.name,
        "seed": cell.seed,
        "status": result["status"],
        "reason": result.get("reason", ""),
        "cpu_seconds": result.get("cpu_seconds", math.nan),
        "peak_rss_bytes": result.get("peak_rss_bytes", 0),
        "n_calibration": data.facts["n_calibration"],
        "n_test": data.facts["n_test"],
        "n_fields": len(data.field_names),
        "rate": data.facts["label_rate_calibration"],
    }
    report = reports.get((cell.spec.name, cell.seed))
    if report is None:
        return [head | {"metric": "", "value": math.nan}]
    rows = []
    for name in report.names:
        low, high = report.interval(name)
        row = head | {
            "metric": name,
            "value": report.value(name),
            "low": low,
            "high": high,
            # tables show the best one's, and on millions of rows it costs more than all the rest
            "floor": report.floor(name) if cell.spec.name == best else math.nan,
        }
        for role, other in (("reference", study.reference), ("best", best)):
            against = reports.get((other or "", cell.seed))
            row |= {f"difference_to_{role}": math.nan, f"verdict_to_{role}": ""}
            if against is not None and against is not report:
                paired = compare_evaluations(against, report)
                row |= {
                    f"difference_to_{role}": paired.difference(name),
                    f"verdict_to_{role}": paired.verdict(name),
                }
        row["is_best"] = cell.spec.name == best
        rows.append(row)
    if truth.true_probabilities is not None:
        errors = errors_to_truth(cell.answers(), truth.true_probabilities)
        rows += [head | {"metric": name, "value": value} for name, value in errors.items()]
    return rows


def _rows_by_period(period: str, row: Mapping[str, Any], answers: Floats, truth: Truth) -> list[dict[str, Any]]:
    if truth.times is None:
        return []
    head = {key: row[key] for key in ("study", "data", "calibrator", "seed", "status", "reason", "cpu_seconds")}
    return [
        {**head, "peak_rss_bytes": row["peak_rss_bytes"], "metric": f"{PERIOD_METRIC}{period} {when}", "value": value}
        for when, value in pcoc_by_time(answers, np.asarray(truth.labels), np.asarray(truth.times)).items()
    ]


def pcoc_by_time(answers: Floats, labels: NDArray[np.int8], times: NDArray[np.int64]) -> dict[int, float]:
    """Returns predicted over observed positives for every value of the time column; NaN where nothing was observed.

    Example:
        >>> pcoc_by_time(np.array([0.2, 0.4, 0.5]), np.array([0, 1, 1], dtype=np.int8), np.array([41, 41, 42]))
        {41: 0.6..., 42: 0.5}
    """
    values, place = np.unique(times, return_inverse=True)
    predicted, observed = (np.bincount(place, column, len(values)) for column in (answers, labels))
    with np.errstate(divide="ignore"):
        ratios = np.where(observed > 0, predicted / observed, math.nan)
    return dict(zip(values.tolist(), ratios.tolist(), strict=True))


def errors_to_truth(answers: Floats, truth: Floats) -> dict[str, float]:
    """Returns the mean Kullback-Leibler divergence from, and the mean absolute error to, the true probabilities.

    Example:
        >>> errors = errors_to_truth(np.array([0.2, 0.4]), np.array([0.2, 0.5]))
        >>> round(errors["error_to_truth"], 3), round(errors["kl_to_truth"], 5)
        (0.05, 0.01021)
    """
    return {
        "kl_to_truth": float(np.mean(divergences(answers, truth))),
        "error_to_truth": float(np.mean(np.abs(answers - truth))),
    }


def divergences(answers: Floats, truth: Floats) -> Floats:
    """Returns each row's Kullback-Leibler divergence from its true probability: what its log-loss costs in excess."""
    p = np.clip(answers, 1e-7, 1.0 - 1e-7)
    q = np.clip(np.asarray(truth), 1e-12, 1.0 - 1e-12)
    costs: Floats = q * np.log(q / p) + (1.0 - q) * np.log((1.0 - q) / (1.0 - p))
    return costs
