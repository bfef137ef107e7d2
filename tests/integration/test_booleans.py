"""A boolean is one value, however a file, a data frame or a request spells it."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.models.onnx import export_onnx
from monocal.serving import Engine, Request
from monocal.tables.vocabulary import FieldVocabulary

COLUMNS = {"score": "pctr", "label": "click", "fields": ["is_app"]}
N_ROWS = 6_000


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same rows as Parquet with booleans, as CSV that pandas wrote (True), and as CSV that Arrow wrote (true)."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("booleans")
    app = np.where(rng.random(N_ROWS) < 0.1, None, rng.random(N_ROWS) < 0.5)
    p = rng.uniform(0.05, 0.5, N_ROWS)
    rate = np.select([app == True, app == False], [0.4, 1.0], 1.5)  # noqa: E712
    log = pa.table({"pctr": p, "click": (rng.random(N_ROWS) < p * rate).astype(np.int8), "is_app": app})
    pq.write_table(log, folder / "log.parquet")
    log.to_pandas().to_csv(folder / "pandas.csv", index=False)
    pa.csv.write_csv(log, folder / "arrow.csv")
    assert "True" in (folder / "pandas.csv").read_text()
    assert "true" in (folder / "arrow.csv").read_text()
    return {name: folder / name for name in ("log.parquet", "pandas.csv", "arrow.csv")}


@pytest.mark.parametrize("learned", ["log.parquet", "pandas.csv", "arrow.csv"])
def test_a_boolean_is_one_value_in_csv_and_parquet(files, learned, tmp_path):
    model = monocal.fit(files[learned], method="wide_logistic", **COLUMNS)
    model.save(tmp_path / "model")
    expected = model.predict(files[learned])
    assert len(np.unique(monocal.load(tmp_path / "model").vocabulary.encode(pq.read_table(files["log.parquet"])))) == 3
    for other in files.values():
        np.testing.assert_array_equal(model.predict(other), expected, err_msg=str(other))


@pytest.mark.parametrize("learned", ["log.parquet", "pandas.csv"])
def test_a_request_and_a_graph_know_a_boolean_in_any_spelling(files, learned, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = monocal.fit(files[learned], method="wide_logistic", **COLUMNS)
    expected = model.predict({"pctr": [0.2, 0.2], "is_app": [True, False]})
    assert expected[0] < 0.8 * expected[1]
    session = onnxruntime.InferenceSession(export_onnx(model, tmp_path / "m.onnx").path)
    for spelled in ([True, False], ["true", "false"], ["True", "False"], ["TRUE", "FALSE"]):
        answer = Engine(model).calibrate(Request(scores={"click": [0.2, 0.2]}, fields={"is_app": spelled}))
        np.testing.assert_array_equal(answer.probabilities["click"], expected)
        if isinstance(spelled[0], str):
            feed = {"pctr": np.array([0.2, 0.2]), "is_app": np.array(spelled, dtype=object)}
            np.testing.assert_allclose(session.run(None, feed)[0], expected, atol=1e-12)


def test_spellings_that_were_two_values_in_the_fit_stay_two():
    field = FieldVocabulary("is_app", pa.array(["True", "false", "true", "other"]))
    assert field.encode(pa.array(["True", "true", "TRUE", "False", "FALSE", "Other"])).tolist() == [1, 3, 0, 2, 2, 0]
    assert FieldVocabulary("site", pa.array(["news"])).encode(pa.array(["True", "news"])).tolist() == [0, 1]
