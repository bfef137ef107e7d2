"""How strongly the shifts of each field are pulled to zero, learned from the rows."""

from __future__ import annotations

from typing import Literal

import numpy as np

from monocal.core.dataset import Dataset
from monocal.core.fields import FieldSchema
from monocal.core.scores import Floats
from monocal.core.threads import trim_heap
from monocal.wide.solver import Search, WideParameters, solve_wide

Penalty = float | Literal["auto"]

N_ROUNDS = 5
FIRST_PENALTY = 10.0
SMALLEST_PENALTY, LARGEST_PENALTY = 1.0, 1e4
"""The penalty of a field is 1 over the variance of its shifts: standard deviations from 1 down to 0.01."""

MOST_ROWS = 1_000_000
"""Penalties are estimated on this many of the most recent rows; the shifts then use all."""


def solve_with_penalties(
    data: Dataset,
    l2: Penalty,
    search: Search,
    start: WideParameters | None = None,
    *,
    first: Floats | None = None,
    n_rounds: int = N_ROUNDS,
) -> tuple[WideParameters, Floats]:
    r"""Solves for shifts with a given penalty, or with one per field that the rows teach; returns both.

    With `auto` a field's shifts are taken as draws of a normal distribution with variance :math:`1/\lambda_f`. Where a
    field truly matters they scatter widely and are hardly shrunk; where it does not, or where thousands of its values
    have a handful of rows each, what looks like scatter is noise, and they are. After each solve

    .. math:: \lambda_f \leftarrow \frac{\gamma_f}{\|\delta_f\|^2}, \qquad
              \gamma_f = \sum_v \frac{h_v}{h_v + \lambda_f}

    with h the curvature of the loss and γ the number of shifts that the rows can determine; all of it for the
    coefficients of the field's basis.

    References:
        MacKay. Bayesian interpolation. 1992.

    Arguments:
        data: The rows, with labels; where they are in parts, each gives its share of the newest rows.
        l2: The penalty of all fields; `auto` learns one per field.
        search: When each solve stops.
        start: Where the first solve starts.
        first: Where the estimate of penalties starts, one per field; None means 10 for each.
        n_rounds: How often they are updated.

    Example:
        The first field shifts the logit by ±1; the second means nothing.

        >>> random = np.random.default_rng(0)
        >>> ids = random.integers(1, 30, (20_000, 2)).astype(np.int32)
        >>> labels = (random.random(20_000) < np.where(ids[:, 0] % 2, 0.27, 0.73)).astype(float)
        >>> _, penalties = solve_with_penalties(Dataset(np.zeros(20_000), labels, ids=ids), "auto", Search(1e-7, 100))
        >>> bool(penalties[0] < 3.0), bool(penalties[1] > 100.0)
        (True, True)
    """
    if l2 != "auto":
        penalties = np.full(len(data.fields), float(l2))
        return solve_wide(data, penalties, search, start), penalties
    penalties = np.full(len(data.fields), FIRST_PENALTY) if first is None else first
    found = start
    if n_rounds:
        recent = data.take(data.cut.newest(MOST_ROWS))
        for _ in range(n_rounds):
            found = solve_wide(recent, penalties, search, found)
            penalties = _updated(penalties, found, data.fields)
        del recent
    found = solve_wide(data, penalties, search, found)
    trim_heap()  # what dozens of arrays as long as the shifts left behind
    return found, penalties


def _updated(penalties: Floats, found: WideParameters, schema: FieldSchema) -> Floats:
    updated = penalties.copy()
    for field, penalty in enumerate(penalties):
        shifts, curvature = schema.of_field(field, found.shifts, found.curvature)
        shifts, curvature = shifts[1:], curvature[1:]
        determined = float(np.sum(curvature / (curvature + penalty)))
        if determined > 0.0:
            scatter = float(np.sum(shifts**2))
            updated[field] = np.clip(determined / max(scatter, 1e-12), SMALLEST_PENALTY, LARGEST_PENALTY)
    return updated
