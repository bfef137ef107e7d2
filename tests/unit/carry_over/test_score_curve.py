"""The curve along which a score may enter: that it rises, when it is taken, and that every path knows it."""

import numpy as np
import pytest

from monocal.calibrators import calibrator
from monocal.calibrators.curve import FLATTEST, BaseCurve, fit_curve
from monocal.core.dataset import Dataset
from monocal.core.scores import sigmoid

QUICK = {"size": "small", "n_threads": 1, "show_progress": False}
CARRIED = {"l2": "auto", "carry": "auto", "recent_share": 0.2}


def rows(n, truth, seed=0):
    """Scores, labels of a truth that may change with time, one field of little effect, and days."""
    random = np.random.default_rng(seed)
    z, site = random.normal(-1.0, 1.5, n), random.integers(1, 20, n)
    labels = random.random(n) < sigmoid(truth(z, np.arange(n) / n) + 0.02 * site)
    return z, labels.astype(np.float64), site[:, None].astype(np.int32)


def bent(z, _when):
    return np.where(z > -1.0, 1.6 * z + 0.6, 0.5 * z - 0.5)


def passing(z, when):
    return np.where(when < 0.5, bent(z, when), z)


def fitted(truth=bent, n=30_000, method="wide_logistic", **arguments):
    z, labels, features = rows(n, truth)
    one = calibrator(method, **(CARRIED if method == "wide_logistic" else QUICK), **arguments)
    return one.fit(z, labels, features=features, scores_are="logit")


@pytest.fixture(scope="module")
def wide():
    return fitted()


def neighbours_of_knots(curve):
    """Thousands of neighbouring numbers on both sides of every knot, and a sweep far beyond them."""
    close = []
    for knot in curve.knots:
        below = above = knot
        for _ in range(300):
            below, above = np.nextafter(below, -np.inf), np.nextafter(above, np.inf)
            close += [below, above]
    return np.unique(np.concatenate([close, curve.knots, np.linspace(-60.0, 60.0, 20_001)]))


def test_a_bend_that_lasts_lasts_and_predicts_better(wide):
    assert wide.base_["share"][0] > 0.8
    z, labels, features = rows(50_000, bent, seed=1)

    def loss(one):
        p = one.predict(z, features=features)
        return -np.mean(labels * np.log(p) + (1 - labels) * np.log1p(-p))

    assert loss(wide) < loss(fitted(base="slope")) - 0.002


def test_a_bend_that_passes_is_not():
    assert not hasattr(fitted(passing), "base_")


def test_a_straight_truth_stays_straight():
    assert not hasattr(fitted(lambda z, _: 0.8 * z - 0.3), "base_")


def test_few_rows_stay_straight_unless_asked_otherwise():
    assert not hasattr(fitted(n=9_000), "base_")
    assert fitted(n=9_000, base="curve").base_["share"][0] == 1.0


def test_predictions_never_fall_to_the_last_bit(wide):
    z = neighbours_of_knots(wide.base_curve)
    for site in (0, 3, 19):
        p = wide.predict(z, features=np.full((z.size, 1), site))
        assert np.all(np.diff(p) >= 0.0)
    inside = np.linspace(-12.0, 8.0, 2_001)
    assert np.all(np.diff(wide.predict(inside, features=np.full((inside.size, 1), 3))) > 0.0)


@pytest.mark.parametrize("seed", range(20))
def test_any_rising_values_make_a_line_that_never_falls(seed):
    random = np.random.default_rng(seed)
    knots, values = (np.sort(random.normal(size=12) * 10.0 ** random.integers(-3, 3)) for _ in range(2))
    curve = BaseCurve(knots, values)
    assert np.all(np.diff(curve(neighbours_of_knots(curve))) >= 0.0)


def test_no_piece_is_flat_where_the_truth_falls():
    z, labels, _ = rows(40_000, lambda z, _: np.minimum(z, -1.0 - 0.7 * (z + 1.0)))
    found = fit_curve(Dataset(z, labels), np.zeros(z.size), np.quantile(z, np.linspace(0.01, 0.99, 12)))
    assert found is None or found.curve.slopes.min() >= FLATTEST * found.slope * (1.0 - 1e-9)
    z, labels, _ = rows(40_000, lambda z, _: 2.0 * np.minimum(z, -1.0))
    found = fit_curve(Dataset(z, labels), np.zeros(z.size), np.quantile(z, np.linspace(0.01, 0.99, 12)))
    assert found.curve.slopes.min() == pytest.approx(FLATTEST * found.slope)


def test_a_request_gets_the_same_bits(wide):
    z, _, features = rows(500, bent, seed=2)
    np.testing.assert_array_equal(wide.row_scorer()(z, features), wide.predict(z, features=features))


def test_the_artefact_keeps_the_curve_and_old_ones_have_none(wide):
    z, _, features = rows(500, bent, seed=2)
    kept = wide.state()
    again = wide.cloned().restore(kept)
    np.testing.assert_array_equal(again.predict(z, features=features), wide.predict(z, features=features))
    old = calibrator("wide_logistic", **CARRIED).restore(fitted(base="slope", n=5_000).state())
    assert old.base_curve is None


def test_a_refresh_keeps_the_curve_while_the_rest_moves(wide):
    z, labels, features = rows(5_000, lambda z, when: bent(z, when) + 0.5, seed=3)
    following = wide.refresh(z, labels, features=features)
    np.testing.assert_array_equal(following.base_["values"], wide.base_["values"])
    assert following.predict(z, features=features).mean() > wide.predict(z, features=features).mean()


@pytest.mark.parametrize("carry", ["none", {0: 0.5}])
def test_a_curve_can_be_asked_for_without_judging(carry):
    z, labels, features = rows(20_000, bent)
    one = calibrator("wide_logistic", base="curve", carry=carry).fit(z, labels, features=features, scores_are="logit")
    assert one.predict(z, features=features).mean() == pytest.approx(labels.mean(), abs=1e-6)
    slopes = one.base_curve.slopes
    assert slopes[-3:].mean() > 2.0 * slopes[:3].mean()


def test_a_network_that_is_kept_bends_by_itself():
    one = fitted(method="umc")
    assert one.carry_["network"][0] > 0.0
    assert not hasattr(one, "base_")


def test_a_network_starts_from_a_curve_if_asked_so():
    pytest.importorskip("torch")
    one = fitted(method="umc", n=12_000, base="curve")
    z = neighbours_of_knots(one.base_curve)
    p = one.predict(z, features=np.full((z.size, 1), 3))
    assert np.all(np.diff(p) >= 0.0)
    few, _, features = rows(300, bent, seed=4)
    np.testing.assert_array_equal(one.row_scorer()(few, features), one.predict(few, features=features))


def test_where_the_network_is_left_out_the_curve_stands_in(monkeypatch):
    monkeypatch.setattr("monocal.neural.base.SMALLEST_NETWORK_SHARE", 2.0)
    one = fitted(method="umc", n=20_000)
    assert one.carry_["network"][0] == 0.0
    assert one.base_["share"][0] > 0.5
