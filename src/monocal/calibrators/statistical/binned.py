"""What methods with bins of the score take."""

from __future__ import annotations

from monocal.calibrators.base import Calibrator
from monocal.calibrators.statistical.binning import Binning, Variant


class BinnedCalibrator(Calibrator):
    """A method that starts from bins of the score.

    Arguments:
        n_bins: Number of bins.
        binning: `"width"` for equally wide bins, `"mass"` for equally filled ones.
        variant: `"authors"` reproduces the UMC authors' script.
    """

    def __init__(
        self,
        *,
        n_bins: int = 10,
        binning: Binning = "width",
        variant: Variant = "monocal",
        recent_share: float = 0.0,
        guard: bool = False,
    ) -> None:
        super().__init__(recent_share=recent_share, guard=guard)
        self.n_bins = n_bins
        self.binning = binning
        self.variant = variant
