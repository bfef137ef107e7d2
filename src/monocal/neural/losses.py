"""Differentiable objectives on logits. Running averages live in the loss, not in the training loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from monocal.core.errors import InvalidInput, check_known
from monocal.core.fields import FIRST_ID, NULL_ID, STEPS


class Loss(nn.Module, ABC):
    """Turns calibrated logits and labels of one batch into one number to minimise.

    A row of weight k counts as k rows. A loss may remember earlier batches in its buffers; it does so only in
    training mode, and `start_epoch` tells it when a new pass over the data begins.
    """

    @abstractmethod
    def forward(
        self, logits: Tensor, labels: Tensor, weights: Tensor | None = None, field_ids: Tensor | None = None
    ) -> Tensor:
        """Returns a scalar.

        Arguments:
            logits: Calibrated logits `(b,)`.
            labels: 0 or 1 per row.
            weights: How often each row counts; None means once.
            field_ids: Field ids `(b, F)`, for losses that look at groups of rows.
        """

    def start_epoch(self) -> None:
        """Takes note that the next batch is the first of a pass over the data; forgets nothing unless it must."""


def weighted_mean(values: Tensor, weights: Tensor | None) -> Tensor:
    """Returns the mean in which a row of weight k counts k times.

    Example:
        >>> import torch
        >>> weighted_mean(torch.tensor([1.0, 4.0]), torch.tensor([2.0, 1.0])).item()
        2.0
    """
    if weights is None:
        return values.mean()
    return (values * weights).sum() / weights.sum()


def cross_entropy(logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
    r"""Returns the weighted mean of :math:`\ln(1 + e^z) - y z`, which is the log-loss of :math:`\sigma(z)`.

    Arguments:
        logits: z, one per row.
        labels: y, 0 or 1 per row.
        weights: How often each row counts.

    Example:
        >>> import torch
        >>> z, y = torch.tensor([0.6, -0.4, 0.2, 1.1]), torch.tensor([1.0, 0.0, 0.0, 1.0])
        >>> round(cross_entropy(z, y).item(), 6)
        0.508994
    """
    losses = functional.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none")
    return weighted_mean(losses, None if weights is None else weights.to(logits.dtype))


@final
class CrossEntropy(Loss):
    """`cross_entropy` as a loss, to be put into a `WeightedSum`."""

    def forward(
        self, logits: Tensor, labels: Tensor, weights: Tensor | None = None, _field_ids: Tensor | None = None
    ) -> Tensor:
        return cross_entropy(logits, labels, weights)


def squared_error(logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
    r"""Returns the weighted mean of :math:`(\sigma(z) - y)^2`.

    Arguments:
        logits: z, one per row.
        labels: y, 0 or 1 per row.
        weights: How often each row counts.

    Example:
        >>> import torch
        >>> z, y = torch.tensor([0.6, -0.4, 0.2, 1.1]), torch.tensor([1.0, 0.0, 0.0, 1.0])
        >>> round(squared_error(z, y).item(), 6)
        0.162825
    """
    losses = (torch.sigmoid(logits) - labels.to(logits.dtype)).square()
    return weighted_mean(losses, None if weights is None else weights.to(logits.dtype))


@final
class SquaredError(Loss):
    """`squared_error` as a loss, to be put into a `WeightedSum`."""

    def forward(
        self, logits: Tensor, labels: Tensor, weights: Tensor | None = None, _field_ids: Tensor | None = None
    ) -> Tensor:
        return squared_error(logits, labels, weights)


@final
class AveragedGaps(nn.Module):
    r"""Sums :math:`c_k (\bar y_k - \bar p_k)^2` over the groups k that occur in a batch.

    The means are moving averages, :math:`m \leftarrow \tau m + (1-\tau)\,\text{batch mean}`. Earlier batches are
    constants to the gradient; it flows through the present batch's share alone. Groups that a batch does not
    contain keep their averages and cost nothing, so the work per batch is that of its own rows however many groups
    there are.

    Arguments:
        n_groups: How many groups there are.
        tau: How much of the past is kept; 0 looks at the batch alone.
        bias_corrected: Divides a moving average by :math:`1 - \tau^n` after n updates of its group, so that it is
            an average from the first batch on instead of creeping up from 0.
        counts_averaged: Weighs a group by the moving average of its size instead of its size in the batch.
    """

    label_means: Tensor
    score_means: Tensor
    counts: Tensor
    masses: Tensor

    def __init__(self, n_groups: int, tau: float, *, bias_corrected: bool, counts_averaged: bool) -> None:
        super().__init__()
        if not 0.0 <= tau < 1.0:
            raise InvalidInput.of("tau", tau, "a number in [0, 1)", "0.95 remembers about twenty batches")
        if n_groups < 1:
            raise InvalidInput.of("n_groups", n_groups, "at least 1", "use 10 bins")
        self.tau = tau
        self.bias_corrected = bias_corrected
        self.counts_averaged = counts_averaged
        for name in ("label_means", "score_means", "counts", "masses"):
            self.register_buffer(name, torch.zeros(n_groups, dtype=torch.float64))

    def forward(self, groups: Tensor, probabilities: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
        """Returns the sum for one batch; in training mode the averages move on."""
        present, place = torch.unique(groups, return_inverse=True)
        scores = probabilities.to(torch.float64)
        times = torch.ones_like(scores) if weights is None else weights.to(torch.float64)
        columns, zeros = (times, times * labels.to(torch.float64), times * scores), scores.new_zeros(present.shape[0])
        sizes, label_sums, score_sums = (zeros.index_add(0, place, column) for column in columns)
        filled = sizes > 0.0
        per_row = torch.where(filled, 1.0 / sizes.clamp(min=1e-300), 0.0)
        keep, new = self.tau, 1.0 - self.tau
        score_means = keep * self.score_means[present] + new * (score_sums * per_row)
        label_means = keep * self.label_means[present] + new * (label_sums * per_row)
        counts = keep * self.counts[present] + new * sizes
        masses = keep * self.masses[present] + new
        gaps = label_means - score_means
        if self.bias_corrected:
            gaps = gaps / masses
        if self.training:
            moved = {"label_means": label_means, "score_means": score_means, "counts": counts, "masses": masses}
            for name, values in moved.items():
                self.get_buffer(name)[present[filled]] = values.detach()[filled]
        shares = counts if self.counts_averaged else sizes
        return torch.where(filled, shares * gaps.square(), 0.0).sum()

    def reset(self) -> None:
        """Forgets every batch."""
        for buffer in self.buffers():
            buffer.zero_()


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

    Example:
        Two of the ten bins are filled: one predicts too little, the other too much.

        >>> import torch
        >>> p = torch.tensor([0.12, 0.18, 0.35, 0.72])
        >>> y = torch.tensor([0.0, 1.0, 0.0, 1.0])
        >>> round(SmoothCalibrationLoss(10, tau=0.0, preset="paper")(torch.logit(p), y).item(), 6)
        0.111475
    """

    def __init__(self, n_bins: int = 10, tau: float = 0.95, preset: str = "monocal") -> None:
        super().__init__()
        check_known("preset", preset, PRESETS)
        self.n_bins, self.settings = n_bins, PRESETS[preset]
        self.gaps = AveragedGaps(
            n_bins,
            tau,
            bias_corrected=self.settings.bias_corrected,
            counts_averaged=self.settings.counts_averaged,
        )

    def forward(
        self, logits: Tensor, labels: Tensor, weights: Tensor | None = None, _field_ids: Tensor | None = None
    ) -> Tensor:
        p, values = torch.sigmoid(logits), logits.detach().contiguous()
        if self.settings.bins == "mass":
            # equal logits must share a bin, and a vectorised sigmoid may round them differently
            bins = torch.searchsorted(equal_mass_edges(values, weights, self.n_bins), values, right=True)
        else:
            edges = torch.arange(1, self.n_bins, dtype=p.dtype, device=p.device) / self.n_bins
            bins = torch.searchsorted(edges, torch.sigmoid(values), right=self.settings.closed == "left")
        total: Tensor = self.gaps(bins, p, labels, weights)
        if self.settings.normalise == "none":
            return total
        return total / (logits.shape[0] if weights is None else weights.to(torch.float64).sum())

    def start_epoch(self) -> None:
        if self.settings.reset == "epoch":
            self.gaps.reset()


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


