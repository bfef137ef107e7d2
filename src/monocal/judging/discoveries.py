"""Which of many tests are significant, with the false discovery rate held."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from monocal.core.spaces import Floats

Flags = NDArray[np.bool_]


def adjusted_p_values(p_values: Floats) -> Floats:
    """Returns p-values corrected for their number after Benjamini and Hochberg; the least is Simes' p-value of all.

    Example:
        >>> adjusted_p_values(np.array([0.001, 0.04, 0.03, 0.9])).round(4).tolist()
        [0.004, 0.0533, 0.0533, 0.9]
    """
    if not p_values.size:
        return p_values
    from scipy.stats import false_discovery_control

    adjusted: Floats = false_discovery_control(p_values)
    return adjusted


def discoveries(p_values: Floats, rate: float) -> Flags:
    """Returns which tests are rejected when the false discovery rate is held at `rate`.

    Example:
        >>> discoveries(np.array([0.001, 0.04, 0.03, 0.9]), 0.05).tolist()
        [True, False, False, False]
    """
    flagged: Flags = adjusted_p_values(p_values) <= rate
    return flagged


def joint_discoveries(families: Sequence[Floats], rate: float) -> list[Flags]:
    """Holds the rate over the tests of several families together and returns the flags of each."""
    if not families:
        return []
    ends = np.cumsum([family.shape[0] for family in families])[:-1]
    return np.split(discoveries(np.concatenate(families), rate), ends)


def two_stage_discoveries(
    whole_p_values: Sequence[float], p_values: Sequence[Floats], rate: float
) -> tuple[Flags, list[Flags]]:
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
    adjusted = [adjusted_p_values(members) for members in p_values]
    combined = [
        min(1.0, 2.0 * float(np.nanmin([whole, members.min(initial=1.0)])))
        for whole, members in zip(whole_p_values, adjusted, strict=True)
    ]
    selected = discoveries(np.array(combined), rate)
    share = float(selected.mean()) if selected.size else 0.0
    return selected, [chosen & (members <= rate * share) for chosen, members in zip(selected, adjusted, strict=True)]
