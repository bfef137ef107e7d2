"""The dense half of a DeepFM: hidden layers, one head per task, with forward and backward passes written out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from monocal.core.errors import InvalidInput


@final
@dataclass(frozen=True)
class DenseShape:
    """Which numbers the dense half has and where they lie in one flat vector.

    The last hidden layer is as wide as one tower times the number of tasks; each task's head reads its own tower.
    With one task this is the plain network. With several, each task also scales the second-order term.

    Arguments:
        n_inputs: Width of the concatenated embeddings.
        hidden: Widths of the hidden layers, the last one per task.
        n_tasks: How many heads.

    Example:
        >>> DenseShape(336, (512, 256, 128), 1).n_parameters
        336896
    """

    n_inputs: int
    hidden: tuple[int, ...]
    n_tasks: int = 1

    def __post_init__(self) -> None:
        if not self.hidden or min(self.hidden) < 1:
            raise InvalidInput.of("hidden", self.hidden, "at least one layer of width ≥ 1", "use (512, 256, 128)")

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths of input and hidden layers as they are computed."""
        return (self.n_inputs, *self.hidden[:-1], self.hidden[-1] * self.n_tasks)

    @property
    def tower(self) -> int:
        return self.hidden[-1]

    @property
    def n_parameters(self) -> int:
        pairs = itertools.pairwise(self.widths)
        layers = sum(left * right + right for left, right in pairs)
        return layers + self.tower * self.n_tasks + (self.n_tasks if self.n_tasks > 1 else 0)

    def split(self, flat: Tensor) -> DenseViews:
        """Returns the parts of a flat vector as views."""
        place = 0

        def part(*shape: int) -> Tensor:
            nonlocal place
            size = math.prod(shape)
            view = flat[place : place + size].view(*shape)
            place += size
            return view

        weights, biases = [], []
        for left, right in itertools.pairwise(self.widths):
            weights.append(part(right, left))
            biases.append(part(right))
        heads = part(self.n_tasks, self.tower)
        return DenseViews(weights, biases, heads, part(self.n_tasks) if self.n_tasks > 1 else None)

    def start(self, seed: int) -> Tensor:
        r"""Draws the starting point: Xavier-normal weights of gain :math:`\sqrt 2`, zero biases, uniform heads."""
        flat = torch.zeros(self.n_parameters)
        views = self.split(flat)
        generator = torch.Generator().manual_seed(seed)
        for weight in views.weights:
            torch.nn.init.xavier_normal_(weight, gain=math.sqrt(2.0), generator=generator)
        bound = 1.0 / math.sqrt(self.tower)
        views.heads.uniform_(-bound, bound, generator=generator)
        if views.scales is not None:
            views.scales.fill_(1.0)
        return flat


@final
@dataclass(frozen=True)
class DenseViews:
    """Weights, biases, heads and (with several tasks) scales of the second-order term."""

    weights: Sequence[Tensor]
    biases: Sequence[Tensor]
    heads: Tensor
    scales: Tensor | None


@final
class DenseBuffers:
    """What one thread needs to pass a chunk of rows forward and backward.

    Arguments:
        shape: The network.
        n_rows: Most rows in a chunk.
        backward: False leaves out what only training needs.
    """

    def __init__(self, shape: DenseShape, n_rows: int, backward: bool) -> None:
        self.hidden = [torch.empty(n_rows, width) for width in shape.widths[1:]]
        self.gradients = [torch.empty(n_rows, width) for width in shape.widths[1:]] if backward else []


def forward(views: DenseViews, below: Tensor, pairs: Tensor, linear: Tensor, buffers: DenseBuffers) -> Tensor:
    """Returns logits `(rows, tasks)` of a chunk whose first layer is done.

    Arguments:
        views: The parameters.
        below: The first layer's values, in `buffers.hidden[0]`; its ReLU is applied here.
        pairs: The second-order term of each row.
        linear: The sum of linear weights, per task.
        buffers: Keeps the hidden layers for `backward`.
    """
    n_rows = below.shape[0]
    below.relu_()
    for weight, bias, space in zip(views.weights[1:], views.biases[1:], buffers.hidden[1:], strict=True):
        below = torch.addmm(bias, below, weight.t(), out=space[:n_rows]).relu_()
    n_tasks, tower = views.heads.shape
    second_order = pairs[:, None] if views.scales is None else pairs[:, None] * views.scales
    deep = torch.einsum("rtk,tk->rt", below.view(n_rows, n_tasks, tower), views.heads)
    return deep + second_order + linear


def backward(
    views: DenseViews, gradients: DenseViews, pairs: Tensor, logit_gradients: Tensor, buffers: DenseBuffers
) -> tuple[Tensor, Tensor]:
    """Writes the chunk's parameter gradients, all but the first layer's weights.

    Returns the loss's gradients with respect to the first layer's values and to `pairs`.

    Arguments:
        views: The parameters.
        gradients: Where the parameters' gradients go (overwritten).
        pairs: As given to `forward`.
        logit_gradients: The loss's gradient with respect to the logits.
        buffers: As left by `forward`.
    """
    n_rows = logit_gradients.shape[0]
    n_tasks, tower = views.heads.shape
    last = buffers.hidden[-1][:n_rows].view(n_rows, n_tasks, tower)
    torch.sum(logit_gradients[:, :, None] * last, 0, out=gradients.heads)
    upper = buffers.gradients[-1][:n_rows]
    torch.mul(logit_gradients[:, :, None], views.heads, out=upper.view(n_rows, n_tasks, tower))
    for layer in reversed(range(len(views.weights))):
        torch.ops.aten.threshold_backward.grad_input(upper, buffers.hidden[layer][:n_rows], 0.0, grad_input=upper)
        torch.sum(upper, 0, out=gradients.biases[layer])
        if layer:
            torch.mm(upper.t(), buffers.hidden[layer - 1][:n_rows], out=gradients.weights[layer])
            upper = torch.mm(upper, views.weights[layer], out=buffers.gradients[layer - 1][:n_rows])
    if views.scales is None or gradients.scales is None:
        return upper, logit_gradients[:, 0]
    torch.mv(logit_gradients.t(), pairs, out=gradients.scales)
    return upper, logit_gradients @ views.scales
