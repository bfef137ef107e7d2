"""Any ranker with a calibrator is a scikit-learn classifier, whatever library trained it."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

import monocal
from monocal.core.errors import InvalidInput
from monocal.core.scores import logit, sigmoid
from monocal.models.rankers import ranker_scores
from monocal.models.wrap import Calibrated


@pytest.fixture(scope="module")
def rows():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    n = 6_000
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "site": rng.choice(["news", "games"], n)})
    truth = sigmoid((frame["a"] + 0.5 * frame["b"] - 2.0 + 1.5 * (frame["site"] == "games")).to_numpy())
    return frame, (rng.random(n) < truth).astype(int), truth


FEW = {
    "lightgbm": {"n_estimators": 20, "num_leaves": 7, "n_jobs": 1, "verbose": -1},
    "xgboost": {"n_estimators": 20, "max_depth": 3, "n_jobs": 1},
}


def _untrained(module, kind):
    return getattr(pytest.importorskip(module), kind)(**FEW[module])


def _lightgbm_booster(X, y):
    lightgbm = pytest.importorskip("lightgbm")
    return lightgbm.train({"objective": "binary", "num_threads": 1, "verbose": -1}, lightgbm.Dataset(X, y), 20)


def _xgboost_booster(X, y):
    xgboost = pytest.importorskip("xgboost")
    return xgboost.train({"objective": "binary:logistic", "nthread": 1, "max_depth": 3}, xgboost.DMatrix(X, y), 20)


class _CatBoost:
    """Answers like CatBoostClassifier, whose wheel is a hundred megabytes."""

    feature_names_ = ["a", "b"]  # noqa: RUF012

    def predict(self, X, prediction_type="Class"):
        assert list(X.columns) == self.feature_names_
        z = 2.0 * (X["a"] + 0.5 * X["b"]).to_numpy()
        return z if prediction_type == "RawFormulaVal" else sigmoid(z)


class _CatBoostRanker(_CatBoost):
    """Its answer is the raw sum, and it takes no word about that (version 1.2.10)."""

    def predict(self, X):
        return super().predict(X, "RawFormulaVal")


_CatBoost.__module__ = _CatBoostRanker.__module__ = "catboost.core"

TRAINERS = {
    "LightGBM Booster": _lightgbm_booster,
    "LGBMClassifier": lambda X, y: _untrained("lightgbm", "LGBMClassifier").fit(X, y),
    "LGBMRanker": lambda X, y: _untrained("lightgbm", "LGBMRanker").fit(X, y, group=[20] * (len(y) // 20)),
    "XGBoost Booster": _xgboost_booster,
    "XGBClassifier": lambda X, y: _untrained("xgboost", "XGBClassifier").fit(X, y),
    "XGBRanker": lambda X, y: _untrained("xgboost", "XGBRanker").fit(X, y, qid=np.arange(len(y)) // 20),
    "CatBoostClassifier": lambda _X, _y: _CatBoost(),
    "CatBoostRanker": lambda _X, _y: _CatBoostRanker(),
    "LinearSVC": lambda X, y: LinearSVC().fit(X, y),
    "GaussianNB": lambda X, y: GaussianNB().fit(X, y),
}


@pytest.mark.parametrize("name", TRAINERS)
def test_a_wrapped_ranker_knows_how_often_and_where(name, rows):
    """The ranker never saw the site; the calibrator learns its effect, from a frame with a column of text."""
    frame, y, truth = rows
    ranker = TRAINERS[name](frame[["a", "b"]][:2_000], y[:2_000])
    calibrated = monocal.wrap(ranker, method="wide_logistic", fields=["site"]).fit(frame[2_000:], y[2_000:])
    p = calibrated.predict_proba(frame[2_000:])
    assert p.shape == (4_000, 2)
    assert p[:, 1].mean() == pytest.approx(y[2_000:].mean(), rel=1e-3)
    for site in ("news", "games"):
        here = (frame["site"] == site)[2_000:].to_numpy()
        assert p[here, 1].mean() == pytest.approx(y[2_000:][here].mean(), rel=0.02)
    assert np.abs(p[:, 1] - truth[2_000:]).mean() < 0.09


def test_trees_are_asked_for_raw_sums(rows):
    frame, y, _ = rows
    X = frame[["a", "b"]]
    ranker = TRAINERS["LGBMClassifier"](X[:2_000], y[:2_000])
    scores, space = ranker_scores(ranker, X)
    assert space == "logit"
    assert scores == pytest.approx(logit(ranker.predict_proba(X)[:, 1]), abs=1e-6)
    assert ranker_scores(ranker, X, "predict_proba")[1] == "probability"


def test_every_fold_is_scored_by_a_ranker_that_has_not_seen_it(rows):
    """A ranker that remembers its rows: calibrated on them it would be sure, cross-fitted it is not."""
    from sklearn.neighbors import KNeighborsClassifier

    frame, y, _ = rows
    X = frame[["a", "b"]].to_numpy()[:1_000]
    nearest = KNeighborsClassifier(1)
    crossed = Calibrated(nearest, method="platt", cv=4).fit(X, y[:1_000]).predict_proba(X)[:, 1]
    assert crossed.max() < 0.9
    assert crossed.mean() > 0.1
    whole = Calibrated(nearest.fit(X, y[:1_000]), method=monocal.calibrator("platt", l2=1e-3), cv="prefit")
    assert whole.fit(X, y[:1_000]).predict_proba(X)[:, 1].max() > 0.98


def test_labels_may_be_words_and_columns_places(rows):
    frame, y, _ = rows
    X = np.column_stack([frame["a"], (frame["site"] == "games").astype(float)])
    words = np.where(y == 1, "yes", "no")
    found = Calibrated(LogisticRegression(), method="wide_logistic", fields=[1], cv=3).fit(X, words)
    assert found.classes_.tolist() == ["no", "yes"]
    assert set(found.predict(X)) == {"no", "yes"}
    assert found.model_.field_names == ("column 1",)


def test_a_field_that_the_frame_does_not_have_is_refused_before_training(rows):
    class Untrained(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            raise AssertionError("trained before the columns were looked at")

    frame, y, _ = rows
    with pytest.raises(InvalidInput, match="fields: got 'sit'; expected one of a, b, site. Hint: did you mean 'site'"):
        Calibrated(Untrained(), method="wide_logistic", fields=["sit"]).fit(frame, y)


def test_what_cannot_be_wrapped_is_refused(rows):
    with pytest.raises(InvalidInput, match="estimator: got a str; expected a ranker with decision_function"):
        monocal.wrap("ranker", method="platt").fit(rows[0], rows[1])
    frame, y, _ = rows
    X = frame[["a", "b"]].to_numpy()
    with pytest.raises(InvalidInput, match="score_from"):
        monocal.wrap(Ridge().fit(X, y), method="platt", score_from="decision_function").fit(X, y)
    with pytest.raises(InvalidInput, match="LightGBM, XGBoost or CatBoost"):
        monocal.wrap(Ridge().fit(X, y), method="platt", score_from="raw").fit(X, y)
    with pytest.raises(InvalidInput, match="Only binary classification"):
        Calibrated(LogisticRegression(), method="platt").fit(X, np.arange(len(y)) % 3)
    with pytest.raises(InvalidInput, match="pass a data frame"):
        Calibrated(LogisticRegression(), method="platt", fields=["site"]).fit(X, y)
    with pytest.raises(InvalidInput, match="'prefit', a number of folds"):
        Calibrated(LogisticRegression(), cv="fit").fit(X, y)


@pytest.mark.parametrize(("module", "name"), [("lightgbm", "LGBMRanker"), ("xgboost", "XGBRanker")])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_ranker_of_lists_is_cross_fitted_in_whole_lists(module, name, weighted, rows):
    """Rows of a list lie apart, as in a log in time order."""
    frame, y, truth = rows
    X, lists = frame[["a", "b"]], np.random.default_rng(1).permutation(np.arange(len(y)) // 20)
    weights = np.random.default_rng(2).integers(1, 3, len(y)) if weighted else None
    calibrated = Calibrated(_untrained(module, name), method="platt", cv=3).fit(X, y, weights, groups=lists)
    p = calibrated.predict_proba(X)[:, 1]
    assert np.average(p, weights=weights) == pytest.approx(np.average(y, weights=weights), rel=0.1)
    assert np.corrcoef(p, truth)[0, 1] > 0.6
    with pytest.raises(InvalidInput, match=f"groups: got None.*{name}"):
        Calibrated(_untrained(module, name), method="platt", cv=3).fit(X, y)


class _Remembers(GaussianNB):
    """Keeps the lists it was trained on."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None):
        self.seen.append(set(np.asarray(X)[:, -1].tolist()))
        return super().fit(X, y, sample_weight)


def test_no_list_is_in_two_folds():
    rng = np.random.default_rng(3)
    lists = rng.integers(0, 40, 600)
    X = np.column_stack([rng.normal(size=600), lists])
    y = (rng.random(600) < sigmoid(X[:, 0])).astype(int)
    _Remembers.seen.clear()
    Calibrated(_Remembers(), method="platt", cv=4).fit(X, y, groups=lists)
    *folds, whole = _Remembers.seen
    held_out = [whole - fold for fold in folds]
    assert sum(map(len, held_out)) == len(whole) == 40
    assert set().union(*held_out) == whole


def test_a_ranker_that_is_not_fitted_is_refused_with_both_ways_out():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError, match=r"estimator: got LogisticRegression that is not fitted yet.*cv=5"):
        monocal.wrap(LogisticRegression()).fit(np.zeros((4, 1)), [0, 1, 0, 1])
