"""The Open Inference Protocol, in its JSON form, with the client package others use."""

import numpy as np
import pytest

import monocal

FIELDS = ["site_id", "ad_id", "country", "hour", "position", "device"]
SCORES = {"click": "pctr", "effective_view": "pev", "long_view": "plv"}
INFER = "/v2/models/model/infer"


def one(name="score.click", shape=(1,), datatype="FP64", **more):
    return {"name": name, "shape": list(shape), "datatype": datatype, **more}


def inputs_of(table):
    rows = table.to_pydict()
    n = table.num_rows
    inputs = [one(f"score.{task}", [n], data=rows[column]) for task, column in SCORES.items()]
    return inputs + [one(f"field.{name}", [n, 1], "BYTES", data=[str(v) for v in rows[name]]) for name in FIELDS]


def test_metadata_names_what_goes_in_and_out(service, versions):
    assert service.get("/v2").json()["extensions"] == []
    assert service.get("/v2/models/model/ready").json() == {"name": "model", "ready": True}
    assert service.get(f"/v2/models/model/versions/{versions['one']}/ready").status_code == 200
    said = service.get("/v2/models/model").json()
    assert said["versions"] == [versions["one"]]
    assert [entry["name"] for entry in said["inputs"]] == [
        *[f"score.{task}" for task in SCORES],
        *[f"field.{name}" for name in FIELDS],
    ]
    assert [output["name"] for output in said["outputs"]] == [*[f"probability.{task}" for task in SCORES], "fused"]


def test_tensors_give_the_offline_numbers_and_rows_may_be_nested(service, models, log):
    table = log.slice(40, 12)
    model = monocal.load(models / "one")
    offline = model.predict(table)
    inputs = inputs_of(table)
    inputs[0]["shape"], inputs[0]["data"] = [12, 1], [[score] for score in inputs[0]["data"]]
    answer = service.post(INFER, json={"inputs": inputs, "id": "request 7"}).json()
    assert answer["id"] == "request 7"
    found = {output["name"]: output["data"] for output in answer["outputs"]}
    for task in SCORES:
        assert np.array_equal(found[f"probability.{task}"], offline[task])
    assert np.array_equal(found["fused"], model.fusion.fuse(offline))
    asked = service.post(INFER, json={"inputs": inputs, "outputs": [{"name": "fused"}]}).json()
    assert [output["name"] for output in asked["outputs"]] == ["fused"]


def test_one_value_of_a_field_is_shared_by_all_rows(service, models, log):
    table = log.slice(40, 12)
    rows = table.to_pydict()
    inputs = [one(shape=[12], data=rows["pctr"])]
    inputs += [one(f"field.{name}", [1], "BYTES", data=[str(rows[name][0])]) for name in FIELDS]
    answer = service.post(INFER, json={"inputs": inputs}).json()
    model = monocal.load(models / "one")
    ids = np.repeat(model.vocabulary.encode(table)[:1], 12, axis=0)
    assert np.array_equal(
        answer["outputs"][0]["data"], model.predict_ids(ids, {"click": np.array(rows["pctr"])})["click"]
    )


def test_ids_and_sampling_rate_as_tensors(service, models, log):
    table = log.slice(40, 12)
    model = monocal.load(models / "one")
    ids = model.vocabulary.encode(table)
    scores = np.array(table.to_pydict()["pctr"])
    inputs = [
        one(shape=[12], data=scores.tolist()),
        one("ids", ids.shape, "INT32", data=ids.ravel().tolist()),
        one("sampling_rate", [1], data=[0.25]),
    ]
    answer = service.post(INFER, json={"inputs": inputs}).json()
    expected = model.predict_ids(ids, {"click": scores}, 0.25)["click"]
    assert np.array_equal(answer["outputs"][0]["data"], expected)


