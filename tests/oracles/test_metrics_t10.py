"""Numbers worked out independently on ten samples."""

import numpy as np
import pytest

from monocal.metrics import Forecast, metric, view_errors
from monocal.metrics.equal_mass import equal_mass
from monocal.metrics.fields import fields_of

_EXACT = 1e-9


@pytest.fixture
def rows(t10):
    z = np.searchsorted(["a", "b", "c"], t10.z)
    return Forecast.of(t10.y, t10.s, fields={"z": z, "g": t10.g}, groups=z)


@pytest.mark.parametrize(
    ("name", "options", "expected", "tolerance"),
    [
        ("auc", {}, 0.7083333333, _EXACT),
        ("gauc", {}, 0.5, _EXACT),
        ("log_loss", {}, 0.6169631770, _EXACT),
        ("pcoc", {}, 1.03, _EXACT),
        ("ece", {"bins": 100}, 0.388, _EXACT),
        ("ece", {"bins": 5}, 0.182, _EXACT),
        ("rce", {"bins": 100}, 0.47, _EXACT),
        ("rce", {"bins": 5}, 0.38, _EXACT),
        ("adaptive_ece", {"bins": 5}, 0.178, _EXACT),
        ("adaptive_ece", {"bins": 2}, 0.026, _EXACT),
        ("mce", {"bins": 5}, 0.29, _EXACT),
        ("brier", {}, 0.21846, _EXACT),
        ("frce", {}, 0.2875, _EXACT),
        ("frce", {"normalise": "all"}, 0.1725, _EXACT),
        ("mfrce", {}, 0.40375, _EXACT),
        ("fece", {}, 0.242, _EXACT),
        ("mfece", {}, 0.196, _EXACT),
        ("cal_n", {"bins": 2}, 0.0695575515, _EXACT),
        ("cal_n", {"bins": 5}, 0.7669768262, _EXACT),
        # trapezoids over 2000 steps against a finer integral: the kinks of the absolute value cost about 1e-8
        ("smooth_ece", {"bandwidth": 0.1}, 0.0817920112, 1e-7),
        ("smooth_ece", {}, 0.0888561823, 1e-7),
    ],
)
def test_value(rows, name, options, expected, tolerance):
    assert metric(name, **options).of(rows).number == pytest.approx(expected, abs=tolerance)


def test_frce_as_the_formula_is_printed_in_the_paper(rows):
    ((_, cells),) = fields_of(metric("frce").summarize(rows))
    kept = cells.positive > 0
    assert np.sum(cells.gap[kept] / cells.positive[kept]) / rows.n_rows == pytest.approx(0.0575, abs=_EXACT)


def test_cal_2_clusters(rows):
    sums, _ = equal_mass(metric("cal_n").summarize(rows), 2)
    ratio = sums.predicted / sums.positive
    assert np.maximum(ratio, 1.0 / ratio) - 1.0 == pytest.approx([0.0752688, 0.0633333], abs=1e-7)


def test_a_cell_of_a_sketch_that_a_cut_falls_into_is_stated():
    rows = Forecast.of([0, 1, 0, 1, 1, 0], [0.01, 0.5, 0.5, 0.5, 0.5, 0.99])
    sums, torn = equal_mass(metric("cal_n", cells=8).summarize(rows), 2)
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
    assert metric("frce", smoothing=0.5).of(rows).number == details["smoothed"]


def test_mvce_with_given_views(t10):
    views = [[0, 3, 6, 9, 2, 1, 4, 5, 7, 8], list(range(10)), [9, 0, 8, 1, 5, 7, 2, 6, 3, 4]]
    errors = view_errors(t10.y, t10.s, views, parts=2)
    assert errors == pytest.approx([0.038, 0.026, 0.040], abs=_EXACT)
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(0.0352136337, abs=_EXACT)
    assert np.mean(errors) == pytest.approx(0.0346666667, abs=_EXACT)


def test_single_precision_moves_predictions_on_an_edge():
    rows = Forecast.of([0, 1], [0.29, 0.285])
    assert metric("ece").of(rows).number == pytest.approx((1 - 0.29 - 0.285) / 2)
    assert metric("ece", precision="single").of(rows).number == pytest.approx((0.29 + 1 - 0.285) / 2)
