"""How strongly the shifts of each field are pulled to zero, learned from the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.statistical.numeric_basis import coefficients_of
from monocal.calibrators.statistical.wide_solver import WideParameters, solve_wide
from monocal.core.errors import InvalidInput
from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.core.team import Shards
from monocal.core.threads import trim_heap

Penalty = float | Literal["auto"]

N_ROUNDS = 5
FIRST_PENALTY = 10.0
SMALLEST_PENALTY, LARGEST_PENALTY = 1.0, 1e4
"""The penalty of a field is 1 over the variance of its shifts: standard deviations from 1 down to 0.01."""

MOST_ROWS = 1_000_000
"""Penalties are estimated on this many of the most recent rows; the shifts then use all."""


def check_penalty(l2: Penalty) -> None:
    """Refuses what is neither a penalty nor the wish for learned ones."""
    if l2 != "auto" and (isinstance(l2, str) or not l2 >= 0.0):
        raise InvalidInput.of("l2", l2, 'a penalty ≥ 0 or "auto"', "10 is scikit-learn's C = 0.1")


def solve_shrunk(
    logits: Floats,
    labels: Floats,
    weights: Floats | None,
    features: Ids,
    sizes: NDArray[np.int64],
    *,
    first: Floats | None = None,
    n_rounds: int = N_ROUNDS,
    start: WideParameters | None = None,
    shards: Shards | None = None,
    n_knots: Sequence[int] | None = None,
    **options: Any,
) -> tuple[WideParameters, Floats]:
    r"""Solves for shifts and for one penalty per field, and returns both.

    A field's shifts are taken as draws of a normal distribution with variance :math:`1/\lambda_f`. Where a field
    truly matters they scatter widely and are hardly shrunk; where it does not, or where thousands of its values have
    a handful of rows each, what looks like scatter is noise, and they are. After each solve

    .. math:: \lambda_f \leftarrow \frac{\gamma_f}{\|\delta_f\|^2}, \qquad
              \gamma_f = \sum_v \frac{h_v}{h_v + \lambda_f}

    with h the curvature of the loss and γ the number of shifts that the rows can determine. A field of numbers has
    the coefficients of `smooth_basis` in their place.

    References:
        MacKay. Bayesian interpolation. 1992.

    Arguments:
        logits: As for `solve_wide`, like all arguments up to `sizes`.
        labels: 0 or 1 per row.
        weights: How often each row counts; None means once.
        features: Field ids `(n, F)`.
        sizes: How many ids each field has.
        first: Penalties to start from.
        n_rounds: How often they are updated.
        start: Where the first solve starts.
        shards: As for `solve_wide`; each gives its share of the newest rows.
        n_knots: As for `solve_wide`.
        options: Passed on to `solve_wide`.

    Example:
        The first field shifts the logit by ±1; the second means nothing.

        >>> random = np.random.default_rng(0)
        >>> features = random.integers(1, 30, (20_000, 2)).astype(np.int32)
        >>> labels = (random.random(20_000) < np.where(features[:, 0] % 2, 0.27, 0.73)).astype(float)
        >>> _, penalties = solve_shrunk(np.zeros(20_000), labels, np.ones(20_000), features, np.array([30, 30]),
        ...                             tolerance=1e-7, max_iterations=100)
        >>> bool(penalties[0] < 3.0), bool(penalties[1] > 100.0)
        (True, True)
    """
    penalties = np.full(len(sizes), FIRST_PENALTY) if first is None else first
    shards = shards or Shards.whole(logits.shape[0])
    recent, recent_shards = shards.newest(MOST_ROWS)
    found = start
    for _ in range(n_rounds):
        found = solve_wide(
            logits[recent],
            labels[recent],
            None if weights is None else weights[recent],
            features[recent],
            sizes,
            l2=penalties,
            start=found,
            shards=recent_shards,
            n_knots=n_knots,
            **options,
        )
        penalties = _update(penalties, found, n_knots or (0,) * len(sizes))
    options |= {"start": found, "shards": shards, "n_knots": n_knots}
    found = solve_wide(logits, labels, weights, features, sizes, l2=penalties, **options)
    trim_heap()  # what dozens of arrays as long as the shifts left behind
    return found, penalties


def _update(penalties: Floats, found: WideParameters, n_knots: Sequence[int]) -> Floats:
    updated = penalties.copy()
    for field, penalty in enumerate(penalties):
        here = slice(found.offsets[field], found.offsets[field + 1])
        shifts, curvature = found.shifts[here], found.curvature[here]
        if n_knots[field]:
            shifts, curvature = coefficients_of(shifts, curvature, n_knots[field])
        shifts, curvature = shifts[1:], curvature[1:]
        determined = float(np.sum(curvature / (curvature + penalty)))
        if determined > 0.0:
            scatter = float(np.sum(shifts**2))
            updated[field] = np.clip(determined / max(scatter, 1e-12), SMALLEST_PENALTY, LARGEST_PENALTY)
    return updated
