"""The two checks that look at every number of a request: compiled where numba is loaded anyway, else by numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from monocal.core.samples import Ids
from monocal.core.spaces import Floats

_lowest: Callable[[Any], Any] = np.minimum.reduce
_highest: Callable[[Any], Any] = np.maximum.reduce


class RangeChecks(NamedTuple):
    """Checks of arrays that are writable and C-contiguous: for others, compiled ones would be compiled anew.

    Attributes:
        all_within: Says of values `(n,)`, a low and a high end whether all are between them; no for NaN.
        all_known: Says of ids `(n, F)` and sizes `(F,)`, both int32, whether all ids are ≥ 0 and below their size.
    """

    all_within: Callable[[Floats, float, float], bool]
    all_known: Callable[[Ids, Ids], bool]


def range_checks(*, is_compiled: bool) -> RangeChecks:
    """Returns the checks in one of their two forms."""
    if not is_compiled:
        return RangeChecks(_all_within, _all_known)
    from monocal.compiled.range_checks import all_known, all_within

    return RangeChecks(all_within, all_known)


def _all_within(values: Floats, low: float, high: float) -> bool:
    return bool(_lowest(values) >= low and _highest(values) <= high)


def _all_known(ids: Ids, sizes: Ids) -> bool:
    # a negative id is a large one without its sign
    return not (ids.view(np.uint32) >= sizes.view(np.uint32)).any()
