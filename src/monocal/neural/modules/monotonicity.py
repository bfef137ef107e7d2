"""Proving a torch map monotone on the weights it has now."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from monocal.core.monotonicity import MonotoneCheck
from monocal.core.monotonicity import assert_monotone as assert_predict_monotone
from monocal.core.spaces import Floats
from monocal.neural.modules.monotone_map import MonotoneMap


@torch.no_grad()
def assert_monotone(
    monotone_map: MonotoneMap,
    context: Tensor | None = None,
    *,
    logits: ArrayLike | None = None,
    tolerance: float = 0.0,
) -> MonotoneCheck:
    """Sweeps the logit through every context row's curve and raises `NotMonotone` if it ever falls.

    The curve's parameters are computed once per row, so what is tested is the map and not the rounding of
    matrix products, which may differ between positions in a batch.

    Arguments:
        monotone_map: The map, trained or not.
        context: Context rows `(c, d)`; None for a map without context.
        logits: Increasing logits; a grid with chains of neighbouring float32 numbers if not given.
        tolerance: A fall up to this size is forgiven.

    Example:
        >>> import torch
        >>> from monocal.neural.umc.torch_map import UmcMap
        >>> umc = UmcMap(3, identity_start=False)
        >>> assert_monotone(umc, torch.eye(3)).worst_fall
        0.0
    """

    def curve(sweep: Floats, rows: Any) -> Floats:
        chosen = None if context is None else context[int(rows[0])][None]
        result: Floats = monotone_map.curves(torch.as_tensor(sweep), chosen)[0].numpy()
        return result

    rows = np.arange(1 if context is None else context.shape[0])
    return assert_predict_monotone(curve, rows, logits=logits, tolerance=tolerance)
