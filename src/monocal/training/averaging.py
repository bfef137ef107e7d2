"""Averages of weights over training steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import final

import torch
from torch import Tensor, nn

from monocal.training.options import TAIL_SHARE, Averaging


@final
class WeightAverage:
    """Keeps an average of parameters beside the ones that are trained.

    An exponential average is bias-corrected, so it is an average from the first step on. A tail average is the
    plain mean over the last quarter of the steps; before that it is the present weights.

    Arguments:
        parameters: The parameters to average.
        kind: `none`, `exponential` or `tail`.
        decay: Factor of the exponential average.
        n_steps: Steps of the whole training.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], kind: Averaging, decay: float, n_steps: int) -> None:
        self.parameters = [] if kind == "none" else list(parameters)
        self.kind = kind
        self.decay = decay
        self.first_step = int(n_steps * (1.0 - TAIL_SHARE)) if kind == "tail" else 0
        self.averages = [one.detach().clone() for one in self.parameters]
        self.mass = 0.0

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Takes in the weights after a step, counted from 0."""
        if not self.parameters or step < self.first_step:
            return
        if self.kind == "tail":
            self.mass += 1.0
            share = 1.0 / self.mass
        else:
            self.mass = self.decay * self.mass + 1.0 - self.decay
            share = (1.0 - self.decay) / self.mass
        torch._foreach_lerp_(self.averages, list(self.parameters), share)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Puts the averages in the place of the weights for a while."""
        if self.mass == 0.0:
            yield
            return
        kept = [one.detach().clone() for one in self.parameters]
        self._put(self.averages)
        try:
            yield
        finally:
            self._put(kept)

    def settle(self) -> None:
        """Puts the averages in the place of the weights for good."""
        if self.mass > 0.0:
            self._put(self.averages)

    @torch.no_grad()
    def _put(self, values: Sequence[Tensor]) -> None:
        for parameter, value in zip(self.parameters, values, strict=True):
            parameter.copy_(value)
