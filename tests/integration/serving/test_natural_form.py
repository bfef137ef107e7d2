"""`POST /v1/calibrate` and its neighbours over a real socket."""

import http.client
import json
import math
import re
import socket
import time

import httpx
import numpy as np
import pyarrow as pa
import pytest

import monocal

FIELDS = ["site_id", "ad_id", "country", "hour", "position", "device"]
MAX_ROWS = 50


@pytest.fixture(scope="module")
def service(start, models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "model"
    monocal.load(models / "one").save(folder)
    return start(folder, max_rows=MAX_ROWS, access_log=True).wait_until_ready()


@pytest.mark.parametrize("n_rows", [1, 2, 50])
def test_answers_are_bit_equal_to_predict_through_json(service, models, log, body, n_rows):
    table = log.slice(100, n_rows)
    table = table.set_column(
        table.schema.get_field_index("device"), "device", pa.array([table["device"][0].as_py()] * n_rows)
    )
    model = monocal.load(models / "one")
    answer = service.client.post("/v1/calibrate", json=body(table)).json()
    offline = model.predict(table)
    for task in model.task_names:
        assert np.array_equal(answer["probabilities"][task], offline[task])
    assert np.array_equal(answer["fused"], model.fusion.fuse(offline))


def test_the_answer_names_the_model_and_its_version(service, log, body, versions):
    answer = service.client.post("/v1/calibrate", json=body(log.slice(0, 1))).json()
    assert (answer["model"], answer["version"]) == ("model", versions["one"])
    described = service.client.get("/v1/models/model").json()
    assert described["version"] == versions["one"]
    assert described["methods"]["click"] == "wide_logistic"
    assert described["last_refusal"] is None


def test_fusion_ids_and_sampling_rate_of_the_request(service, models, log, body):
    table = log.slice(5, 3)
    model = monocal.load(models / "one")
    said = {
        "scores": body(table)["scores"],
        "ids": model.vocabulary.encode(table).tolist(),
        "sampling_rate": [0.5, 0.25, 1],
        "fusion": {"weights": {"click": 2, "effective_view": 1.5}, "powers": {"click": 0.5}},
        "other": [0.5, 0, -1],
    }
    answer = service.client.post("/v1/calibrate", json=said).json()
    scores = {task: np.array(column) for task, column in said["scores"].items()}
    expected = model.predict_ids(model.vocabulary.encode(table), scores, np.array([0.5, 0.25, 1.0]))
    for task, column in expected.items():
        assert np.array_equal(answer["probabilities"][task], column)
    fused = 2 * expected["click"] ** 0.5 + 1.5 * expected["effective_view"] + np.array([0.5, 0.0, -1.0])
    assert np.array_equal(answer["fused"], fused)


def bad(**changes):
    ok = {"scores": {"click": [0.1]}, "fields": {name: ["a"] for name in FIELDS}}
    return {**ok, **changes}


def fields(**changes):
    return {**{name: ["a"] for name in FIELDS}, **changes}


MANY = [0.1] * (MAX_ROWS + 1)


@pytest.mark.parametrize(
    ("said", "status", "message"),
    [
        (b"", 400, "malformed JSON"),
        (b"{", 400, "malformed JSON"),
        (b'{"scores": {"click": [NaN]}}', 400, "JSON has no NaN"),
        (b'{"scores": {"click": [Infinity]}}', 400, "malformed JSON"),
        (b'{"scores": {"click": [1e999]}}', 400, "number is infinity"),
        (b'\xff\xfe{"a": 1}', 400, "malformed JSON"),
        (b"[" * 100_000, 400, "malformed JSON"),
        (b'{"scores":{"click":[0.1]},"shared":{"site_id":"\\ud800"}}', 400, "malformed JSON"),
        ([], 422, "body: got a list; expected a JSON object"),
        (7, 422, "body: got 7; expected a JSON object"),
        ({}, 422, "scores: got no task"),
        (bad(score={}), 422, "member of body: got 'score'; .* did you mean 'scores'"),
        (bad(scores=[0.1]), 422, "scores: got a list; expected a JSON object"),
        (bad(scores={"click": 0.1}), 422, "scores of 'click': got 0.1; expected a list"),
        (bad(scores={"click": []}), 422, "scores: got no candidates"),
        (
            bad(scores={"click": [0.1, 0.2], "long_view": [0.1]}),
            422,
            "scores of 'long_view': got 1 numbers; expected 2",
        ),
        (bad(scores={"click": ["0.1"]}), 422, "scores of 'click': got a str at row 0"),
        (bad(scores={"click": [None]}), 422, "scores of 'click': got null at row 0"),
        (bad(scores={"click": [[0.1]]}), 422, "scores of 'click': got a list at row 0"),
        (bad(scores={"click": [1.5]}), 422, r"scores of 'click': got 1.5 at row 0; expected probabilities in \[0, 1\]"),
        (bad(scores={"click": [-0.1]}), 422, "scores of 'click': got -0.1 at row 0"),
        (bad(scores={"clicks": [0.1]}), 422, "task: got 'clicks'; .* did you mean 'click'"),
        (bad(scores={"click": MANY}), 413, "scores of 'click': got 51 entries; expected at most 50"),
        (bad(fields=fields(ad_id=MANY)), 413, "field 'ad_id': got 51 entries; expected at most 50"),
        (bad(fields=fields(ad_id=[])), 422, "field 'ad_id': got 0 values; expected 1"),
        (bad(fields=fields(ad_id="a")), 422, "field 'ad_id': got text; expected a list"),
        (bad(fields=fields(ad_id=[0.5])), 422, "field 'ad_id': got 0.5; expected text"),
        (bad(fields=fields(ad_id=[{"a": []}])), 422, "field 'ad_id': got {'a': \\[\\]}; expected text"),
        (bad(fields=fields(ad=["a"])), 422, "field: got 'ad'; .* did you mean 'ad_id'"),
        (bad(fields={}), 422, "field 'site_id': got no values; expected every field"),
        (bad(shared={"ad_id": "a"}), 422, "field 'ad_id': got values under both fields and shared"),
        (bad(shared=["a"]), 422, "shared: got a list; expected a JSON object"),
        (bad(fields={}, ids=[[1, 2, 3]]), 422, "ids: got 3 at row 0; expected a list of 6 integers"),
        (
            bad(fields={}, ids=[[1, 2, 3, 4, 5, "6"]]),
            422,
            "ids: got something else than integers; expected one integer",
        ),
        (bad(fields={}, ids=[[1], [1, 2]]), 422, "ids: got 1 at row 0"),
        (bad(fields={}, ids=[[0, 0, 0, 0, 0, -1]]), 422, "ids: got numbers beyond; expected ids from 0"),
        (bad(ids=[[0] * 6]), 422, "ids: got ids and field values"),
        (bad(sampling_rate=0), 422, "sampling_rate: got 0; expected the share"),
        (bad(sampling_rate="0.1"), 422, "sampling_rate: got text; expected a number"),
        (bad(sampling_rate=[0.1, 0.2]), 422, "sampling_rate: got 2 rates"),
        (bad(fusion={"weights": {}}), 422, "fusion weights: got no task"),
        (bad(fusion={"weights": {"clic": 1}}), 422, "task of fusion weights: got 'clic'"),
        (bad(fusion={"weights": {"click": "1"}}), 422, "fusion weights of 'click': got text; expected a number"),
        (bad(fusion={"weights": {"click": 1}, "powers": {"click": 0}}), 422, "fusion power of 'click': got 0"),
        (bad(fusion={"weight": {"click": 1}}), 422, "member of fusion: got 'weight'; .* did you mean 'weights'"),
        (bad(fusion={"weights": {"click": 1}}, other=[True]), 422, "other: got true or false at row 0"),
        (bad(other=[1.0]), 422, "other: got numbers, but no fusion rule"),
    ],
)
def test_a_bad_request_is_refused_with_a_helpful_body(service, said, status, message):
    content = {"content": said} if isinstance(said, bytes) else {"json": said}
    answer = service.client.post("/v1/calibrate", **content)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert re.search(message, answer.json()["error"]), answer.text
    assert "probabilities" not in answer.json()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/calibrate", 405),
        ("POST", "/metrics", 405),
        ("GET", "/nothing", 404),
        ("GET", "/v1/models/other", 404),
        ("GET", "/v1/models/..%2f..%2fetc%2fpasswd", 404),
        ("GET", "/v1/models/shadow", 404),
        ("POST", "/v2/models/other/infer", 404),
    ],
)
def test_paths_and_methods_that_do_not_exist_are_refused_in_json(service, method, path, status):
    answer = service.client.request(method, path)
    assert answer.status_code == status
    assert set(answer.json()) == {"error", "kind"}


