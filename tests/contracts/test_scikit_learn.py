"""`Calibrated`, `wrap` and `as_classifier` are classifiers by scikit-learn's own checks and in its own tools."""

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import check_array
from sklearn.utils.estimator_checks import check_estimator

import monocal
from monocal.calibrators import as_classifier, calibrator
from monocal.core.errors import InvalidInput
from monocal.core.scores import sigmoid
from monocal.models.rankers import own_columns

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "scikit_learn.md"


class Sums(BaseEstimator):
    """A ranker that was trained before: it takes any rows and learns from none."""

    def fit(self, X, y=None):
        return self  # one check chooses folds of its own

    def decision_function(self, X):
        return check_array(X).sum(axis=1)

    def __sklearn_is_fitted__(self):
        return True


ESTIMATORS = {
    "Calibrated(LogisticRegression())": monocal.Calibrated(LogisticRegression(), method="platt", cv=3),
    "wrap(ranker)": monocal.wrap(Sums(), method="platt"),
    "as_classifier(calibrator)": as_classifier(calibrator("platt"), scores_are="logit"),
}
EXPECTED_FAILED_CHECKS = {
    "wrap(ranker)": {"check_classifiers_train": "the ranker was trained on other rows and knows nothing of these"}
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_scikit_learns_own_checks(name):
    """The list of expected failures is exact: a check that begins to pass must be taken off it."""
    expected = EXPECTED_FAILED_CHECKS.get(name, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks' rows are few and often separable
        results = check_estimator(ESTIMATORS[name], expected_failed_checks=expected, on_fail=None, on_skip=None)
    failed = {one["check_name"]: str(one["exception"])[:300] for one in results if one["status"] == "failed"}
    assert failed == {}
    assert {one["check_name"] for one in results if one["status"] == "xfail"} == set(expected)
    assert sum(one["status"] == "passed" for one in results) > 50


def test_the_guide_shows_every_expected_failure():
    rows = re.findall(r"^\| `(.*?)` \| `(.*?)` \| (.*?) \|$", PAGE.read_text(), re.M)
    assert rows == [
        (name, check, why) for name, found in EXPECTED_FAILED_CHECKS.items() for check, why in found.items()
    ]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    n = 3_000
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "site": rng.choice(["news", "games"], n)})
    truth = sigmoid((frame["a"] + 0.5 * frame["b"] - 1.0 + 1.5 * (frame["site"] == "games")).to_numpy())
    return frame, (rng.random(n) < truth).astype(int)


def test_what_follows_from_probabilities_agrees_with_them(rows):
    frame, y = rows
    found = monocal.Calibrated(GaussianNB(), method="isotonic", cv=3).fit(frame[["a", "b"]], y)
    p, z = found.predict_proba(frame[["a", "b"]]), found.decision_function(frame[["a", "b"]])
    with np.errstate(divide="ignore"):
        assert np.array_equal(found.predict_log_proba(frame[["a", "b"]]), np.log(p))
    assert np.isfinite(z).all()
    assert sigmoid(z) == pytest.approx(p[:, 1], abs=1e-12)
    assert np.array_equal(z > 0, found.predict(frame[["a", "b"]]) == 1)


def test_a_ranker_that_is_trained_stays_so_in_cross_validation(rows):
    frame, y = rows
    X = frame[["a", "b"]]
    ranker = LogisticRegression(C=1e-4).fit(X[:1_000], y[:1_000])
    before = ranker.coef_.copy()
    losses = -cross_val_score(
        monocal.wrap(ranker, method="platt"), X[1_000:], y[1_000:], scoring="neg_log_loss", error_score="raise"
    )
    assert losses.max() < -cross_val_score(ranker, X[1_000:], y[1_000:], scoring="neg_log_loss").max()
    assert np.array_equal(ranker.coef_, before)
    assert clone(monocal.wrap(ranker)).estimator is ranker
    assert clone(monocal.Calibrated(ranker)).estimator is not ranker


def test_a_search_reaches_arguments_of_the_method_and_of_the_ranker(rows):
    frame, y = rows
    given = monocal.Calibrated(LogisticRegression(), method=calibrator("histogram", n_bins=2), cv=3)
    grid = {"method__n_bins": [2, 10], "estimator__C": [1.0]}
    search = GridSearchCV(given, grid, scoring="neg_log_loss", cv=3).fit(frame[["a", "b"]], y)
    assert search.best_params_["method__n_bins"] == 10
    assert search.best_estimator_.model_.task().calibrator.n_bins == 10
    assert given.method.n_bins == 2


# Fields of text


@pytest.mark.parametrize("dtype", ["object", "category"])
def test_text_fields_do_not_reach_a_ranker_that_cannot_read_them(rows, dtype):
    frame, y = rows
    X = frame.astype({"site": dtype})
    found = monocal.Calibrated(LogisticRegression(), method="wide_logistic", fields=["site"], cv=3).fit(X, y)
    assert found.estimator_.feature_names_in_.tolist() == ["a", "b"]
    p = found.predict_proba(X)[:, 1]
    for site in ("news", "games"):
        here = (frame["site"] == site).to_numpy()
        assert p[here].mean() == pytest.approx(y[here].mean(), rel=0.05)


