"""Undoing negative down-sampling, in closed form.

A ranker trained on a log whose negatives were kept with probability r sees odds that are 1/r too high.
Multiplying the odds by r, which adds ln r to the logit, brings its score back to the full traffic.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from monocal.core.errors import InvalidInput
from monocal.core.spaces import Floats, as_float_column

SamplingRate = float | ArrayLike | None


def sampling_shift(sampling_rate: SamplingRate, n_rows: int) -> Floats | float:
    r"""Returns :math:`\ln r`, the shift that turns a down-sampled ranker's logits into full-traffic logits.

    Arguments:
        sampling_rate: The share r in (0, 1] of negatives that the ranker was trained on: one number or
            one per row. None means 1.
        n_rows: How many rows there are, to check a column's length.

    Example:
        A ranker that saw one negative in ten says 0.5 where the truth is 1/11.

        >>> from monocal.core.spaces import sigmoid
        >>> round(float(sigmoid(0.0 + sampling_shift(0.1, 1))), 4) == round(1 / 11, 4)
        True
    """
    if sampling_rate is None:
        return 0.0
    rates = np.asarray(sampling_rate, dtype=np.float64)
    if rates.ndim > 0:
        rates = as_float_column(rates, "sampling_rate")
        if rates.shape[0] != n_rows:
            raise InvalidInput.of(
                "sampling_rate", f"{rates.shape[0]} rates", f"one number or {n_rows} of them", "pass one rate per row"
            )
    if not np.all((rates > 0.0) & (rates <= 1.0)):
        bad = rates if rates.ndim == 0 else rates[~((rates > 0.0) & (rates <= 1.0))][0]
        raise InvalidInput.of(
            "sampling_rate",
            f"{float(bad):g}",
            "the share of negatives kept, in (0, 1]",
            "pass 0.1 if one negative in ten was kept",
        )
    if rates.ndim == 0:
        return float(np.log(rates))
    shift: Floats = np.log(rates)
    return shift
