"""SCLoss: the calibration error of bins of the prediction, made smooth by moving averages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor

from monocal.core.errors import UnknownName
from monocal.losses.averaged_gaps import AveragedGaps
from monocal.losses.base import Loss


@dataclass(frozen=True)
class SmoothCalibrationSettings:
    """The choices on which publications and code of this loss differ.

    Attributes:
        normalise: `batch` divides by the batch's weight; `none` leaves the sum over rows.
        reset: Whether the averages start anew every `epoch` or `never`.
        closed: Which end belongs to a bin of equal width.
        counts_averaged: Weighs bins by averaged sizes.
        bias_corrected: Corrects averages for their start at 0.
        bins: `width` cuts the unit interval equally; `mass` cuts the batch's predictions into equal weights.
    """

    normalise: Literal["batch", "none"] = "batch"
    reset: Literal["epoch", "never"] = "never"
    closed: Literal["left", "right"] = "left"
    counts_averaged: bool = False
    bias_corrected: bool = False
    bins: Literal["width", "mass"] = "width"


PRESETS: dict[str, SmoothCalibrationSettings] = {
    "monocal": SmoothCalibrationSettings(bias_corrected=True, bins="mass"),
    "paper": SmoothCalibrationSettings(reset="epoch"),
    "authors": SmoothCalibrationSettings(normalise="none", closed="right", counts_averaged=True),
}
"""`paper`: the published formula. `authors`: their released code, whose scale is a whole batch larger. `monocal`:
averages that mean something from the first batch on, over bins that are never empty."""


@final
class SmoothCalibrationLoss(Loss):
    r"""Penalises the gap between mean label and mean prediction in bins of the prediction.

    .. math:: \frac1B \sum_{k=1}^{N} |G_k|\,(\bar y_k - \bar p_k)^2

    The means are moving averages with factor τ, and gradients flow through the present batch alone; see
    `AveragedGaps`. Empty bins cost nothing.

    References:
        Bai et al. Unconstrained monotonic calibration of predictions in deep ranking systems. SIGIR 2025.

    Arguments:
        n_bins: Number of bins N.
        tau: How much of the past is kept; 0 looks at the batch alone.
        preset: `monocal`, `paper` or `authors`.
        settings: Replaces the preset.

    Example:
        Two of the ten bins are filled: one predicts too little, the other too much.

        >>> import torch
        >>> p = torch.tensor([0.12, 0.18, 0.35, 0.72])
        >>> y = torch.tensor([0.0, 1.0, 0.0, 1.0])
        >>> round(SmoothCalibrationLoss(10, tau=0.0, preset="paper")(torch.logit(p), y).item(), 6)
        0.111475
    """

    def __init__(
        self,
        n_bins: int = 10,
        tau: float = 0.95,
        preset: str = "monocal",
        *,
        settings: SmoothCalibrationSettings | None = None,
    ) -> None:
        super().__init__()
        if preset not in PRESETS:
            raise UnknownName.among("preset", preset, PRESETS)
        self.n_bins = n_bins
        self.settings = settings or PRESETS[preset]
        self.gaps = AveragedGaps(
            n_bins,
            tau,
            bias_corrected=self.settings.bias_corrected,
            counts_averaged=self.settings.counts_averaged,
        )

    def _loss(self, logits: Tensor, labels: Tensor, weights: Tensor | None, _field_ids: Tensor | None) -> Tensor:
        values = logits.detach().contiguous()
        edges = equal_mass_edges(values, weights, self.n_bins) if self.settings.bins == "mass" else None
        bins = self._bins(values, edges)
        total: Tensor = self.gaps(bins, torch.sigmoid(logits), labels, weights)
        if self.settings.normalise == "none":
            return total
        n_rows = logits.shape[0] if weights is None else weights.to(torch.float64).sum()
        return total / n_rows

    def _start_epoch(self) -> None:
        if self.settings.reset == "epoch":
            self.gaps.reset()

    def _bins(self, logits: Tensor, edges: Tensor | None) -> Tensor:
        if edges is not None:
            # equal logits must share a bin, and a vectorised sigmoid may round them differently
            return torch.searchsorted(edges, logits, right=True)
        p = torch.sigmoid(logits)
        edges = torch.arange(1, self.n_bins, dtype=p.dtype, device=p.device) / self.n_bins
        return torch.searchsorted(edges, p, right=self.settings.closed == "left")


def equal_mass_edges(values: Tensor, weights: Tensor | None, n_bins: int) -> Tensor:
    """Returns the inner edges that cut values into bins of equal weight; equal values share a bin.

    Example:
        >>> import torch
        >>> equal_mass_edges(torch.tensor([4.0, 1.0, 2.0, 3.0]), None, 2).tolist()
        [2.0]
    """
    ordered, order = torch.sort(values)
    times = torch.ones_like(values, dtype=torch.float64) if weights is None else weights.to(torch.float64)
    below = torch.cumsum(times[order], 0)
    wanted = below[-1] * torch.arange(1, n_bins, dtype=torch.float64, device=values.device) / n_bins
    return ordered[torch.searchsorted(below, wanted).clamp(max=values.shape[0] - 1)]
