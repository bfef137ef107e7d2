"""Numbers worked out independently on ten samples."""

import numpy as np
import pytest

from monocal.metrics import Forecast, metric
from monocal.metrics.calibration import equal_mass
from monocal.metrics.fields import fields_of

_EXACT = 1e-9


@pytest.fixture
def rows(t10):
    z = np.searchsorted(["a", "b", "c"], t10.z)
    return Forecast.of(t10.y, t10.s, fields={"z": z, "g": t10.g}, groups=z)


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("auc", {}, 0.7083333333),
        ("gauc", {}, 0.5),
        ("log_loss", {}, 0.6169631770),
        ("pcoc", {}, 1.03),
        ("ece", {"bins": 100}, 0.388),
        ("ece", {"bins": 5}, 0.182),
        ("rce", {"bins": 100}, 0.47),
        ("rce", {"bins": 5}, 0.38),
        ("adaptive_ece", {"bins": 5}, 0.178),
        ("adaptive_ece", {"bins": 2}, 0.026),
        ("mce", {"bins": 5}, 0.29),
        ("brier", {}, 0.21846),
        ("frce", {}, 0.2875),
        ("mfrce", {}, 0.40375),
        ("fece", {}, 0.242),
        ("mfece", {}, 0.196),
    ],
)
def test_value(rows, name, options, expected):
    assert metric(name, **options).of(rows).number == pytest.approx(expected, abs=_EXACT)


def test_frce_as_the_formula_is_printed_in_the_paper(rows):
    ((_, cells),) = fields_of(metric("frce").summarize(rows))
    kept = cells.positive > 0
    assert np.sum(cells.gap[kept] / cells.positive[kept]) / rows.n_rows == pytest.approx(0.0575, abs=_EXACT)


def test_cal_2_clusters(rows):
    sums, _ = equal_mass(metric("adaptive_ece").summarize(rows), 2)
    ratio = sums.predicted / sums.positive
    assert np.maximum(ratio, 1.0 / ratio) - 1.0 == pytest.approx([0.0752688, 0.0633333], abs=1e-7)


def test_a_cell_of_a_sketch_that_a_cut_falls_into_is_stated():
    rows = Forecast.of([0, 1, 0, 1, 1, 0], [0.01, 0.5, 0.5, 0.5, 0.5, 0.99])
    sums, torn = equal_mass(metric("adaptive_ece", cells=8).summarize(rows), 2)
    assert (sums.weight.tolist(), torn.tolist()) == ([3.0, 3.0], [4.0])
    assert metric("adaptive_ece", bins=2, cells=8).of(rows).details["error_bound"] == pytest.approx(2 * 4 / 6)


def test_brier_parts(rows):
    assert dict(metric("brier", bins=5).of(rows).details) == pytest.approx(
        {
            "reliability": 0.0399233333,
            "resolution": 0.0733333333,
            "uncertainty": 0.24,
            "within_bin_variance": 0.0025366667,
            "within_bin_covariance": -0.0093333333,
        },
        abs=_EXACT,
    )


def test_frce_reports_what_it_drops(rows):
    details = metric("frce").of(rows).details
    assert details["dropped_row_share"] == pytest.approx(0.4)
    # group a has four rows, no positive and 1.27 predicted: 4 · 1.27 / 0.5 joins the numerator
    assert details["smoothed"] == pytest.approx((4 * 1.27 / 0.5 + 3 * 0.95 / 2 + 3 * 0.2 / 2) / 10)
    # by all rows instead of those that were kept
    assert metric("frce").of(rows).number * (1 - details["dropped_row_share"]) == pytest.approx(0.1725, abs=_EXACT)
