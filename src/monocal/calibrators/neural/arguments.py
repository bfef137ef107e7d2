"""The arguments that every neural calibrator takes beside its own."""

from __future__ import annotations

from typing import Literal, TypedDict

from monocal.calibrators.neural.fitting.presets import Preset
from monocal.calibrators.statistical.carry_over import Carry
from monocal.calibrators.statistical.field_shrinkage import Penalty

Embeddings = Literal["auto", "own", "ranker", "none"]
Auxiliary = Literal["sc", "field", "mse"]


class NeuralArguments(TypedDict, total=False):
    """See `NeuralCalibrator` for what each one does."""

    preset: Preset
    embeddings: Embeddings
    n_dimensions: int
    min_count: int
    wide: bool | None
    warm_start: bool | None
    carry: Carry | None
    l2: Penalty
    sc_weight: float | None
    sc_preset: str | None
    n_bins: int
    tau: float
    auxiliary: Auxiliary
    n_epochs: int | None
    batch_rows: int | None
    learning_rate: float | None
    averaging: Literal["none", "exponential", "tail"]
    held_out_share: float | None
    seed: int
    n_threads: int | None
    checkpoint: str | None
    show_progress: bool | None
    recent_share: float | None
    guard: bool
