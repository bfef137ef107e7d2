"""MCNet, published the same spring as UMC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from monocal.calibrators.contract import Tags
from monocal.core.fields import FieldSchema
from monocal.neural.maps import MapInputs, Parts, umc_parts
from monocal.neural.methods import KnotsCalibrator
from monocal.neural.options import Auxiliary

if TYPE_CHECKING:
    from monocal.neural.losses import Loss
    from monocal.neural.network import MonotoneMap


@final
@dataclass(kw_only=True, eq=False, repr=False)
class McNet(KnotsCalibrator):
    r"""Integrates a positive network over score bins, with penalties on bins out of order and on unbalanced fields.

    .. math:: z' = e^{w(x)} \left(\int h(v, x)\,dv + \beta\right) + b(x), \qquad
              L = \mathrm{BCE} + \lambda_o \sum_k \max(0, \bar p'_k - \bar p'_{k+1})
                  + \lambda_f \frac1{F B} \sum_f \sum_v |G_{f,v}|\,(\bar y_{f,v} - \bar p'_{f,v})^2

    For a fixed feature row a higher score never gets a lower probability, for the reason given at `umc`. Rows of
    neighbouring score bins may change places where their features differ; the first penalty makes that rare. The
    second keeps the mean of every field value near its observed rate (`FieldCalibrationLoss`).

    There is no released code: integral, context and both penalties follow the public summary; their exact form, their
    factors, and scale and shift of the integral, as UMNN has them, are our reconstruction.

    References:
        MCNet: monotonic calibration networks for expressive uncertainty calibration in online advertising. WWW 2025,
        arXiv 2503.00334.

    Takes the arguments of `NeuralArguments` beside its own; `sc_weight` is the factor λ_f, 1 by default.

    Arguments:
        n_knots: Knots of the integral, at quantiles of the score; bins lie between them.
        hidden: Widths of the network.
        order_weight: The factor λ_o.

    Example:
        >>> import numpy as np
        >>> site = np.tile([1, 2], 2000)
        >>> clicks = (np.arange(4000) // 2 * 0.618034) % 1 < np.where(site == 1, 0.3, 0.1)
        >>> mcnet = McNet(l2=0.1).fit(np.full(4000, 0.2), clicks, features=site[:, None])
        >>> mcnet.predict([0.2, 0.2], features=[[1], [2]]).round(1).tolist()
        [0.3, 0.1]
    """

    name = "mcnet"
    class_tags = Tags(monotone="weak", features="optional", weights_exactly=False, reconstruction=True)

    auxiliary: Auxiliary = "field"
    n_knots: int = 12
    hidden: Sequence[int] = (128, 128)
    order_weight: float = 1.0

    def _parts(self, inputs: MapInputs) -> Parts:
        rows = inputs.rows
        knots = rows.knots(self.n_knots)
        return umc_parts(inputs.context_width, knots, self.hidden, identity_start=inputs.warm_start)

    def _build(self, inputs: MapInputs) -> MonotoneMap:
        from monocal.lab.reconstructions.mcnet_map import McnetMap

        return McnetMap(
            self._parts(inputs), context_width=inputs.context_width, order_weight=self.order_weight, seed=self.seed
        )

    def _objective(self, fields: FieldSchema) -> Loss:
        from monocal.neural.losses import CrossEntropy

        # without fields there is nothing to balance
        return super()._objective(fields) if len(fields) or self.auxiliary != "field" else CrossEntropy()

    def _published_sc_weight(self) -> float:
        return 1.0
