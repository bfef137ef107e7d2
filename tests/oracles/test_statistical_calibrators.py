"""Every number here was computed outside this package, on the ten rows of the fixture `t10`."""

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from monocal.calibrators import calibrator

AT = [0.05, 0.3, 0.9]


def fitted(t10, method, labels=None, **arguments):
    return calibrator(method, **arguments).fit(t10.s, t10.y if labels is None else labels)


@pytest.mark.parametrize(
    ("method", "arguments", "expected"),
    [
        ("platt", {}, [0.1220269223, 0.3323412063, 0.7603258748]),
        ("platt", {"l2": 1.0}, [0.1625013534, 0.3476718832, 0.6979645008]),
        ("temperature", {}, [0.1312165914, 0.3672713567, 0.8038533921]),
        ("beta", {}, [0.1146095252, 0.3359822075, 0.7509403278]),
        ("gauss", {}, [0.1110921093, 0.3374614894, 0.7476711109]),
        ("gamma", {}, [0.0969609820, 0.3444186492, 0.7334933886]),
    ],
)
def test_predictions_of_parametric_methods(t10, method, arguments, expected):
    np.testing.assert_allclose(fitted(t10, method, **arguments).predict(AT), expected, atol=1e-6)


def test_platt_parameters(t10):
    mle = fitted(t10, "platt")
    assert (mle.slope_, mle.intercept_) == pytest.approx((0.6083325242, -0.1821762381), abs=1e-6)
    penalised = fitted(t10, "platt", l2=1.0)
    assert (penalised.slope_, penalised.intercept_) == pytest.approx((0.4818201299, -0.2210433459), abs=1e-6)
    reversed_order = fitted(t10, "platt", labels=1 - t10.y)
    assert (reversed_order.slope_, reversed_order.intercept_) == pytest.approx((0.0, 0.4054651081), abs=1e-6)


def test_temperature_parameter(t10):
    assert fitted(t10, "temperature").temperature_ == pytest.approx(1.5577026890, abs=1e-6)


def test_beta_parameters(t10):
    beta = fitted(t10, "beta")
    assert (beta.a_, beta.b_, beta.c_) == pytest.approx((0.6688714452, 0.5396210241, -0.0684170091), abs=1e-6)


def test_gauss_parameters(t10):
    free = fitted(t10, "gauss")
    assert (free.a_, free.b_, free.c_) == pytest.approx((-0.0178140692, 0.6024165983, -0.1514120285), abs=1e-6)
    penalised = fitted(t10, "gauss", l2=1.0)
    assert (penalised.a_, penalised.b_, penalised.c_) == pytest.approx(
        (-0.0183603269, 0.4773684982, -0.1860863574), abs=1e-6
    )
    active = fitted(t10, "gauss", labels=np.array([1, 1, 0, 0, 0, 0, 1, 0, 1, 1]))
    assert (active.a_, active.b_, active.c_) == pytest.approx((0.0086573437, 0.2250909366, 0.0862481142), abs=1e-6)


def test_gamma_parameters(t10):
    gamma = fitted(t10, "gamma")
    assert (gamma.a_, gamma.b_, gamma.c_) == pytest.approx((12.6171464, -0.3825300505, -27.50686427), abs=1e-5)


def test_histogram_rates(t10):
    ours = fitted(t10, "histogram")
    assert ours.predict([0.0]) == 0.0
    np.testing.assert_allclose(ours.rates_, [0, 0.5, 0, 0, 0.5, 0.75, 1, 0, 0.5, 1])


def test_isotonic_knots(t10):
    isotonic = fitted(t10, "isotonic")
    np.testing.assert_allclose(isotonic.knots_, [0.05, 0.12, 0.18, 0.33, 0.41, 0.77, 0.91])
    np.testing.assert_allclose(isotonic.rates_, [0, 0, 1 / 3, 1 / 3, 0.5, 0.5, 1])
    scores = [0.0, 0.10, 0.15, 0.30, 0.50, 0.65, 0.95]
    np.testing.assert_allclose(isotonic.predict(scores), [0, 0, 1 / 6, 1 / 3, 0.5, 0.5, 1], atol=1e-9)