@final
class FieldCalibrationLoss(Loss):
    r"""Penalises the gap between mean label and mean prediction of every field value, averaged over fields.

    .. math:: \frac1{F B} \sum_f \sum_v |G_{f,v}|\,(\bar y_{f,v} - \bar p_{f,v})^2

    The differentiable neighbour of FECE: what a binned loss hides when errors of two sites cancel in one bin, this
    one sees. Means are bias-corrected moving averages, see `AveragedGaps`; a batch costs the time of its own rows.

    Arguments:
        field_sizes: How many ids each field has, id 0 included; ids beyond count as id 0.
        tau: How much of the past is kept; 0 looks at the batch alone.
        is_numeric: Which fields hold numbers (`core.numeric_ids`): numbers between two knots are one group. None if
            none does.

    Example:
        Both sites are predicted at 0.5; one always clicks, the other never.

        >>> import torch
        >>> loss = FieldCalibrationLoss([3], tau=0.0)
        >>> ids = torch.tensor([[1], [1], [2], [2]])
        >>> loss(torch.zeros(4), torch.tensor([1.0, 1.0, 0.0, 0.0]), None, ids).item()
        0.25
    """

    numbers: Tensor | None
    sizes: Tensor
    offsets: Tensor

    def __init__(self, field_sizes: Sequence[int], tau: float = 0.95, is_numeric: Sequence[bool] | None = None) -> None:
        super().__init__()
        numbers = None if is_numeric is None else torch.as_tensor(list(is_numeric))
        self.register_buffer("numbers", numbers, persistent=False)
        sizes = torch.as_tensor(list(field_sizes), dtype=torch.int64)
        self.register_buffer("sizes", sizes, persistent=False)
        self.register_buffer("offsets", torch.cumsum(sizes, 0) - sizes, persistent=False)
        self.gaps = AveragedGaps(int(sum(field_sizes)), tau, bias_corrected=True, counts_averaged=False)

    def forward(
        self, logits: Tensor, labels: Tensor, weights: Tensor | None = None, field_ids: Tensor | None = None
    ) -> Tensor:
        if field_ids is None:
            raise InvalidInput.of("field_ids", None, "the ids of every row", "pass them, or use SmoothCalibrationLoss")
        n_fields = self.sizes.shape[0]
        ids = field_ids.to(torch.int64)
        if self.numbers is not None:
            knots = torch.div(ids - FIRST_ID, STEPS, rounding_mode="floor") + FIRST_ID
            ids = torch.where(self.numbers & (ids > NULL_ID), knots, ids)
        groups = (torch.where(ids < self.sizes, ids, 0) + self.offsets).reshape(-1)

        def per_field(column: Tensor) -> Tensor:
            return column[:, None].expand(-1, n_fields).reshape(-1)

        times = None if weights is None else per_field(weights)
        total: Tensor = self.gaps(groups, per_field(torch.sigmoid(logits)), per_field(labels), times)
        n_rows = logits.shape[0] if weights is None else weights.to(torch.float64).sum()
        return total / (n_rows * n_fields)