def test_text_in_an_array_stays_away_from_the_ranker_too(rows):
    frame, y = rows
    by_name = monocal.Calibrated(GaussianNB(), method="wide_logistic", fields=["site"], cv=3).fit(frame, y)
    X = frame.to_numpy(dtype=object)
    by_place = monocal.Calibrated(GaussianNB(), method="wide_logistic", fields=[2], cv=3).fit(X, y)
    assert np.array_equal(by_place.predict_proba(X), by_name.predict_proba(frame))


def test_a_ranker_that_asks_for_text_gets_it(rows):
    frame, y = rows
    encoding = make_column_transformer((OneHotEncoder(), ["site"]), remainder=StandardScaler())
    found = monocal.Calibrated(make_pipeline(encoding, LogisticRegression()), method="platt", fields=["site"], cv=3)
    assert "site" in found.fit(frame, y).estimator_.feature_names_in_
    lightgbm = pytest.importorskip("lightgbm")
    trees = lightgbm.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1)
    typed = frame.astype({"site": "category"})
    assert own_columns(trees, typed, ["site"]) is typed
    assert own_columns(trees, frame, ["site"]).columns.tolist() == ["a", "b"]
    # numbers are columns like any other
    assert own_columns(LogisticRegression(), frame, ["a"]) is frame


# Weights


class _Weighed(GaussianNB):
    """Keeps the weights it was trained with."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None):
        self.seen.append(sample_weight)
        return super().fit(X, y, sample_weight)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        _Weighed.seen.clear()
        yield


@pytest.mark.usefixtures("routing")
def test_weights_are_routed_as_the_ranker_asks(rows):
    frame, y = rows
    X, weights = frame[["a", "b"]], np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        monocal.Calibrated(_Weighed(), method="platt", cv=3).fit(X, y, weights)
    answers = {}
    for wanted in (True, False):
        found = monocal.Calibrated(_Weighed().set_fit_request(sample_weight=wanted), method="platt", cv=3)
        answers[wanted] = found.fit(X, y, weights).predict_proba(X)[:, 1]
        assert [given is not None for given in _Weighed.seen] == [wanted] * 4
        _Weighed.seen.clear()
        # the calibrator counts them in any case
        assert np.average(answers[wanted], weights=weights) == pytest.approx(np.average(y, weights=weights), rel=0.02)
    assert np.any(answers[True] != answers[False])


@pytest.mark.usefixtures("routing")
def test_weights_reach_a_calibrated_ranker_inside_a_pipeline(rows):
    frame, y = rows
    X, weights = frame[["a", "b"]], np.arange(len(y)) % 2 + 0.5
    inner = monocal.Calibrated(_Weighed().set_fit_request(sample_weight=True), method="platt", cv=3)
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    make_pipeline(scaler, inner.set_fit_request(sample_weight=True)).fit(X, y, sample_weight=weights)
    assert np.array_equal(_Weighed.seen[-1], weights)
    scores = cross_val_score(
        monocal.wrap(LogisticRegression().fit(X, y), method="platt")
        .set_fit_request(sample_weight=True)
        .set_score_request(sample_weight=False),
        X,
        y,
        params={"sample_weight": weights},
        error_score="raise",
    )
    assert scores.min() > 0.6


def test_without_routing_weights_go_where_they_are_taken(rows):
    frame, y = rows
    X, weights = frame[["a", "b"]], np.arange(len(y)) % 2 + 0.5
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes none"):
        monocal.Calibrated(KNeighborsClassifier(), method="platt", cv=3).fit(X, y, weights)
    with pytest.raises(ValueError, match="metadata_routing"):
        monocal.Calibrated(GaussianNB(), method="platt", cv=3).fit(X, y, prior=weights)


# Scores of one's own


def test_scores_and_fields_as_columns():
    log = monocal.simulate_log(2_000, seed=0)
    X = np.column_stack([log.scores, log.features])
    found = as_classifier(calibrator("wide_logistic")).fit(X, np.where(log.labels == 1, "click", "none"))
    assert found.classes_.tolist() == ["click", "none"]
    plain = calibrator("wide_logistic").fit(log.scores, 1 - log.labels, features=log.features)
    assert np.array_equal(found.predict_proba(X)[:, 1], plain.predict(log.scores, features=log.features))
    with pytest.raises(InvalidInput, match=r"X: got 0\.5 at row 0, column 2; expected the score first, then ids"):
        as_classifier(calibrator("wide_logistic")).fit(np.column_stack([X[:, :2], X[:, :1] * 0 + 0.5]), log.labels)


def test_a_frame_of_scores_and_text_is_enough(rows):
    frame, y = rows
    X = pd.DataFrame({"score": sigmoid(frame["a"]), "site": frame["site"]})
    p = as_classifier(calibrator("wide_logistic")).fit(X, y).predict_proba(X)[:, 1]
    for site in ("news", "games"):
        here = (frame["site"] == site).to_numpy()
        assert p[here].mean() == pytest.approx(y[here].mean(), rel=0.05)
