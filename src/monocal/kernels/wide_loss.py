"""The logistic loss of a logit with one shift per field value, and its gradient, in one pass over the rows."""

from __future__ import annotations

import math
from typing import Any

from monocal.kernels.compiled import compiled


@compiled()
def add_loss_and_gradient(
    logits: Any, labels: Any, weights: Any, features: Any, offsets: Any, theta: Any, gradient: Any
) -> float:
    r"""Returns :math:`\sum w (\ln(1 + e^z) - y z)` and adds its gradient to `gradient`.

    .. math:: z = a t + c + \sum_f \delta_{f, x_f}

    Arguments:
        logits: t, one per row.
        labels: y.
        weights: w.
        features: Field ids `(n, F)`, each below its field's size.
        offsets: Where each field's shifts start.
        theta: All shifts δ, then the slope a and the intercept c.
        gradient: As long as `theta`.
    """
    n_rows, n_fields = features.shape
    n_shifts = theta.shape[0] - 2
    slope, intercept = theta[n_shifts], theta[n_shifts + 1]
    loss, d_slope, d_intercept = 0.0, 0.0, 0.0
    for row in range(n_rows):
        z = slope * logits[row] + intercept
        for f in range(n_fields):
            z += theta[offsets[f] + features[row, f]]
        small = math.exp(-abs(z))
        p = 1.0 / (1.0 + small) if z >= 0.0 else small / (1.0 + small)
        w = weights[row]
        loss += w * (math.log1p(small) + max(z, 0.0) - labels[row] * z)
        residual = w * (p - labels[row])
        for f in range(n_fields):
            gradient[offsets[f] + features[row, f]] += residual
        d_slope += residual * logits[row]
        d_intercept += residual
    gradient[n_shifts] += d_slope
    gradient[n_shifts + 1] += d_intercept
    return loss
