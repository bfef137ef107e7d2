"""What the wide logistic regression does per row: shifts of field values, the loss of their sum and its gradient.

The loss comes in one pass over the rows, or in two whose work threads can share without changing a bit.
"""

from __future__ import annotations

import math
from typing import Any

from monocal.compiled.jit import compiled, scalar


@scalar
def _loss_and_residual(
    row: int, logits: Any, labels: Any, weights: Any, features: Any, columns: Any, offsets: Any, theta: Any
) -> tuple[float, float]:
    """Returns a row's loss and its derivative by z."""
    n_shifts = theta.shape[0] - 2
    z = theta[n_shifts] * logits[row] + theta[n_shifts + 1]
    for f in range(columns.shape[0]):
        z += theta[offsets[f] + features[row, columns[f]]]
    small = math.exp(-abs(z))
    p = 1.0 / (1.0 + small) if z >= 0.0 else small / (1.0 + small)
    w = weights[row]
    return w * (math.log1p(small) + max(z, 0.0) - labels[row] * z), w * (p - labels[row])


@compiled()
def add_loss_and_gradient(
    logits: Any, labels: Any, weights: Any, features: Any, columns: Any, offsets: Any, theta: Any, gradient: Any
) -> float:
    r"""Returns :math:`\sum w (\ln(1 + e^z) - y z)` and adds its gradient to `gradient`.

    .. math:: z = a t + c + \sum_f \delta_{f, x_f}

    Arguments:
        logits: t, one per row.
        labels: y.
        weights: w.
        features: Field ids `(n, F)`, each below its field's size.
        columns: Which of the fields have shifts.
        offsets: Where each field's shifts start.
        theta: All shifts δ, then the slope a and the intercept c.
        gradient: As long as `theta`.
    """
    n_rows, n_fields = features.shape[0], columns.shape[0]
    n_shifts = theta.shape[0] - 2
    loss, d_slope, d_intercept = 0.0, 0.0, 0.0
    for row in range(n_rows):
        row_loss, residual = _loss_and_residual(row, logits, labels, weights, features, columns, offsets, theta)
        loss += row_loss
        for f in range(n_fields):
            gradient[offsets[f] + features[row, columns[f]]] += residual
        d_slope += residual * logits[row]
        d_intercept += residual
    gradient[n_shifts] += d_slope
    gradient[n_shifts + 1] += d_intercept
    return loss


@compiled()
def losses_and_residuals(
    logits: Any, labels: Any, weights: Any, features: Any, columns: Any, offsets: Any, theta: Any, residuals: Any
) -> tuple[float, float, float]:
    """Writes every row's derivative by z; returns the loss and its derivatives by slope and intercept.

    The first of two passes that do what `add_loss_and_gradient` does, with sums in the same order.

    Arguments:
        logits: As above.
        labels: As above.
        weights: As above.
        features: As above.
        columns: As above.
        offsets: As above.
        theta: As above.
        residuals: One per row, overwritten.
    """
    loss, d_slope, d_intercept = 0.0, 0.0, 0.0
    for row in range(features.shape[0]):
        row_loss, residual = _loss_and_residual(row, logits, labels, weights, features, columns, offsets, theta)
        loss += row_loss
        residuals[row] = residual
        d_slope += residual * logits[row]
        d_intercept += residual
    return loss, d_slope, d_intercept


@compiled()
def add_residuals(
    residuals: Any, features: Any, columns: Any, offsets: Any, first: int, end: int, gradient: Any
) -> None:
    """The second pass: adds every row's derivative to the shifts of some fields, in the order of the rows.

    Arguments:
        residuals: One per row.
        features: Field ids `(n, F)`.
        columns: As above.
        offsets: Where each field's shifts start.
        first: The first of the fields; others belong to other threads.
        end: The field after the last.
        gradient: One entry per shift at least.
    """
    for row in range(features.shape[0]):
        for f in range(first, end):
            gradient[offsets[f] + features[row, columns[f]]] += residuals[row]


@compiled()
def write_effects(features: Any, shifts: Any, offsets: Any, found: Any) -> None:
    """Writes what each field adds on each row.

    Arguments:
        features: Field ids `(n, F)`, each below its field's size.
        shifts: Of all ids, field after field.
        offsets: Where each field starts among them.
        found: `(n, F)`, overwritten.
    """
    for row in range(features.shape[0]):
        for field in range(features.shape[1]):
            found[row, field] = shifts[offsets[field] + features[row, field]]
