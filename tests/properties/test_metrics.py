"""What holds for any rows that hypothesis can think of."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monocal.metrics import METRICS, Forecast, metric
from monocal.metrics.calibration import equal_mass
from monocal.metrics.order import ScoreOrder

_PROBABILITIES = st.one_of(st.sampled_from([0.0, 1.0, 0.5, 0.29, 1e-9]), st.floats(0.0, 1.0))


@st.composite
def forecasts(draw, weights=False):
    n = draw(st.integers(1, 30))

    def column(values):
        return draw(st.lists(values, min_size=n, max_size=n))

    return Forecast.of(
        column(st.integers(0, 1)),
        column(_PROBABILITIES),
        weights=column(st.integers(1, 3)) if weights else None,
        fields={"a": column(st.integers(0, 4)), "b": column(st.integers(0, 1))},
        groups=column(st.integers(0, 3)),
    )


@settings(max_examples=40, deadline=None)
@given(rows=forecasts(weights=True), cut=st.integers(0, 30), seed=st.integers(0, 5))
def test_order_pieces_and_repetition_do_not_matter(rows, cut, seed):
    repeated = rows.take(np.repeat(np.arange(rows.n_rows), rows.weights.astype(int))).with_weights(None)
    shuffled = rows.take(np.random.default_rng(seed).permutation(rows.n_rows))
    for name in METRICS:
        chosen = metric(name)
        value = chosen.of(rows)
        merged = chosen.merge(chosen.summarize(rows.take(slice(0, cut))), chosen.summarize(rows.take(slice(cut, None))))
        for other in (chosen.of(shuffled), chosen.of(repeated), chosen.value(merged)):
            assert other.reason == value.reason
            assert other.number == pytest.approx(value.number, rel=1e-7, abs=1e-9, nan_ok=True), name


@settings(max_examples=40, deadline=None)
@given(rows=forecasts(), bins=st.integers(1, 40))
def test_brier_parts_add_up_to_the_score(rows, bins):
    value = metric("brier", bins=bins).of(rows)
    parts = value.details
    total = parts["reliability"] - parts["resolution"] + parts["uncertainty"]
    total += parts["within_bin_variance"] - parts["within_bin_covariance"]
    assert total == pytest.approx(value.number, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(rows=forecasts(), cells=st.integers(1, 64), bins=st.integers(1, 6))
def test_sketches_stay_within_their_stated_error(rows, cells, bins):
    for name, options in (("auc", {}), ("adaptive_ece", {"bins": bins})):
        exact = metric(name, **options).of(rows)
        sketch = metric(name, cells=cells, **options).of(rows)
        assert exact.reason == sketch.reason
        if not exact.reason:
            assert abs(exact.number - sketch.number) <= sketch.details["error_bound"] + 1e-12, name
        if name == "auc" and not exact.reason:  # a coin for every pair is never more than half of it wrong
            assert sketch.details["error_bound"] <= 0.5


@settings(max_examples=40, deadline=None)
@given(rows=forecasts(weights=True), bins=st.integers(1, 12))
def test_equal_mass_bins_hold_equal_mass_and_lose_nothing(rows, bins):
    sums, _ = equal_mass(ScoreOrder().summarize(rows), bins)
    assert sums.weight.max() - sums.weight.min() <= 1.0
    assert sums.weight.sum() == pytest.approx(rows.weights.sum())
    assert sums.predicted.sum() == pytest.approx((rows.weights * rows.probabilities).sum())
    assert sums.positive.sum() == pytest.approx((rows.weights * rows.labels).sum())


@settings(max_examples=30, deadline=None)
@given(rows=forecasts(), factor=st.floats(0.2, 5.0))
def test_scaling_all_weights_changes_no_ratio_metric(rows, factor):
    scaled = rows.with_weights(np.full(rows.n_rows, factor))
    for name in ("auc", "gauc", "log_loss", "ne", "brier", "pcoc", "ece", "rce", "mce", "fece", "frce"):
        expected = metric(name).of(rows).number
        assert metric(name).of(scaled).number == pytest.approx(expected, rel=1e-6, abs=1e-9, nan_ok=True), name


@settings(max_examples=30, deadline=None)
@given(truth=st.floats(0.001, 0.999), forecast=st.floats(0.0, 1.0))
def test_on_average_nothing_beats_the_true_probabilities(truth, forecast):
    # the two possible labels, weighted by their chances, are the expectation
    weights = [1.0 - truth, truth]
    for name in ("log_loss", "brier"):
        honest, other = (metric(name).of(Forecast.of([0, 1], [p, p], weights=weights)) for p in (truth, forecast))
        assert honest.number <= other.number + 1e-12


@settings(max_examples=30, deadline=None)
@given(rows=forecasts())
def test_coarser_bins_never_increase_the_error(rows):
    for name in ("ece", "adaptive_ece"):
        if name == "adaptive_ece" and rows.n_rows % 4:
            continue
        fine, coarse = (metric(name, bins=bins).of(rows).number for bins in (4, 2))
        # p = 1 has a bin of its own in both, so halving the number of bins joins neighbours and nothing else
        assert coarse <= fine + 1e-12
