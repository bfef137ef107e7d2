"""Methods as small as their ideas allow."""

import pytest

from monocal.calibrators import CALIBRATORS, calibrator
from monocal.neural.base import NeuralCalibrator

QUICK = {
    "fac": {"hidden": (8,)},
    "sbcr": {"hidden": (8,)},
    "desc": {"hidden": (8,), "n_dimensions": 4},
    "adacalib": {"candidate_bins": (5,)},
    "per_segment": {"min_events": 5},
    "mbct": {"min_rows": 100, "min_positives": 5.0, "n_trees": 2},
}


@pytest.fixture(scope="session")
def quick():
    """Makes the method of that name so that it is fitted on fifteen hundred rows in a moment."""

    def made(method):
        few = {"n_epochs": 1} if issubclass(CALIBRATORS[method], NeuralCalibrator) else {}
        return calibrator(method, **QUICK.get(method, {}), **few)

    return made