def test_admin_calls_are_off_without_a_token(service):
    answer = service.load()
    assert answer.status_code == 403
    assert "admin calls are switched off" in answer.json()["error"]


def test_it_binds_to_loopback_by_default(service):
    assert service.events("listening")[0]["host"] == "127.0.0.1"


def test_metrics_count_requests_rows_and_unseen_values(service, log, body):
    before = service.metric("monocal_rows_total") or 0.0
    said = body(log.slice(0, 10))
    said["fields"]["country"] = ["nowhere"] * 10
    share_before = service.metric("monocal_field_unseen_share", field="country") or 0.0
    answered = service.metric("monocal_requests_total", endpoint="calibrate", status="200") or 0.0
    for _ in range(5):
        assert service.client.post("/v1/calibrate", json=said).status_code == 200
    assert service.metric("monocal_rows_total") == before + 50
    assert service.metric("monocal_requests_total", endpoint="calibrate", status="200") == answered + 5
    assert service.metric("monocal_request_seconds_count", endpoint="calibrate") >= 5
    assert service.metric("monocal_field_unseen_share", field="country") > share_before
    assert service.metric("monocal_requests_total", endpoint="calibrate", status="422") >= 1


def test_score_drift_is_small_on_fit_time_scores_and_large_on_others(start, models, log, body):
    service = start(models / "one").wait_until_ready()
    assert math.isnan(service.metric("monocal_score_drift_psi", task="click"))
    for place in range(0, 1000, 100):
        service.client.post("/v1/calibrate", json=body(log.slice(place * 3, 100)))
    quiet = service.metric("monocal_score_drift_psi", task="click")
    noise = service.metric("monocal_score_drift_noise", task="click")
    assert quiet < 5 * noise
    said = body(log.slice(0, 100))
    said["scores"]["click"] = [0.95] * 100
    for _ in range(20):
        service.client.post("/v1/calibrate", json=said)
    assert service.metric("monocal_score_drift_psi", task="click") > 1.0


