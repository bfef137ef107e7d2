"""Which fields are off, and then which of their values: false alarms held in both stages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from monocal.core.spaces import Floats
from monocal.judging.small_counts import discoveries


def two_stage_discoveries(
    whole_p_values: Sequence[float], p_values: Sequence[Floats], rate: float
) -> tuple[NDArray[np.bool_], list[NDArray[np.bool_]]]:
    r"""Selects families by the Benjamini-Hochberg rule, then members of the selected ones by the same rule.

    A family's p-value is twice the smaller of its own test and Simes' combination of its members', so both many small
    errors and a single large one are found. If R of m families are selected, members of those are tested at the rate
    :math:`q R / m`. Then the false discovery rate, averaged over the selected families, is at most q; a field with five
    values is not punished for another field's five thousand.

    Arguments:
        whole_p_values: One p-value per family, from a test of the family as a whole; NaN where there is none.
        p_values: The p-values of each family's members.
        rate: The rate q.

    Returns:
        Which families are selected, and for each family which members are flagged.

    References:
        Benjamini and Bogomolov. Selective inference on multiple families of hypotheses. 2014.

    Example:
        >>> families, members = two_stage_discoveries([1e-6, 0.5], [np.array([1e-5, 0.4]), np.full(1000, 0.5)], 0.05)
        >>> families.tolist(), members[0].tolist(), int(members[1].sum())
        ([True, False], [True, False], 0)
    """
    if not p_values:
        return np.zeros(0, dtype=bool), []
    combined = [
        min(1.0, 2.0 * min(1.0 if np.isnan(whole) else whole, _simes(members)))
        for whole, members in zip(whole_p_values, p_values, strict=True)
    ]
    selected: NDArray[np.bool_] = discoveries(np.array(combined), rate)
    share = float(selected.mean())
    flagged = [
        discoveries(members, rate * share) if chosen else np.zeros(members.shape[0], dtype=bool)
        for chosen, members in zip(selected, p_values, strict=True)
    ]
    return selected, flagged


def _simes(p_values: Floats) -> float:
    ordered = np.sort(p_values)
    return float(np.min(ordered * ordered.shape[0] / np.arange(1, ordered.shape[0] + 1), initial=1.0))
