"""Each kind of bad input gives an error that names the argument, the value, what was expected and a hint."""

import numpy as np
import pytest

from monocal.calibrators import calibrator
from monocal.core.errors import InvalidInput, UnknownName

S, Y = [0.1, 0.4, 0.6], [0, 1, 1]


def message(error_type, action):
    with pytest.raises(error_type) as caught:
        action()
    text = str(caught.value)
    for part in ("got", "expected", "Hint"):
        assert part in text
    return text


def fit(scores=S, labels=Y, **arguments):
    return lambda: calibrator("platt").fit(scores, labels, **arguments)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (fit(scores=[0.1, np.nan, 0.2]), "scores: got nan at row 1 (1 such rows); expected finite numbers"),
        (fit(scores=[0.1, 1.4, 0.2]), 'got 1.4 at row 1; expected probabilities in [0, 1]. Hint: pass scores_are='),
        (fit(scores=["a", "b", "c"]), "scores: got values of type <U1; expected numbers"),
        (fit(scores=np.zeros((3, 2))), "scores: got an array of shape (3, 2); expected one number per row"),
        (fit(scores=[], labels=[]), "scores: got no rows; expected at least one row"),
        (fit(scores_are="prob"), "scores_are: got 'prob'; expected \"probability\" or \"logit\""),
        (fit(labels=[0, 1, 2]), "labels: got 2 at row 2; expected 0 or 1 in every row"),
        (fit(labels=[0, 1]), "labels: got 2 rows; expected 3 rows, as many as scores"),
        (fit(labels=[1, 1, 1]), "labels: got only 1s in 3 rows; expected both 0 and 1"),
        (fit(weights=[1, -2, 1]), "weights: got -2 at row 1; expected numbers that are zero or positive"),
        (fit(weights=[0, 0, 0]), "weights: got only zeros; expected at least one positive weight"),
        (fit(weights=[1, 1]), "weights: got 2 rows; expected 3 rows"),
        (fit(times=[1, 2]), "times: got 2 rows; expected 3 rows"),
        (fit(features=[[0.5], [1.0], [2.0]]), "features: got values of type float64; expected integer ids"),
        (fit(features=[[1], [-1], [2]]), "features: got -1 at row 1, field 0; expected ids ≥ 0"),
        (fit(features=[[1], [2]]), "features: got 2 rows; expected 3 rows"),
        (fit(sampling_rate=0.0), "sampling_rate: got 0; expected the share of negatives kept, in (0, 1]"),
        (fit(sampling_rate=[0.5, 0.5]), "sampling_rate: got 2 rates; expected one number or 3 of them"),
        (fit(sampling_rate=[0.5, 0.5, 7]), "sampling_rate: got 7; expected the share of negatives kept"),
    ],
)  # fmt: skip
def test_fit_refuses(action, expected):
    assert expected in message(InvalidInput, action)


def test_predict_before_fit_explains_itself():
    with pytest.raises(ValueError, match=r"Platt: got predict before fit; expected a fitted calibrator"):
        calibrator("platt").predict([0.3])


def test_features_missing_where_they_are_needed():
    text = message(InvalidInput, lambda: calibrator("per_segment").fit(S, Y))
    assert "features: got None; expected field ids, which 'per_segment' needs" in text


def test_other_number_of_fields_at_predict():
    fitted = calibrator("wide_logistic").fit(S, Y, features=[[1, 1], [1, 2], [2, 1]])
    text = message(InvalidInput, lambda: fitted.predict(S, features=[[1], [1], [1]]))
    assert "features: got 1 fields; expected the 2 fields that fit saw" in text


def test_unseen_ids_have_a_defined_result():
    fitted = calibrator("wide_logistic").fit(S, Y, features=[[1], [1], [2]])
    unseen = fitted.predict([0.3, 0.3], features=[[0], [999]])
    assert np.isfinite(unseen).all()
    assert unseen[0] == unseen[1]


def test_rate_per_row_must_be_given_again():
    fitted = calibrator("platt").fit(S, Y, sampling_rate=[0.5, 0.5, 0.2])
    assert "pass the rate of every row to predict" in message(InvalidInput, lambda: fitted.predict(S))
    assert np.isfinite(fitted.predict(S, sampling_rate=[0.5, 0.5, 0.2])).all()


def test_unknown_method_and_argument_suggest_the_nearest():
    assert "did you mean 'isotonic'?" in message(UnknownName, lambda: calibrator("isotonik"))
    assert "did you mean 'n_bins'?" in message(UnknownName, lambda: calibrator("histogram", nbins=3))
