"""Models through MLflow: logged, registered, loaded, and scored over its own HTTP protocol."""

import re
import sys
from importlib.metadata import requires

import numpy as np
import pytest

import monocal
from monocal.core.errors import ArtefactError
from monocal.lab.simulator import simulate_log
from monocal.mlflow import load_model, log_model

mlflow = pytest.importorskip("mlflow")
pytestmark = pytest.mark.filterwarnings("ignore")  # of MLflow's own


@pytest.fixture(scope="module")
def log():
    return simulate_log(2000, seed=1).table()


@pytest.fixture(scope="module")
def model(log):
    return monocal.fit(log, method="wide_logistic", score="pctr", label="click", fields=["site_id", "device"])


@pytest.fixture(scope="module")
def logged(model, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        # files in a folder are enough for a test; servers keep their runs in a database
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        yield from _logged(model, tmp_path_factory.mktemp("tracking"))


def _logged(model, place):
    mlflow.set_tracking_uri((place / "runs").as_uri())
    with mlflow.start_run():
        yield log_model(model, registered_model_name="ads")


def test_a_logged_model_comes_back_with_its_fingerprint_and_bits(model, logged, log):
    found = load_model(logged.model_uri)
    assert found.fingerprint == model.fingerprint
    np.testing.assert_array_equal(found.predict(log), model.predict(log))
    assert load_model("models:/ads/1").fingerprint == model.fingerprint


def test_pyfunc_scores_a_data_frame_to_the_last_bit(model, logged, log):
    frame = log.to_pandas()
    scored = mlflow.pyfunc.load_model(logged.model_uri).predict(frame)
    assert list(scored.columns) == ["click"]
    np.testing.assert_array_equal(scored["click"], model.predict(log))


def test_the_signature_names_what_a_row_has_and_what_comes_back(logged):
    given = logged.signature.inputs
    assert given.input_names() == ["pctr", "site_id", "device"]
    assert given.required_input_names() == ["pctr"]
    assert logged.signature.outputs.input_names() == ["click"]


def test_fields_may_be_whole_numbers_and_missing(logged, log):
    frame = log.slice(0, 4).to_pandas().assign(site_id=[3, None, 7, 9])
    assert mlflow.pyfunc.load_model(logged.model_uri).predict(frame)["click"].between(0, 1).all()


def test_mlflows_scoring_server_answers_with_the_models_numbers(model, logged, log):
    from mlflow.pyfunc.scoring_server import init
    from starlette.testclient import TestClient

    head = log.slice(0, 5)
    client = TestClient(init(mlflow.pyfunc.load_model(logged.model_uri)))
    rows = head.select(["pctr", "site_id", "device"]).to_pandas().to_dict(orient="split", index=False)
    answer = client.post("/invocations", json={"dataframe_split": rows})
    assert answer.status_code == 200, answer.text
    assert [row["click"] for row in answer.json()["predictions"]] == model.predict(head).tolist()


def test_a_missing_package_is_named_and_is_part_of_the_extra(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    for name in [name for name in sys.modules if name.split(".")[0] == "mlflow"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match="need the package pandas. Hint: pip install 'monocal.mlflow.'"):
        log_model(model)
    needed = [text for text in requires("monocal") if "mlflow" in text.partition(";")[2]]
    assert {re.match(r"[\w-]+", text)[0] for text in needed} == {"mlflow-skinny", "pandas"}


def test_nothing_is_pickled_and_a_changed_artefact_is_refused(logged, tmp_path):
    place = mlflow.artifacts.download_artifacts(artifact_uri=logged.model_uri, dst_path=str(tmp_path))
    files = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert {"manifest.json", "state.safetensors", "vocabulary.arrow", "MLmodel"} <= files
    assert not [name for name in files if name.endswith(("pkl", "pickle", "cloudpickle"))]
    state = next(tmp_path.rglob("state.safetensors"))
    content = bytearray(state.read_bytes())
    content[-3] ^= 1
    state.write_bytes(bytes(content))
    with pytest.raises(ArtefactError, match="fingerprint"):
        load_model(place)
