"""The array interface takes raw values: data frames, lists of columns, arrays of text."""

import numpy as np
import pyarrow as pa
import pytest

import monocal
from monocal.core.errors import InvalidInput


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(0)
    site, hour = rng.choice(["news", "games", "shop"], 2_000), rng.integers(0, 4, 2_000)
    scores = rng.uniform(0.05, 0.6, 2_000)
    labels = rng.random(2_000) < np.where(site == "games", 0.3, 1.0) * scores
    return scores, labels, site, hour


def _ids(column):
    return np.unique(column.astype(str), return_inverse=True)[1] + 1


def _kinds(site, hour):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"site": site, "hour": hour}
    return {
        "pandas": pd.DataFrame(columns),
        "categorical": pd.DataFrame(columns).astype({"site": "category"}),
        "polars": pl.DataFrame(columns),
        "arrow": pa.table(columns),
        "mapping": columns,
        "columns": [site.tolist(), hour.tolist()],
        "text": np.column_stack([site, hour.astype(str)]),
        "objects": np.column_stack([site.astype(object), hour.astype(str).astype(object)]),
    }


@pytest.mark.parametrize("method", ["wide_logistic", "umc"])
def test_raw_values_give_the_bits_of_ids(log, method):
    scores, labels, site, hour = log
    quick = {"size": "small", "n_epochs": 1} if method == "umc" else {}
    ids = np.column_stack([_ids(site), _ids(hour)])
    expected = monocal.calibrator(method, **quick).fit(scores, labels, features=ids).predict(scores, features=ids)
    for kind, features in _kinds(site, hour).items():
        if method == "umc" and kind not in ("pandas", "columns"):
            continue
        fitted = monocal.calibrator(method, **quick).fit(scores, labels, features=features)
        assert np.array_equal(fitted.predict(scores, features=features), expected), kind


def test_one_column_unseen_values_and_saved_state(log):
    scores, labels, site, _ = log
    fitted = monocal.calibrator("wide_logistic").fit(scores, labels, features=site.tolist())
    by_id = monocal.calibrator("wide_logistic").fit(scores, labels, features=_ids(site))
    unseen = fitted.predict([0.3, 0.3], features=["never seen", "games"])
    assert np.array_equal(unseen, by_id.predict([0.3, 0.3], features=[[0], [1]]))
    again = monocal.calibrator("wide_logistic").restore(fitted.state())
    assert np.array_equal(again.predict([0.3], features=["games"]), unseen[1:])


def test_whole_numbers_stay_ids(log):
    scores, labels, _, hour = log
    fitted = monocal.calibrator("wide_logistic").fit(scores, labels, features=(hour + 1)[:, None])
    assert fitted.field_values_ is None
    assert "field_values_" not in fitted.state().values


def test_what_does_not_fit_is_refused(log):
    scores, labels, site, hour = log
    fitted = monocal.calibrator("wide_logistic").fit(scores, labels, features=[site.tolist(), hour.tolist()])
    with pytest.raises(InvalidInput, match=r"1 columns; expected the 2 columns"):
        fitted.predict(scores, features=site.tolist())
    with pytest.raises(InvalidInput, match="columns of one length"):
        monocal.calibrator("wide_logistic").fit(scores, labels, features=[site.tolist(), hour.tolist()[1:]])
    with pytest.raises(InvalidInput, match="integer ids"):
        monocal.calibrator("wide_logistic").fit(scores, labels, features=np.full((2_000, 1), 0.5))
