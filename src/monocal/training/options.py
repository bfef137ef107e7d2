"""What the training loop may be told."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from monocal.core.errors import InvalidInput, UnknownName

Schedule = Literal["cosine", "constant"]


@dataclass(frozen=True)
class TrainingOptions:
    """How to train, apart from what.

    Arguments:
        n_epochs: Passes over the rows.
        batch_rows: Rows per step.
        learning_rate: Adam's rate at its highest.
        schedule: `cosine` lets the rate fall to 0 over the whole training; `constant` keeps it.
        warm_up: The learning rate rises from 0 over this share of the steps: Adam's first estimates are too noisy to
            trust.
        shuffle: False takes the rows in their order in every epoch.
        checks_per_epoch: How often per epoch the held-out rows are looked at.
        patience: Training stops after this many checks without a new best; None never stops early.
        seed: Seed of the row order.
        n_threads: Threads of torch while training, restored afterwards; None keeps the present number.
        checkpoint: A folder from which an interrupted training goes on; it is gone when the training is finished.
        checkpoint_batches: Batches between two checkpoints; None writes one at the end of every epoch.
        show_progress: True or False; None asks whether somebody watches.

    Example:
        >>> TrainingOptions(learning_rate=0.1).rate_at(50, 100)
        0.05
        >>> TrainingOptions(n_epochs=0)
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: n_epochs: got 0; expected at least 1. Hint: ...
    """

    n_epochs: int = 2
    batch_rows: int = 4096
    learning_rate: float = 4e-3
    schedule: Schedule = "cosine"
    warm_up: float = 0.02
    shuffle: bool = True
    checks_per_epoch: int = 1
    patience: int | None = None
    seed: int = 0
    n_threads: int | None = None
    checkpoint: str | None = None
    checkpoint_batches: int | None = None
    show_progress: bool | None = None

    def __post_init__(self) -> None:
        for name in ("n_epochs", "batch_rows", "checks_per_epoch"):
            if getattr(self, name) < 1:
                raise InvalidInput.of(name, getattr(self, name), "at least 1", "leave it out to use the default")
        if not self.learning_rate > 0.0:
            raise InvalidInput.of("learning_rate", self.learning_rate, "a positive number", "start with 0.004")
        if self.schedule not in get_args(Schedule):
            raise UnknownName.among("schedule", self.schedule, get_args(Schedule))

    def rate_at(self, step: int, n_steps: int) -> float:
        """Returns the learning rate of a step, counted from 0."""
        warm_up = self.warm_up * n_steps
        rising = min((step + 1) / warm_up, 1.0) if warm_up > 1.0 else 1.0
        falling = 0.5 * (1.0 + math.cos(math.pi * step / n_steps)) if self.schedule == "cosine" else 1.0
        return self.learning_rate * min(rising, falling)
