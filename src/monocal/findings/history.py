"""How training went, for calibrators that were trained step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from monocal.calibrators import Calibrator
from monocal.core.spaces import Floats


@final
@dataclass(frozen=True, eq=False)
class TrainingRun:
    """Losses at each check, from check 0 before the first step.

    Attributes:
        train_losses: Mean training loss since the check before; NaN at check 0.
        held_out_losses: Log-loss on the newest rows, which were held out; empty when none were.
        best_check: The check whose weights are the result.
        n_steps: Steps taken.
        n_epochs: Epochs finished or begun.
    """

    train_losses: Floats
    held_out_losses: Floats
    best_check: int
    n_steps: int
    n_epochs: int

    @property
    def n_checks(self) -> int:
        return max(self.train_losses.size, self.held_out_losses.size)


def training_run(calibrator: Calibrator) -> TrainingRun | None:
    """Reads the calibrator's `history_`; None when it has none.

    Example:
        >>> class Trained:
        ...     history_ = {"train_losses": [0.4, 0.3], "held_out_losses": [0.5, 0.42, 0.43], "best_check": 1}
        >>> run = training_run(Trained())
        >>> run.n_checks, run.train_losses.tolist(), run.best_check
        (3, [nan, 0.4, 0.3], 1)
    """
    kept: Any = getattr(calibrator, "history_", None)
    if not isinstance(kept, Mapping) or not (kept.get("train_losses") or kept.get("held_out_losses")):
        return None
    return TrainingRun(
        np.array([np.nan, *kept.get("train_losses", [])], dtype=np.float64),
        np.array(kept.get("held_out_losses", []), dtype=np.float64),
        int(kept.get("best_check", 0)),
        int(kept.get("n_steps", 0)),
        int(kept.get("n_epochs", 0)),
    )