@final
class WeightedSum(Loss):
    r"""Adds losses, each times its factor: :math:`\sum_j \lambda_j L_j`.

    Arguments:
        parts: Pairs of factor and loss.

    Example:
        >>> import torch
        >>> both = WeightedSum([(1.0, CrossEntropy()), (0.5, SquaredError())])
        >>> z, y = torch.tensor([0.6, -0.4, 0.2, 1.1]), torch.tensor([1.0, 0.0, 0.0, 1.0])
        >>> round(both(z, y).item(), 6)
        0.590407
    """

    def __init__(self, parts: Sequence[tuple[float, Loss]]) -> None:
        super().__init__()
        if not parts:
            raise InvalidInput.of("parts", "no loss", "at least one", "start with (1.0, CrossEntropy())")
        self.factors = [factor for factor, _ in parts]
        self.losses = nn.ModuleList([loss for _, loss in parts])

    def forward(
        self, logits: Tensor, labels: Tensor, weights: Tensor | None = None, field_ids: Tensor | None = None
    ) -> Tensor:
        values = [loss(logits, labels, weights, field_ids) for loss in self.losses]
        total: Tensor = sum(factor * value for factor, value in zip(self.factors, values, strict=True))
        return total

    def start_epoch(self) -> None:
        for loss in self.losses:
            assert isinstance(loss, Loss)
            loss.start_epoch()
