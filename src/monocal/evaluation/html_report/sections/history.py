"""How training went, for calibrators that keep a history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, final

import numpy as np

from monocal.calibrators import Calibrator
from monocal.core.spaces import Floats


@final
@dataclass(frozen=True, eq=False)
class TrainingHistory:
    """Numbers per epoch.

    Attributes:
        series: One number per epoch, by name; NaN where an epoch has none.
        n_epochs: How many epochs there were.
    """

    series: Mapping[str, Floats]
    n_epochs: int


def training_history(calibrator: Calibrator) -> TrainingHistory | None:
    """Reads `history_`: a list of epochs (mappings), or a mapping of lists; None when there is none.

    Example:
        >>> class Trained:
        ...     history_ = [{"epoch": 1, "loss": 0.4}, {"epoch": 2, "loss": 0.3}]
        >>> training_history(Trained()).series["loss"].tolist()
        [0.4, 0.3]
    """
    kept: Any = getattr(calibrator, "history_", None)
    if not kept:
        return None
    if isinstance(kept, Mapping):
        columns = {str(name): column for name, column in kept.items() if isinstance(column, Sequence | np.ndarray)}
    else:
        names = dict.fromkeys(name for epoch in kept for name in epoch)
        columns = {str(name): [epoch.get(name, np.nan) for epoch in kept] for name in names}
    series = {name: _numbers(column) for name, column in columns.items() if name != "epoch"}
    series = {name: column for name, column in series.items() if column.size and np.isfinite(column).any()}
    if not series:
        return None
    return TrainingHistory(series, max(column.size for column in series.values()))


def _numbers(column: Any) -> Floats:
    return np.array([float(one) if isinstance(one, Real) else np.nan for one in column], dtype=np.float64)
