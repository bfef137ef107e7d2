r"""How one false-alarm rate is spread over tasks, charts and slices.

If chart c of slice s may raise a false alarm with probability :math:`\alpha\gamma_{cs}` and all :math:`\gamma` add up
to at most 1, then the probability of any false alarm anywhere is at most :math:`\alpha`, however the charts depend on
each other.
"""

from __future__ import annotations

import numpy as np

from monocal.core.spaces import Floats
from monocal.operations.watching.evidence import N_BETS


def scope_share(n_tasks: int, n_fields: int, *, is_overall: bool) -> float:
    """Returns the share of one chart of one task: of all rows, or of one field's values together.

    All rows get half of a task's share, the fields the other half in equal parts; without fields all rows get it all.

    Example:
        >>> scope_share(1, 2, is_overall=True), scope_share(1, 2, is_overall=False)
        (0.25, 0.125)
    """
    whole = 1.0 / (n_tasks * len(N_BETS))
    if n_fields == 0:
        return whole
    return whole / 2.0 if is_overall else whole / (2.0 * n_fields)


def value_shares(n_values: int, n_first: int) -> Floats:
    r"""Returns the shares of a field's values in the order of their first appearance.

    The values of the first period share one half; the next :math:`2n` values, which come later, one sixth; the next
    :math:`4n` one twelfth, and so on: however many appear, all shares add up to less than 1.

    Arguments:
        n_values: Values so far.
        n_first: Values in the first period.

    Example:
        >>> value_shares(5, 2).tolist() == [1 / 4, 1 / 4, 1 / 24, 1 / 24, 1 / 24]
        True
    """
    place = np.arange(n_values) / max(n_first, 1) + 1.0
    # generation g holds places from 2**g to 2**(g + 1) first-day sizes
    generation = np.floor(np.log2(place))
    return 1.0 / ((generation + 1.0) * (generation + 2.0) * max(n_first, 1) * 2.0**generation)
