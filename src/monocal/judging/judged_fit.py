"""A fit that is judged on rows it has not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from monocal.core.sampling import sampling_shift
from monocal.core.spaces import ScoreSpace, sigmoid, to_logits
from monocal.judging.evaluate import evaluate
from monocal.judging.held_out import FittedRows, is_clock_column, split_log
from monocal.judging.judgement import Judgement, headline_metrics
from monocal.judging.product import Product, ProductCheck, check_products
from monocal.logs.encoded_log import EncodedLog
from monocal.logs.holdout import DEFAULT_SHARE, Holdout
from monocal.logs.scored_log import ScoredLog
from monocal.models.fitting import DEFAULT_METHOD, encode_table, fit, observed_rows, row_rates, table_schema
from monocal.models.model import Model
from monocal.tables.stream import Table


@final
@dataclass(frozen=True, eq=False)
class JudgedFit:
    """A model with the evidence for it.

    Attributes:
        model: The model; its `info["holdout"]` keeps the headline numbers.
        holdout: How rows were split, in words and numbers.
        tasks: Task to its judgement on the held-out rows; empty if nothing was held out.
        products: Whether products of probabilities agree, where their columns are there.
    """

    model: Model
    holdout: Holdout
    tasks: dict[str, Judgement]
    products: list[ProductCheck]

    def as_dict(self) -> dict[str, Any]:
        return {
            "holdout": self.holdout.as_dict(),
            "tasks": {name: one.as_dict() for name, one in self.tasks.items()},
            "products": [one.as_dict() for one in self.products],
        }


def fit_and_judge(
    table: Table | EncodedLog | ScoredLog,
    *,
    method: str = DEFAULT_METHOD,
    score: str | None = None,
    label: str | None = None,
    fields: Sequence[str] = (),
    tasks: Mapping[str, tuple[str, str]] | None = None,
    weight: str | None = None,
    time: str | None = None,
    group: str | None = None,
    sampling_rate: float | str | None = None,
    scores_are: ScoreSpace = "probability",
    min_count: int = 1,
    max_size: int | None = None,
    holdout: float = DEFAULT_SHARE,
    refit: bool = False,
    products: Sequence[Product] = (),
    n_bootstrap: int = 200,
    seed: int = 0,
    **arguments: Any,
) -> JudgedFit:
    """Fits on the older rows and judges on the most recent ones, which the fit has not seen.

    Arguments:
        table: A table with scores, or a prepared log with scores. A log that knows its parts is fitted on
            "calibration" and judged on "test".
        method: Name of the calibrator.
        score: As in `monocal.fit`, like the following columns.
        label: The 0/1 column.
        fields: Categorical columns.
        tasks: For several tasks: name to (label column, score column).
        weight: Column that says how often a row counts.
        time: Column that orders rows.
        group: Column of users, so that intervals resample users.
        sampling_rate: A number or a column.
        scores_are: The space of the scores.
        min_count: Field values with fewer rows count as unseen.
        max_size: The most values a field may have.
        holdout: The most recent share of rows that judges; 0 fits on all rows and judges nothing.
        refit: Whether to fit once more on all rows afterwards. The numbers then belong to the first fit.
        products: Scores that must multiply to another, beside pctr, pcvr and pctcvr.
        n_bootstrap: Replicates behind an interval.
        seed: Seed of resampling.
        arguments: Constructor arguments of the calibrator.

    Example:
        >>> from monocal.lab.simulator import simulate_log
        >>> log = simulate_log(20_000, world="affine").table()
        >>> judged = fit_and_judge(log, method="platt", score="pctr", label="click", time="timestamp")
        >>> judged.tasks["click"].change.verdict("log_loss"), judged.holdout.n_test
        ('better', 4000)
    """
    columns = {
        "score": score,
        "label": label,
        "fields": fields,
        "tasks": tasks,
        "weight": weight,
        "time": time,
        "group": group,
        "sampling_rate": sampling_rate,
        "scores_are": scores_are,
    }
    embeddings = table.embeddings if isinstance(table, ScoredLog) else None
    if isinstance(table, ScoredLog):
        table = table.as_encoded()
    log = table if isinstance(table, EncodedLog) else encode_table(table, table_schema(**columns))  # type: ignore[arg-type]
    is_clock = not isinstance(table, EncodedLog) and time is not None and is_clock_column(table, time)
    rows = split_log(log, holdout, min_count=min_count, max_size=max_size, is_clock=is_clock)
    model = fit(rows.fit, method=method, frozen_embeddings=embeddings, **arguments)
    judged = judge(model, rows, n_bootstrap=n_bootstrap, seed=seed) if rows.holdout.n_test else {}
    checks = _check_products(model, rows.test, products) if judged else []
    if refit and judged:
        model = fit(rows.all_rows(), method=method, frozen_embeddings=embeddings, **arguments)
    if judged:
        facts = {**rows.holdout.as_dict(), "refitted": refit, "metrics": _headline(judged)}
        model = replace(model, info={**model.info, "holdout": facts})
    return JudgedFit(model, rows.holdout, judged, checks)


def judge(
    model: Model, rows: FittedRows, *, metrics: Sequence[str] | None = None, n_bootstrap: int = 200, seed: int = 0
) -> dict[str, Judgement]:
    """Judges a model, task by task, on the held-out rows."""
    test, found = rows.test, {}
    for name in model.task_names:
        observed = observed_rows(test, name)
        shared: dict[str, Any] = {
            "fields": {field: rows.test_values[observed, i] for i, field in enumerate(test.field_names)},
            "groups": None if test.groups is None else test.groups[observed],
            "weights": None if test.weights is None else test.weights[observed],
            "metrics": metrics
            or headline_metrics(has_fields=bool(test.field_names), has_groups=test.groups is not None),
            "n_bootstrap": n_bootstrap,
            "seed": seed,
        }
        labels, scores, rates = test.labels[name][observed], test.scores[name][observed], row_rates(test, observed)
        space = test.schema.scores_are
        calibrated = model.predict_ids(np.ascontiguousarray(test.features[observed]), {name: scores}, rates)[name]
        found[name] = Judgement(
            evaluate(labels, scores, scores_are=space, sampling_rate=rates, **shared),
            evaluate(labels, calibrated, **shared),
        )
    return found


def _check_products(model: Model, test: EncodedLog, products: Sequence[Product]) -> list[ProductCheck]:
    if len(model.tasks) < 3:
        return []
    rates = row_rates(test, slice(None))
    scores = {one.name: np.asarray(test.scores[one.name]) for one in model.tasks}
    calibrated = model.predict_ids(np.ascontiguousarray(test.features), scores, rates)
    shift = sampling_shift(rates, test.n_rows)
    raw = {name: sigmoid(to_logits(column, test.schema.scores_are) + shift) for name, column in scores.items()}
    stages = {"score": raw, "calibrated": calibrated}
    return check_products(
        {stage: {one.score: columns[one.name] for one in model.tasks} for stage, columns in stages.items()},
        products=products,
        labels={one.score: test.labels[one.name] for one in model.tasks},
        weights=test.weights,
    )


def _headline(judged: Mapping[str, Judgement]) -> dict[str, Any]:
    return {
        task: {
            name: {"before": one.before.value(name), "after": one.last.value(name)}
            for name in one.before.names
            if not one.before.reason(name)
        }
        for task, one in judged.items()
    }
