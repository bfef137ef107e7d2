"""MLPlatt against Platt scaling, against a general minimiser, and its promise about lists."""

import numpy as np
import pytest
from scipy.optimize import minimize

from monocal.calibrators import calibrator
from monocal.core.errors import InvalidInput
from monocal.core.scores import sigmoid


@pytest.fixture(scope="module")
def lists():
    """600 lists of ten items; slope and level depend on the page of the list, clicks also on the item's kind."""
    random = np.random.default_rng(11)
    page = np.repeat(random.integers(1, 4, 600), 10)
    kind = random.integers(1, 5, 6000)
    z = random.normal(-1.0, 1.5, 6000)
    truth = sigmoid(np.array([0.0, 0.4, 1.0, 1.6])[page] * z + np.array([0.0, -0.5, 0.2, 0.6])[page] + 0.3 * (kind > 2))
    labels = (random.random(6000) < truth).astype(float)
    return z, labels, np.column_stack([page, kind]), np.repeat(np.arange(600), 10)


def test_without_a_penalty_every_page_has_its_own_platt_scaling(lists):
    z, labels, features, _ = lists
    one = calibrator("mlplatt", l2=0.0, query_side_fields=(0,))
    one.fit(z, labels, features=features, scores_are="logit")
    for page in (1, 2, 3):
        here = features[:, 0] == page
        own = calibrator("platt").fit(z[here], labels[here], scores_are="logit")
        found = one.predict(z[here], features=features[here])
        np.testing.assert_allclose(found, own.predict(z[here]), atol=1e-5)


def test_without_fields_it_is_platt_scaling(t10):
    expected = [0.1220269223, 0.3323412063, 0.7603258748]
    found = calibrator("mlplatt").fit(t10.s, t10.y).predict([0.05, 0.3, 0.9])
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_penalised_optimum_is_that_of_a_general_minimiser(t10):
    group = t10.g + 1
    z = np.log(t10.s / (1 - t10.s))
    centred = z - z.mean()

    def loss(theta):
        a0, b0, a1, a2, b1, b2 = theta
        slopes = np.exp(a0 + np.where(group == 1, a1, a2))
        logits = slopes * centred + b0 + np.where(group == 1, b1, b2)
        return np.sum(np.logaddexp(0.0, logits) - t10.y * logits) + 0.5 * 0.7 * (a1**2 + a2**2 + b1**2 + b2**2)

    best = minimize(loss, np.zeros(6), method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-14, "maxfev": 40_000})
    one = calibrator("mlplatt", l2=0.7).fit(t10.s, t10.y, features=group)
    found = np.concatenate([[np.log(one.slope_), one.intercept_], np.log(one.factors_[1:]), one.shifts_[1:]])
    np.testing.assert_allclose(found, best.x, atol=1e-4)


def test_order_inside_every_list_is_the_ranker_s(lists):
    z, labels, features, lists_of_rows = lists
    one = calibrator("mlplatt", query_side_fields=(0,))
    p = one.fit(z, labels, features=features, scores_are="logit").predict(z, features=features)
    for rows in np.split(np.arange(6000), np.flatnonzero(np.diff(lists_of_rows)) + 1):
        np.testing.assert_array_equal(np.argsort(p[rows]), np.argsort(z[rows]))
    other_items = np.column_stack([features[:, 0], np.roll(features[:, 1], 1)])
    np.testing.assert_array_equal(p, one.predict(z, features=other_items))
    # with the item's field as context the promise is not given, and indeed broken: the test can fail
    free = calibrator("mlplatt", l2=0.0).fit(z, labels, features=features, scores_are="logit")
    q = free.predict(z, features=features).reshape(600, 10)
    assert (np.argsort(q) != np.argsort(z.reshape(600, 10))).any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query_side_fields": (2,)}, r"query_side_fields: got \[2\]"),
        ({"query_side_fields": (0, 0)}, r"query_side_fields: got \[0, 0\]"),
    ],
)
def test_wrong_arguments_are_explained(lists, arguments, message):
    z, labels, features, _ = lists
    with pytest.raises(InvalidInput, match=message):
        calibrator("mlplatt", **arguments).fit(z, labels, features=features, scores_are="logit")