def test_isotonic_agrees_with_scikit_learn():
    random = np.random.default_rng(3)
    scores, weights = random.random(500).round(2), random.random(500)
    labels = random.random(500) < scores**2
    reference = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(scores, labels, sample_weight=weights)
    ours = calibrator("isotonic").fit(scores, labels, weights=weights)
    grid = np.linspace(0, 1, 333)
    np.testing.assert_allclose(ours.predict(grid), reference.predict(grid), atol=1e-6)


def test_sir_knots_and_predictions(t10):
    ours = fitted(t10, "sir", n_bins=5)
    np.testing.assert_allclose(ours.knots_, [0, 0.185, 0.445, 0.695, 0.91, 1])
    np.testing.assert_allclose(ours.rates_, [0, 0.2, 0.5, 0.5, 1, 1])
    np.testing.assert_allclose(
        ours.predict([0.05, 0.10, 0.15, 0.30, 0.50, 0.65, 0.95, 0.0]),
        [0.0540540541, 0.1081081081, 0.1621621622, 0.3326923077, 0.5, 0.5, 1, 0],
        atol=1e-6,
    )


def test_sir_pools_until_rates_increase():
    scores = np.repeat([0.1, 0.3, 0.5, 0.7], 10)
    labels = np.concatenate([np.arange(10) < 10 * rate for rate in (0.2, 0.6, 0.5, 0.1)])
    ours = calibrator("sir", n_bins=5).fit(scores, labels)
    np.testing.assert_allclose(ours.knots_[1:-1], [0.1, 0.5])
    np.testing.assert_allclose(ours.rates_[1:-1], [0.2, 0.4])
    again = np.concatenate([np.arange(10) < 10 * rate for rate in (0.4, 0.6, 0.1)])
    twice = calibrator("sir", n_bins=5).fit(scores[:30], again)
    np.testing.assert_allclose(twice.rates_[1:-1], [0.3666666667])


def test_wide_logistic_agrees_with_scikit_learn():
    random = np.random.default_rng(0)
    n, sizes = 4000, (5, 12)
    features = np.column_stack([random.integers(1, size + 1, n) for size in sizes])
    logits = random.normal(-1, 1, n)
    effect = random.normal(0, 0.7, 20)
    labels = random.random(n) < 1 / (1 + np.exp(-(1.3 * logits + effect[features[:, 0]] + effect[features[:, 1]])))
    ours = calibrator("wide_logistic", l2=2.0, tolerance=1e-14, max_iterations=2000)
    ours.fit(logits, labels, features=features, scores_are="logit")
    one_hot = np.column_stack([features[:, [f]] == np.arange(1, size + 1) for f, size in enumerate(sizes)]).astype(
        float
    )
    # a huge scale frees the score column from the penalty, as ours is
    design = np.column_stack([one_hot, logits * 1e3])
    reference = LogisticRegression(C=0.5, solver="newton-cholesky", tol=1e-12).fit(design, labels)
    np.testing.assert_allclose(
        ours.predict(logits, features=features), reference.predict_proba(design)[:, 1], atol=1e-6
    )


@pytest.mark.parametrize(
    ("method", "columns", "intercept"),
    [
        ("platt", lambda p: [np.log(p / (1 - p))], True),
        ("temperature", lambda p: [np.log(p / (1 - p))], False),
        ("beta", lambda p: [np.log(p), -np.log1p(-p)], True),
    ],
)
def test_parametric_methods_agree_with_a_logistic_regression_of_scikit_learn(method, columns, intercept):
    """Platt, temperature and beta calibration are logistic regressions on other columns of the same score."""
    random = np.random.default_rng(5)
    p = random.beta(1.5, 5.0, 4000).clip(1e-3, 1 - 1e-3)
    labels = (random.random(4000) < p**1.3).astype(int)
    inputs = np.column_stack(columns(p))
    other = LogisticRegression(C=np.inf, fit_intercept=intercept, tol=1e-10, max_iter=1000).fit(inputs, labels)
    found = calibrator(method).fit(p, labels).predict(p)
    np.testing.assert_allclose(found, other.predict_proba(inputs)[:, 1], atol=2e-6)