@pytest.mark.parametrize(
    ("said", "status", "message"),
    [
        ({}, 422, "inputs: got nothing"),
        ({"inputs": [7]}, 422, "inputs[0]: got int; expected object"),
        ({"inputs": [one(name=7)]}, 422, "inputs[0].name: got int; expected str"),
        ({"inputs": [one(shape=[-1])]}, 422, "inputs[0].shape[0]: got another value; expected int >= 0"),
        ({"inputs": [one(shape=[1, 1, 1])]}, 422, "inputs[0].shape: got another value; expected array of length <= 2"),
        ({"inputs": [one(shape=[51], data=[0.1] * 51)]}, 413, "got 51 candidates; expected at most 50"),
        ({"inputs": [one(shape=[0, 10**12], data=[])]}, 422, "expected [candidates] or [candidates, 1]"),
        ({"inputs": [one(datatype="FP128", data=[0.1])]}, 422, "inputs[0].datatype: got invalid enum value 'FP128'"),
        ({"inputs": [one(parameters={"binary_data_size": 8})]}, 422, "got nothing; expected a list of values"),
        ({"inputs": [one(data=["a"])]}, 422, "data of input 'score.click'"),
        ({"inputs": [one(data=[True])]}, 422, "expected FP64 values"),
        ({"inputs": [one(data=[0.1, 0.2])]}, 422, "input 'score.click': got 2 values; expected 1"),
        ({"inputs": [one(data=[0.1]), one(data=[0.1])]}, 422, "input 'score.click': got two tensors; expected one"),
        ({"inputs": [one(datatype="INT32", data=[1])]}, 422, "datatype of input 'score.click': got INT32"),
        ({"inputs": [one(name="field.ad_id", data=[0.5])]}, 422, "expected BYTES, integers or BOOL"),
        ({"inputs": [one(name="ids", datatype="INT32", data=[1])]}, 422, "shape of input 'ids'"),
        ({"inputs": [one(name="ids", shape=[1, 1], data=[1.0])]}, 422, "datatype of input 'ids'"),
        ({"inputs": [one(name="labels", data=[0.1])]}, 422, "input: got 'labels'; expected one of score.<task>"),
        ({"inputs": [one(shape=[1, 2], data=[0.1, 0.2])]}, 422, "expected [candidates] or [candidates, 1]"),
        ({"inputs": [one(data=[0.1])], "outputs": 7}, 422, "outputs: got int; expected array"),
        ({"inputs": [one(data=[0.1])], "id": "7" * 201}, 422, "id: got another value; expected str of length <= 200"),
        ({"inputs": [one(data=[0.1])]}, 422, "field 'site_id': got no values"),
    ],
)
def test_a_bad_inference_request_is_refused_with_a_helpful_body(service, said, status, message):
    answer = service.post(INFER, json=said)
    assert answer.status_code == status, answer.text
    assert message in answer.json()["error"]


@pytest.mark.parametrize("place", ["bids/infer", "model/versions/7/infer"])
def test_another_model_or_version_is_refused_by_name(service, place):
    answer = service.post(f"/v2/models/{place}", json={"inputs": []})
    assert answer.status_code == 404
    assert "expected one of" in answer.json()["error"]


def test_the_client_package_of_others_is_understood(start, models, log):
    """Over a socket, because it opens its own."""
    triton = pytest.importorskip("tritonclient.http", reason="needs tritonclient[http]")
    from tritonclient.utils import InferenceServerException

    service = start(models / "one", name="model")
    table = log.slice(40, 12)
    client = triton.InferenceServerClient(f"127.0.0.1:{service.port}", connection_timeout=120.0, network_timeout=120.0)
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("model")
    inputs = []
    for said in inputs_of(table):
        made = triton.InferInput(said["name"], said["shape"], said["datatype"])
        kind = np.float64 if said["datatype"] == "FP64" else np.object_
        made.set_data_from_numpy(np.array(said["data"], kind).reshape(said["shape"]), binary_data=False)
        inputs.append(made)
    offline = monocal.load(models / "one").predict(table)
    for outputs in (None, [triton.InferRequestedOutput("probability.click")]):
        answer = client.infer("model", inputs, outputs=outputs)
        assert np.array_equal(answer.as_numpy("probability.click"), offline["click"])
    made.set_data_from_numpy(np.array(["x"] * 12, np.object_).reshape(12, 1), binary_data=True)
    with pytest.raises(InferenceServerException, match="inference-header-content-length: got binary tensors"):
        client.infer("model", inputs)
    with pytest.raises(InferenceServerException, match="content-encoding: got a compressed body"):
        client.infer("model", inputs[:1], request_compression_algorithm="gzip")
    client.close()
