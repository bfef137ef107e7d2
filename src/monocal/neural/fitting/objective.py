"""Which loss a neural fit minimises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.fields import FieldSchema

if TYPE_CHECKING:
    from monocal.losses import Loss

Auxiliary = Literal["sc", "field", "mse"]


def objective(
    auxiliary: Auxiliary,
    weight: float,
    sc_preset: str,
    n_bins: int,
    tau: float,
    fields: FieldSchema,
) -> Loss:
    """Returns cross-entropy, plus the auxiliary loss times its weight if that is positive."""
    from monocal.losses import (
        CrossEntropy,
        FieldCalibrationLoss,
        SmoothCalibrationLoss,
        SquaredError,
        WeightedSum,
    )

    if auxiliary not in get_args(Auxiliary):
        raise UnknownName.among("auxiliary", auxiliary, get_args(Auxiliary))
    if weight < 0.0:
        raise InvalidInput.of("sc_weight", weight, "a factor ≥ 0", "0 leaves the auxiliary loss out")
    if weight == 0.0:
        return CrossEntropy()
    second: Loss
    if auxiliary == "mse":
        second = SquaredError()
    elif auxiliary == "field":
        if not len(fields):
            raise InvalidInput.of("auxiliary", '"field" without features', "features", 'pass features, or use "sc"')
        numeric = None if fields.is_identity else fields.is_numeric.tolist()
        second = FieldCalibrationLoss(fields.sizes.tolist(), tau, numeric)
    else:
        second = SmoothCalibrationLoss(n_bins, tau, sc_preset)
    return WeightedSum([(1.0, CrossEntropy()), (weight, second)])
