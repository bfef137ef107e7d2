"""Metrics at the ends of their range, with the fewest units, and over parts that lack something."""

import numpy as np
import pytest

from monocal.core.errors import InvalidInput
from monocal.metrics import Forecast, bootstrap, metric


def test_smooth_ece_sees_both_ends_alike():
    """Turning labels and probabilities around turns the curve around and leaves its area, also with rows at 0 and 1."""
    p = np.array([0.0, 0.0, 0.001, 0.02, 0.3, 0.9])
    labels = np.array([1, 1, 0, 1, 0, 1])
    there, back = (
        metric("smooth_ece").of(forecast).number
        for forecast in (Forecast.of(labels, p), Forecast.of(1 - labels, 1 - p))
    )
    assert there == pytest.approx(back, abs=1e-9)
    assert there > 0.1


def test_two_units_are_enough_to_resample():
    rows = Forecast.of([0, 1, 1, 0], [0.2, 0.7, 0.4, 0.1], groups=[0, 0, 1, 1])
    assert np.isfinite(bootstrap({"pcoc": metric("pcoc")}, rows, n_replicates=20)["pcoc"]).all()
    one = Forecast.of([0, 1], [0.2, 0.7], groups=[0, 0])
    assert np.isnan(bootstrap({"pcoc": metric("pcoc")}, one, n_replicates=20)["pcoc"]).all()


def test_a_score_without_bins_is_refused():
    with pytest.raises(InvalidInput, match="bins: got 0"):
        metric("brier", bins=0).of(Forecast.of([0, 1], [0.2, 0.7]))


@pytest.mark.parametrize("order", [1, -1])
def test_a_part_without_groups_beside_one_with_them_is_refused(order):
    gauc = metric("gauc")
    whole = Forecast.of([0, 1, 1, 0], [0.2, 0.7, 0.4, 0.1], groups=[0, 0, 1, 1])
    parts = [gauc.summarize(whole), gauc.summarize(Forecast.of([0, 1], [0.2, 0.7]))][::order]
    with pytest.raises(InvalidInput, match="groups: got a piece of the rows with groups and one without"):
        gauc.merge(*parts)
    assert gauc.value(parts[::order][0]).number == 1.0


def test_a_batch_whose_rows_all_weigh_nothing_is_a_part_of_a_stream():
    nothing = Forecast.of([0, 1], [0.2, 0.7], weights=[0.0, 0.0])
    something = Forecast.of([0, 1], [0.2, 0.7])
    chosen = metric("log_loss")
    merged = chosen.merge(chosen.summarize(nothing), chosen.summarize(something))
    assert chosen.value(merged).number == chosen.of(something).number
    with pytest.raises(InvalidInput, match="weights"):
        Forecast.of([0, 1], [0.2, 0.7], weights=[-1.0, -1.0])
