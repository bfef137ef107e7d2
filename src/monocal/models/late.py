r"""A fit on labels that may still arrive: a wrapper around the fit of any method that maximises a weighted likelihood.

What is seen of a row with maturity F is Bernoulli(:math:`pF`). For any model of the logit of p the gradient of that
likelihood is the gradient of the usual one with positives counted once and negatives with the weight

.. math:: \omega = \frac{F (1 - p)}{1 - p F},

the chance that a row without a label is a negative whose label would have come. So a method that maximises a weighted
likelihood is fitted with these weights, and again with those of its own p until they stay: a fixed point is a
stationary point of the late likelihood. Where p is small :math:`\omega \approx F`, and one repetition is enough.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators import Calibrator
from monocal.core.errors import InvalidInput
from monocal.core.reduce import Partition
from monocal.core.scores import Floats
from monocal.models.model import Model
from monocal.tables.late_labels import DelayCurve
from monocal.tables.table import Table

METHODS = ("none", "platt", "temperature", "beta", "isotonic", "histogram", "wide_logistic", "umc")
"""Methods that maximise a weighted likelihood of the labels."""

_MOST_FITS = 8
_CLOSE = 1e-3


def check_late_method(method: str) -> None:
    """Refuses a method that cannot use labels that may still come."""
    if method not in METHODS:
        raise InvalidInput.of(
            "method",
            f"{method!r} with labels that may still come",
            f"one that maximises a weighted likelihood: {', '.join(METHODS)}",
            "choose one of these, or leave out rows that are younger than the window",
        )


def fit_late(
    fit: Callable[[Floats], tuple[Calibrator, Floats]],
    rows: Table,
    task: str,
    partition: Partition | None = None,
    forecast: Floats | None = None,
) -> Calibrator:
    """Fits with the weights of the late likelihood until they stay, by the same step for all members of a team.

    Arguments:
        fit: Takes weights; returns a fitted calibrator and its probabilities of the same rows.
        rows: Rows whose labels are those that have arrived, with the maturity of each row.
        task: Whose labels.
        partition: How the rows are cut and with whom they are added up; all of them at once if not given.
        forecast: A first guess of the probabilities; by default that of the ranker.

    Example:
        The mean as a model: ten positives have arrived where half of them are expected to have.

        >>> from dataclasses import replace
        >>> from monocal.calibrators import calibrator
        >>> from monocal.tables.roles import Roles
        >>> labels, logits = np.repeat([1, 0], [10, 90]).astype(np.int8), np.zeros(100)
        >>> def fit(weights):
        ...     fitted = calibrator("platt").fit(logits, labels, weights=weights, scores_are="logit")
        ...     return fitted, fitted.predict(logits)
        >>> rows = Table.read({"y": labels, "p": np.full(100, 0.1)}, Roles(score="p", label="y"))
        >>> found = fit_late(fit, replace(rows, maturity=np.full(100, 0.5)), "y")
        >>> round(float(found.predict([0.0])[0]), 2)
        0.2
    """
    assert rows.maturity is not None
    labels, maturity = rows.labels[task], rows.maturity
    counts = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    partition = partition or Partition.whole(rows.n_rows)
    share = _weights(labels, maturity, rows.uncalibrated(task) if forecast is None else forecast)
    for _ in range(_MOST_FITS):
        fitted, found = fit(counts * share)
        earlier, share = share, _weights(labels, maturity, found)
        moved = np.abs(share - earlier) * counts
        sums = [[float(moved[part].sum()), float(counts[part].sum())] for _, part in partition.parts()]
        change, weight = partition.add(sums)
        if change / weight < _CLOSE:
            break
    return fitted


def known_delays(model: Model) -> DelayCurve | None:
    """Returns the delays that a model remembers from its fit, if it does."""
    facts = model.info.get("late_labels")
    return None if facts is None else DelayCurve.from_dict(facts["curve"])


def _weights(labels: NDArray[np.int8], maturity: Floats, p: Floats) -> Floats:
    p = np.minimum(p, 1.0 - 1e-9)
    return np.where(labels == 1, 1.0, maturity * (1.0 - p) / (1.0 - p * maturity))
