"""9, 9.0 and "9" are one category, wherever a value comes in."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.core.errors import InvalidInput
from monocal.serving.engine import Engine, Request

CAMPAIGNS = [9, 10, 9, 11]
FORMS = {
    "integers": pa.array(CAMPAIGNS),
    "floats": pa.array([9.0, 10.0, 9.0, 11.0]),
    "small floats": pa.array([9.0, 10.0, 9.0, 11.0], pa.float32()),
    "texts": pa.array(["9", "10", "9", "11"]),
    "coded floats": pa.array([9.0, 10.0, 9.0, 11.0]).dictionary_encode(),
}
FRACTION = "field 'campaign': got .* in a column of type double; .*under numeric"


def log_with(campaigns, n=50):
    clicks = [1, 0, 1, 0] * (n - 1) + [0, 1, 1, 0]
    return pa.table({"pctr": [0.3] * 4 * n, "click": clicks, "campaign": pa.chunked_array([campaigns] * n)})


def fitted_on(table):
    return monocal.fit(table, method=monocal.WideLogistic(l2=1.0), score="pctr", label="click", fields=["campaign"])


@pytest.fixture(scope="module")
def model():
    return fitted_on(log_with(FORMS["integers"]))


@pytest.mark.parametrize("fitted", FORMS)
def test_one_value_whatever_the_type(fitted):
    model = fitted_on(log_with(FORMS[fitted]))
    assert model.vocabulary["campaign"].values.to_pylist() == ["9", "10", "11"]
    answers = model.predict({"pctr": [0.3] * 4, "campaign": CAMPAIGNS})
    assert answers[0] > answers[1]
    for form in FORMS.values():
        assert np.array_equal(answers, model.predict({"pctr": [0.3] * 4, "campaign": form}))
    answer = Engine(model).calibrate(Request({"click": [0.3] * 3}, fields={"campaign": [9, 9.0, "9"]}))
    assert (answer.probabilities["click"] == answers[0]).all()


def test_files_may_hold_them_as_integers_and_as_floats_and_nan_is_a_null(tmp_path):
    for name, form in (("a", "integers"), ("b", "floats")):
        pq.write_table(log_with(FORMS[form]), tmp_path / f"{name}.parquet")
    assert fitted_on(str(tmp_path)).vocabulary["campaign"].values.to_pylist() == ["9", "10", "11"]
    with_nan = fitted_on(log_with(pa.array([9.0, None, 9.0, float("nan")])))
    assert with_nan.vocabulary["campaign"].values.to_pylist() == ["9", None]


@pytest.mark.parametrize("value", [9.5, float("inf"), 1e300])
def test_a_fraction_is_refused_with_the_advice(model, value):
    with pytest.raises(InvalidInput, match=FRACTION):
        fitted_on(log_with(pa.array([9.0, 9.0, 9.0, value])))
    with pytest.raises(InvalidInput, match=FRACTION):
        model.predict({"pctr": [0.3], "campaign": [value]})
    with pytest.raises(InvalidInput, match="field 'campaign': got .*fitted on with numeric"):
        Engine(model).calibrate(Request({"click": [0.3]}, fields={"campaign": [value]}))


def test_a_model_that_saw_empty_texts_takes_nulls_for_them(tmp_path):
    model = fitted_on(log_with(pa.array(["9", "", "", "11"])))
    expected = model.predict({"pctr": [0.3], "campaign": [""]})[0]
    assert expected != model.predict({"pctr": [0.3], "campaign": ["never seen"]})[0]
    (tmp_path / "log.csv").write_text("pctr,campaign\n0.3,9\n0.3,\n")
    assert model.predict(str(tmp_path / "log.csv"))[1] == expected
    answer = Engine(model).calibrate(Request({"click": [0.3, 0.3]}, fields={"campaign": [None, ""]}))
    assert answer.probabilities["click"].tolist() == [expected, expected]
