"""The logistic loss of a line whose slope and level depend on field values, and its gradient, in one pass."""

from __future__ import annotations

import math
from typing import Any

from monocal.compiled.jit import compiled


@compiled()
def add_line_loss_and_gradient(
    logits: Any, labels: Any, weights: Any, features: Any, offsets: Any, theta: Any, gradient: Any
) -> float:
    r"""Returns :math:`\sum w (\ln(1 + e^z) - y z)` and adds its gradient to `gradient`.

    .. math:: z = e^{a} t + b, \qquad a = a_0 + \sum_f \alpha_{f, x_f}, \qquad b = b_0 + \sum_f \beta_{f, x_f}

    Arguments:
        logits: t, one per row.
        labels: y.
        weights: w.
        features: Field ids `(n, F)`, each below its field's size.
        offsets: Where each field's values start.
        theta: All α, all β, then a₀ and b₀.
        gradient: As long as `theta`.
    """
    n_rows, n_fields = features.shape
    n_values = (theta.shape[0] - 2) // 2
    log_slope, level = theta[2 * n_values], theta[2 * n_values + 1]
    loss, d_slope, d_level = 0.0, 0.0, 0.0
    for row in range(n_rows):
        a, b = log_slope, level
        for f in range(n_fields):
            place = offsets[f] + features[row, f]
            a += theta[place]
            b += theta[n_values + place]
        steep = math.exp(a) * logits[row]
        z = steep + b
        small = math.exp(-abs(z))
        p = 1.0 / (1.0 + small) if z >= 0.0 else small / (1.0 + small)
        w = weights[row]
        loss += w * (math.log1p(small) + max(z, 0.0) - labels[row] * z)
        residual = w * (p - labels[row])
        of_slope = residual * steep
        for f in range(n_fields):
            place = offsets[f] + features[row, f]
            gradient[place] += of_slope
            gradient[n_values + place] += residual
        d_slope += of_slope
        d_level += residual
    gradient[2 * n_values] += d_slope
    gradient[2 * n_values + 1] += d_level
    return loss
