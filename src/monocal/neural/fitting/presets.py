"""What a preset means: every choice of a neural fit that the publications and this package make differently."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from monocal.carry_over.shrinkage import Carry

Preset = Literal["monocal", "paper", "authors"]

STOPPING_SHARE = 0.1
"""Most recent rows that choose when to stop, if nothing else judges the network."""


@dataclass(frozen=True)
class FitSettings:
    """The choices of one preset; a calibrator's own arguments replace them one by one.

    Attributes:
        wide: One shift per field value beside the network.
        warm_start: Starts the network as the identity on top of a logistic fit instead of at random.
        carry: How much of the fields' effects and of the network is carried into the future.
        held_out_share: Most recent rows kept for early stopping; None keeps a tenth unless `carry` judges the network.
        recent_share: Most recent rows that set the last intercept.
        n_epochs: Passes over the rows.
        batch_rows: Rows per step; None adapts it to the number of rows.
        learning_rate: Adam's rate.
        schedule: Of the rate.
        sc_preset: Which form of the smooth calibration loss.
    """

    wide: bool
    warm_start: bool
    carry: Carry
    held_out_share: float | None
    recent_share: float
    n_epochs: int
    batch_rows: int | None
    learning_rate: float
    schedule: Literal["cosine", "constant"]
    sc_preset: str

    @property
    def stopping_share(self) -> float:
        """Most recent rows that choose when to stop."""
        if self.held_out_share is not None:
            return self.held_out_share
        return STOPPING_SHARE if self.carry == "none" else 0.0


_PUBLISHED = {
    "wide": False,
    "warm_start": False,
    "carry": "none",
    "held_out_share": 0.0,
    "recent_share": 0.0,
    "n_epochs": 20,
    "batch_rows": 16_384,
    "learning_rate": 1e-3,
    "schedule": "constant",
}

PRESETS: dict[str, FitSettings] = {
    "monocal": FitSettings(
        wide=True,
        warm_start=True,
        carry="auto",
        held_out_share=None,
        recent_share=0.2,
        n_epochs=2,
        batch_rows=None,
        learning_rate=4e-3,
        schedule="cosine",
        sc_preset="monocal",
    ),
    "paper": FitSettings(**_PUBLISHED, sc_preset="paper"),  # type: ignore[arg-type]
    "authors": FitSettings(**_PUBLISHED, sc_preset="authors"),  # type: ignore[arg-type]
}
"""`paper` and `authors` train every method as UMC's publication and released code do: at random start, twenty epochs
at a constant rate, on all rows, nothing held out."""

_FEWEST_STEPS = 45
_SMALLEST_BATCH, _LARGEST_BATCH = 256, 4096


def batch_rows_for(n_rows: int) -> int:
    """Returns a power of two that leaves about 45 steps per epoch, between 256 and 4096 rows.

    Example:
        >>> [batch_rows_for(n) for n in (1_000, 40_000, 180_000, 8_000_000)]
        [256, 1024, 4096, 4096]
    """
    wanted = n_rows / _FEWEST_STEPS
    size = _SMALLEST_BATCH
    while size * 1.5 <= wanted and size < _LARGEST_BATCH:
        size *= 2
    return size
