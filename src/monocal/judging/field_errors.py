"""The one estimator of calibration errors by field value: for the tables of an evaluation and for the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from monocal.core.spaces import Floats
from monocal.judging.cells import Cells
from monocal.judging.discoveries import Flags, two_stage_discoveries
from monocal.judging.spread import Spread, levelled, spread_of


@final
@dataclass(frozen=True, eq=False)
class FieldErrors:
    """One forecast on the values of one field.

    Attributes:
        cells: Sums per value.
        low: Lower end of the interval of each value's PCOC.
        high: Upper end; infinite without a positive.
        flagged: Values whose error is significant after correction.
        spread: How far off the values are together.
        is_significant: Whether the field is off, as a whole or through single values, after correction.
    """

    cells: Cells
    low: Floats
    high: Floats
    flagged: Flags
    spread: Spread
    is_significant: bool

    @property
    def n_flagged(self) -> int:
        return int(self.flagged.sum())

    @cached_property
    def relative_spread(self) -> Spread:
        """How far off the values are once the forecast's overall bias is taken out."""
        return spread_of(levelled(self.cells.counts))

    @property
    def shrunk_gap(self) -> Floats:
        """Predicted minus observed positives by the shrunk estimate."""
        gap: Floats = self.cells.predicted * (1.0 - 1.0 / self.cells.shrunk_pcoc)
        return gap

    @property
    def excess(self) -> Floats:
        """Predicted minus observed positives: as measured where significant, by the shrunk estimate elsewhere."""
        return np.where(self.flagged, self.cells.gap, self.shrunk_gap)


def field_errors(fields: Sequence[Cells], confidence: float = 0.95) -> list[FieldErrors]:
    """Estimates every value of every field; the long tail is shrunk, never folded into "other".

    First fields are tested, then the values of those that are off, with the false discovery rate held at 1 − confidence
    (`two_stage_discoveries`).

    Arguments:
        fields: One forecast's sums per value, field by field.
        confidence: Coverage of intervals.
    """
    spreads = [spread_of(cells.counts) for cells in fields]
    outside, flags = two_stage_discoveries(
        [spread.p_value for spread in spreads], [cells.p_values for cells in fields], 1.0 - confidence
    )
    return [
        FieldErrors(cells, *cells.interval(confidence), flagged, spread, bool(significant))
        for cells, spread, significant, flagged in zip(fields, spreads, outside, flags, strict=True)
    ]
