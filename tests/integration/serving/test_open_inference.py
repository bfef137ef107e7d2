"""The Open Inference Protocol with the client package others use, over a real socket."""

import json
import struct

import numpy as np
import pytest

import monocal

triton = pytest.importorskip("tritonclient.http", reason="needs tritonclient[http]")
from tritonclient.utils import InferenceServerException  # noqa: E402

FIELDS = ["site_id", "ad_id", "country", "hour", "position", "device"]
SCORES = {"click": "pctr", "effective_view": "pev", "long_view": "plv"}
N_ROWS = 12


@pytest.fixture(scope="module")
def service(start, models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "ads"
    monocal.load(models / "one").save(folder)
    return start(folder, max_rows=100).wait_until_ready()


@pytest.fixture(scope="module")
def client(service):
    client = triton.InferenceServerClient(f"127.0.0.1:{service.port}", connection_timeout=120.0, network_timeout=120.0)
    yield client
    client.close()


@pytest.fixture(scope="module")
def table(log):
    return log.slice(40, N_ROWS)


@pytest.fixture(scope="module")
def offline(models, table):
    return monocal.load(models / "one").predict(table)


def tensor(name, values, datatype, binary):
    made = triton.InferInput(name, list(np.shape(values)), datatype)
    made.set_data_from_numpy(np.asarray(values), binary_data=binary)
    return made


def inputs_of(table, binary, float_type="FP64"):
    rows = table.to_pydict()
    floats = np.float64 if float_type == "FP64" else np.float32
    scores = [tensor(f"score.{task}", np.array(rows[c], floats), float_type, binary) for task, c in SCORES.items()]
    return scores + [tensor(f"field.{n}", np.array(rows[n], dtype=np.object_), "BYTES", binary) for n in FIELDS]


def outputs_of(names, binary):
    return [triton.InferRequestedOutput(name, binary_data=binary) for name in names]


def test_health_and_metadata_as_the_client_asks_for_them(client, versions):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("ads")
    assert client.is_model_ready("ads", versions["one"])
    assert not client.is_model_ready("other")
    assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    said = client.get_model_metadata("ads")
    assert said["versions"] == [versions["one"]]
    assert [entry["name"] for entry in said["inputs"]] == [
        *[f"score.{task}" for task in SCORES],
        *[f"field.{name}" for name in FIELDS],
    ]
    assert [output["name"] for output in said["outputs"]] == [*[f"probability.{task}" for task in SCORES], "fused"]
    assert {output["datatype"] for output in said["outputs"]} == {"FP64"}


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
def test_json_and_binary_tensors_give_the_offline_numbers(client, table, offline, binary_in, binary_out):
    names = [f"probability.{task}" for task in SCORES]
    answer = client.infer(
        "ads", inputs_of(table, binary_in), outputs=outputs_of(names, binary_out), request_id="request 7"
    )
    assert answer.get_response()["id"] == "request 7"
    for task in SCORES:
        assert np.array_equal(answer.as_numpy(f"probability.{task}"), offline[task])


def test_without_named_outputs_all_come_and_the_version_may_be_named(client, models, table, offline, versions):
    answer = client.infer("ads", inputs_of(table, True), model_version=versions["one"])
    fused = monocal.load(models / "one").fusion.fuse(offline)
    assert np.array_equal(answer.as_numpy("fused"), fused)
    assert answer.get_response()["model_version"] == versions["one"]


def test_one_value_of_a_field_is_shared_by_all_rows(client, models, table):
    rows = table.to_pydict()
    given = [tensor("score.click", np.array(rows["pctr"]), "FP64", True)]
    given += [tensor(f"field.{name}", np.array([rows[name][0]], dtype=np.object_), "BYTES", True) for name in FIELDS]
    answer = client.infer("ads", given)
    model = monocal.load(models / "one")
    ids = np.repeat(model.vocabulary.encode(table)[:1], N_ROWS, axis=0)
    expected = model.predict_ids(ids, {"click": np.array(rows["pctr"])})["click"]
    assert np.array_equal(answer.as_numpy("probability.click"), expected)


@pytest.mark.parametrize("binary", [True, False])
def test_ids_and_sampling_rate_as_tensors(client, models, table, binary):
    model = monocal.load(models / "one")
    ids = model.vocabulary.encode(table)
    scores = np.array(table.to_pydict()["pctr"])
    given = [
        tensor("score.click", scores, "FP64", binary),
        tensor("ids", ids, "INT32", binary),
        tensor("sampling_rate", np.array([0.25]), "FP64", binary),
    ]
    answer = client.infer("ads", given)
    assert np.array_equal(
        answer.as_numpy("probability.click"), model.predict_ids(ids, {"click": scores}, 0.25)["click"]
    )


def test_float32_scores_are_taken_as_the_numbers_they_are(client, models, table):
    answer = client.infer("ads", inputs_of(table, True, "FP32"))
    model = monocal.load(models / "one")
    scores = np.array(table.to_pydict()["pctr"], np.float32).astype(np.float64)
    expected = model.predict_ids(model.vocabulary.encode(table), {"click": scores})["click"]
    assert np.array_equal(answer.as_numpy("probability.click"), expected)


def test_errors_reach_the_client_with_their_message(client, table):
    given = inputs_of(table, True)
    with pytest.raises(InferenceServerException, match="field 'device': got no values"):
        client.infer("ads", given[:-1])
    with pytest.raises(InferenceServerException, match=r"output: got 'probability.clic'; .* did you mean"):
        client.infer("ads", given, outputs=outputs_of(["probability.clic"], True))
    with pytest.raises(InferenceServerException, match=r"model: got 'bids'; expected one of ads"):
        client.infer("bids", given)
    with pytest.raises(InferenceServerException, match=r"version: got '7'; expected one of"):
        client.infer("ads", given, model_version="7")


def test_a_compressed_request_is_refused_with_a_reason(client, table):
    with pytest.raises(InferenceServerException, match="content-encoding: got a compressed body"):
        client.infer("ads", inputs_of(table, True), request_compression_algorithm="gzip")


def one(name="score.click", shape=(1,), datatype="FP64", **more):
    return {"name": name, "shape": list(shape), "datatype": datatype, **more}


def infer(inputs, **more):
    return {"inputs": inputs, **more}


def text(value):
    return struct.pack("<I", len(value)) + value


@pytest.mark.parametrize(
    ("said", "raw", "status", "message"),
    [
        ({}, b"", 422, "inputs: got no list"),
        (infer([7]), b"", 422, "input: got 7; expected a JSON object"),
        (infer([one(name=7)]), b"", 422, "name of an input: got 7"),
        (infer([one(shape=[-1])]), b"", 422, "shape of input 'score.click': got [-1]"),
        (infer([one(shape=[1, 1, 1])]), b"", 422, "shape of input 'score.click'"),
        (infer([one(shape=[10**12])]), b"", 413, "expected at most"),
        (infer([one(shape=[0, 10**12])]), b"", 413, "expected at most"),
        (infer([one(datatype="FP128", data=[0.1])]), b"", 422, "datatype of input 'score.click': got 'FP128'"),
        (infer([one()]), b"", 422, "data of input 'score.click': got no list"),
        (infer([one(data=["a"])]), b"", 422, "data of input 'score.click': got a str; expected FP64 values"),
        (infer([one(data=[0.1, 0.2])]), b"", 422, "input 'score.click': got 2 values; expected 1"),
        (infer([one(data=[0.1]), one(data=[0.1])]), b"", 422, "input 'score.click': got two tensors; expected one"),
        (infer([one(shape=[200], data=[0.1] * 200)]), b"", 413, "got 200 candidates; expected at most 100"),
        (
            infer([one(datatype="INT32", data=[1])]),
            b"",
            422,
            "datatype of input 'score.click': got INT32; expected FP64",
        ),
        (infer([one(name="field.ad_id", data=[0.5])]), b"", 422, "expected BYTES, integers or BOOL"),
        (infer([one(name="ids", datatype="INT32", data=[1])]), b"", 422, "shape of input 'ids'"),
        (infer([one(name="ids", shape=[1, 1], data=[1.0])]), b"", 422, "datatype of input 'ids'"),
        (infer([one(name="labels", data=[0.1])]), b"", 422, "input: got 'labels'; expected one of score.<task>"),
        (infer([one(shape=[1, 2], data=[0.1, 0.2])]), b"", 422, "expected [candidates] or [candidates, 1]"),
        (infer([one(data=[0.1], parameters={"binary_data_size": 8})]), b"12345678", 422, "both data and binary data"),
        (infer([one(parameters={"binary_data_size": -1})]), b"", 422, "binary_data_size of input 'score.click'"),
        (infer([one(parameters={"binary_data_size": 8})]), b"1234", 422, "got 4 bytes; expected 8 bytes"),
        (infer([one(parameters={"binary_data_size": 7})]), b"1234567", 422, "expected whole FP64 values"),
        (infer([one(data=[0.1])]), b"left over", 422, "got 9 bytes that belong to no input"),
        (infer([one(parameters={"binary_data_size": 8})]), struct.pack("<d", float("nan")), 422, "got nan at row 0"),
        (
            infer([one(name="field.ad_id", datatype="BYTES", parameters={"binary_data_size": 6})]),
            text(b"\xff\xfe"),
            422,
            "input 'field.ad_id': got bytes that are no text",
        ),
        (
            infer([one(name="field.ad_id", datatype="BYTES", parameters={"binary_data_size": 6})]),
            b"\xff\xff\xff\xffab",
            422,
            "input 'field.ad_id': got a text that is cut off",
        ),
        (infer([one(data=[0.1])], outputs=7), b"", 422, "field 'site_id': got no values"),
    ],
)
def test_a_bad_inference_request_is_refused_with_a_helpful_body(service, said, raw, status, message):
    content = json.dumps(said).encode()
    headers = {"Inference-Header-Content-Length": str(len(content))} if raw else {}
    answer = service.client.post("/v2/models/ads/infer", content=content + raw, headers=headers)
    assert answer.status_code == status, answer.text
    assert message in answer.json()["error"]


@pytest.mark.parametrize("length", ["-1", "ten", "99999", "9" * 30, ""])
def test_a_wrong_header_length_is_refused(service, length):
    headers = {"Inference-Header-Content-Length": length}
    answer = service.client.post("/v2/models/ads/infer", content=b'{"inputs": []}', headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("Inference-Header-Content-Length: got")
