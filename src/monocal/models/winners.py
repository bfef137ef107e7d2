"""What being chosen says about a forecast: the top of many uncertain forecasts is chosen together with its errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.recent_intercept import solve_shift
from monocal.core.errors import InvalidInput
from monocal.core.spaces import Floats, logit, sigmoid
from monocal.logs.encoded_log import EncodedLog
from monocal.logs.held_out import hold_out
from monocal.models.known_rows import for_winners, known_logits
from monocal.models.model import Model
from monocal.tables.rows import Rows

LATER_SHARE = 0.2
"""The newest rows, which a trial fit has not seen: among rows of the fit itself winners look right."""

BEYOND_NOISE = 2.0
"""Standard errors by which γ must exceed zero: too high a forecast of winners costs money, too low a one sales."""

_STEPS = 50


def with_winners(model: Model, rows: Rows, fit: Callable[[EncodedLog], Model], **limits: Any) -> Model:
    r"""Returns the model with what its later winners showed; its forecasts stay the same.

    Choosing the highest of many forecasts chooses their positive errors, the more the less surely a forecast is known.
    With the variance v of a row's parameters, the logit of a row that was chosen is lowered to

    .. math:: z' = z - \gamma v, \qquad \gamma \ge 0

    γ is learned from the labels of selected rows among the newest fifth, by a fit on the older rows, beside a level
    that all rows of that fifth set; it counts as far as its square exceeds that of two standard errors. Learned
    penalties and shares shrink effects already and leave little to correct.

    References:
        Efron. Tweedie's formula and selection bias. 2011.

    Arguments:
        model: Fitted on all the rows.
        rows: The same rows, with the winners among them.
        fit: How they were fitted.
        limits: `min_count` and `max_size` of the vocabulary.
    """
    if rows.maturity is not None:
        what = "labels that may still come"
        raise InvalidInput.of("selected", what, "a table with labels that are there", "leave out one of the two")
    cut = hold_out(rows, LATER_SHARE, **limits)
    first = cut.test.take(slice(0, 1))
    known_logits(model, cut.features[:1], first.scores, first.rates, asked="selected")
    trial = fit(cut.fit)
    answers = trial.predict_ids(cut.features, cut.test.scores, cut.test.rates)
    known = known_logits(trial, cut.features, cut.test.scores, cut.test.rates)
    found = {}
    for task, p in answers.items():
        labelled = cut.test.labels[task] >= 0
        selected = np.zeros(cut.test.n_rows, dtype=bool) if cut.test.selected is None else cut.test.selected
        weights = np.ones(cut.test.n_rows) if cut.test.weights is None else cut.test.weights.astype(np.float64)
        column = cut.test.labels[task][labelled].astype(np.float64)
        if not selected[labelled].any():
            raise InvalidInput.of(
                f"selected column {rows.roles.selected!r}",
                f"no selected row with a label among the newest {LATER_SHARE:.0%}",
                "some rows that were chosen (1, not 0)",
                "check the column, or leave out selected=",
            )
        found[task] = learn_optimism(
            logit(p[labelled]), known[task].own[labelled], column, weights[labelled], selected[labelled]
        )
    return replace(model, info={**model.info, "winners": {"column": rows.roles.selected, "tasks": found}})


def expected_of_winners(model: Model, rows: Rows, calibrated: Mapping[str, Floats]) -> dict[str, Floats]:
    """Returns probabilities with those of the winners among the rows as `for_winners` has them.

    A model that did not learn from winners leaves everything as it is.

    Arguments:
        model: The model.
        rows: Rows that were read, with winners among them or not.
        calibrated: The model's probabilities of them, by task.
    """
    if rows.selected is None or "winners" not in model.info:
        return dict(calibrated)
    ids = model.vocabulary.encode_columns(rows.fields, rows.n_rows)
    known = known_logits(model, ids, {task: rows.scores[task] for task in calibrated}, rows.rates)
    return {
        task: np.where(rows.selected, for_winners(model.info, task, p, known[task]), p)
        for task, p in calibrated.items()
    }


def learn_optimism(
    logits: Floats, variances: Floats, labels: Floats, weights: Floats, selected: NDArray[np.bool_]
) -> dict[str, float]:
    """Returns γ, its standard error and the number of selected rows; see `with_winners`.

    Example:
        Forecasts with errors of variance 0.5; the tenth with the highest forecasts was chosen.

        >>> random = np.random.default_rng(0)
        >>> truth = random.normal(-1.0, 0.7, 40_000)
        >>> z = truth + random.normal(0.0, 0.5**0.5, 40_000)
        >>> labels = (random.random(40_000) < sigmoid(truth)).astype(float)
        >>> found = learn_optimism(z, np.full(40_000, 0.5), labels, np.ones(40_000), z > np.quantile(z, 0.9))
        >>> found["per_variance"] > 1.0
        True
    """
    z = (logits + solve_shift(logits, labels, weights))[selected]
    v, y, w = variances[selected], labels[selected], weights[selected]
    facts = {"per_variance": 0.0, "error": float("nan"), "n_selected": float(selected.sum())}
    if y.min() == y.max() or not v.any():
        return facts
    slope, information = 0.0, 1.0
    for _ in range(_STEPS):
        p = sigmoid(z - slope * v)
        information = max(float(w @ (v * v * p * (1.0 - p))), 1e-12)
        step = float(w @ (v * (p - y))) / information
        slope += float(np.clip(step, -1.0, 1.0))
        if abs(step) < 1e-9:
            break
    error = information**-0.5
    believed = slope * max(1.0 - (BEYOND_NOISE * error / slope) ** 2, 0.0) if slope > 0.0 else 0.0
    return {**facts, "per_variance": believed, "error": error}
