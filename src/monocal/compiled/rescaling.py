"""The positive factor that rescales the integral."""

from __future__ import annotations

import math

from monocal.compiled.jit import scalar
from monocal.compiled.limits import LOG_SCALE_LIMIT


@scalar
def bounded_scale(log_scale: float) -> float:
    """Returns exp(w) with w clamped to ±15."""
    return math.exp(min(max(log_scale, -LOG_SCALE_LIMIT), LOG_SCALE_LIMIT))