def test_running_pcoc_comes_from_labels_sent_back(service, log, body):
    assert service.metric("monocal_pcoc", task="long_view") is None
    said = {"probabilities": {"long_view": [0.5, 0.25, 0.25, 0.5]}, "labels": {"long_view": [0, 0, 0, None]}}
    assert service.client.post("/v1/feedback", json=said).json() == {"counted": {"long_view": 3}}
    assert math.isnan(service.metric("monocal_pcoc", task="long_view"))
    said = {"probabilities": {"long_view": [0.2]}, "labels": {"long_view": [1]}}
    assert service.client.post("/v1/feedback", json=said).status_code == 200
    assert service.metric("monocal_pcoc", task="long_view") == pytest.approx(1.2)
    assert service.metric("monocal_feedback_rows_total", task="long_view") == 4.0


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({}, "labels: got null; expected a JSON object"),
        ({"labels": {}, "probabilities": {}}, "labels: got no task"),
        ({"labels": {"click": [1]}, "probabilities": {}}, "task 'click': got labels or probabilities alone"),
        ({"labels": {"click": [1]}, "probabilities": {"click": [0.1, 0.2]}}, "labels of 'click': got 1 of them"),
        ({"labels": {"click": [2]}, "probabilities": {"click": [0.1]}}, "labels of 'click': got 2 at row 0"),
        ({"labels": {"click": [1]}, "probabilities": {"click": [1.1]}}, "probabilities of 'click': got numbers beyond"),
        ({"labels": {"clic": [1]}, "probabilities": {"clic": [0.1]}}, "task: got 'clic'"),
        ({"labels": {"click": [1]}, "probabilities": {"click": [0.1]}, "id": 1}, "member of body: got 'id'"),
    ],
)
def test_feedback_that_makes_no_sense_is_refused(service, said, message):
    answer = service.client.post("/v1/feedback", json=said)
    assert answer.status_code == 422
    assert message in answer.json()["error"]


def test_logs_are_json_lines_without_feature_values(service, log, body):
    said = body(log.slice(0, 1))
    secret = "nobody-should-read-this"
    said["fields"]["ad_id"] = [secret]
    service.client.post("/v1/calibrate", json=said)
    said["fields"]["ad_id"] = [{secret: 1}]
    assert secret in service.client.post("/v1/calibrate", json=said).text
    service.client.get(f"/{secret}")
    service.client.post("/v1/calibrate", content=secret.encode())
    wait_requests = len(service.events("request"))
    service.client.get("/v2")
    service.wait_for_event("request", wait_requests + 1)
    assert secret not in "".join(service.raw_log)
    assert not service.events("not JSON")
    logged = service.events("request")[-1]
    assert {"time", "level", "process", "event", "endpoint", "status", "rows", "milliseconds"} == set(logged)


def test_openapi_describes_the_model_now_serving(service):
    document = service.client.get("/openapi.json").json()
    scores = document["paths"]["/v1/calibrate"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert list(scores["properties"]["scores"]["properties"]) == ["click", "effective_view", "long_view"]
    assert list(scores["properties"]["fields"]["properties"]) == FIELDS
    example = scores["example"]
    assert service.client.post("/v1/calibrate", json=example).status_code == 200


def test_two_requests_on_one_connection_in_one_breath_are_both_answered(service, log, body):
    content = json.dumps(body(log.slice(0, 1))).encode()
    head = b"POST /v1/calibrate HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(content)
    with socket.create_connection(("127.0.0.1", service.port), 300.0) as connection:
        connection.sendall((head + content) * 2)
        received = b""
        while received.count(b"200 OK") < 2 or received.count(b'"version"') < 2:
            piece = connection.recv(65536)
            assert piece, received
            received += piece


def test_a_connection_ends_with_an_announced_last_answer(service):

    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=120.0)
    for number in range(1, 1001):
        connection.request("GET", "/v2/health/live")
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
        assert answer.will_close == (number == 1000)
    connection.close()


def test_a_client_that_leaves_in_the_middle_harms_nobody(service, log, body):
    for _ in range(5):
        with pytest.raises(httpx.TransportError):
            httpx.post(f"{service.url}/v1/calibrate", content=dripping(), timeout=0.2)
    assert service.client.post("/v1/calibrate", json=body(log.slice(0, 1))).status_code == 200
    assert not [line for line in service.lines if line["event"] == "request failed"]


def dripping():
    yield b'{"scores":'
    time.sleep(0.3)
    raise httpx.WriteError("gone")
