"""`POST /v1/calibrate` and its neighbours: numbers to the last bit, and one clear line about what is wrong."""

import re

import numpy as np
import pyarrow as pa
import pytest

import monocal

FIELDS = ["site_id", "ad_id", "country", "hour", "position", "device"]
MAX_ROWS = 50


@pytest.mark.parametrize("n_rows", [1, 2, 50])
def test_answers_are_bit_equal_to_predict_through_json(service, models, log, body, n_rows):
    table = log.slice(100, n_rows)
    device = pa.array([table["device"][0].as_py()] * n_rows)
    table = table.set_column(table.schema.get_field_index("device"), "device", device)
    model = monocal.load(models / "one")
    answer = service.post("/v1/calibrate", json=body(table)).json()
    offline = model.predict(table)
    for task in model.task_names:
        assert np.array_equal(answer["probabilities"][task], offline[task])
    assert np.array_equal(answer["fused"], model.fusion.fuse(offline))


def test_the_answer_names_the_model_and_its_version(service, log, body, versions):
    answer = service.post("/v1/calibrate", json=body(log.slice(0, 1))).json()
    assert (answer["model"], answer["version"]) == ("model", versions["one"])
    described = service.get("/v1/models/model").json()
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
    answer = service.post("/v1/calibrate", json=said).json()
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
        (b'{"scores": {"click": [NaN]}}', 400, "JSON has no NaN"),
        (b'{"scores": {"click": [1e999]}}', 422, r"scores\[...\]\[0\]: got number out of range"),
        (b'{"scores": {"a\xff": [1]}}', 400, "malformed JSON"),
        (b"[" * 100_000, 422, "body: got array; expected object"),
        (b'{"scores":{"click":[0.1]},"shared":{"site_id":"\\ud800"}}', 400, "malformed JSON"),
        ({}, 422, "scores: got nothing; expected a value"),
        (bad(score={}), 422, "member of body: got 'score'; .* did you mean 'scores'"),
        (bad(scores={"click": 0.1}), 422, r"scores\[...\]: got float; expected array"),
        (bad(scores={"click": [10**400]}), 422, "scores of 'click': got values of type object; expected numbers"),
        (bad(scores={"click": [0.1, "0.1"]}), 422, "scores of 'click': got a str at row 1; expected numbers"),
        (bad(scores={"click": [1.5]}), 422, "scores of 'click': got 1.5 at row 0; expected probabilities"),
        (bad(fields={}), 422, "field 'site_id': got no values; expected every field"),
        (bad(scores={"click": MANY}), 413, "scores of 'click': got 51 entries; expected at most 50"),
        (bad(fields=fields(ad_id=MANY)), 422, "field 'ad_id': got 51 values; expected 1, one per candidate"),
        (bad(fields=fields(ad_id=[{"a": []}])), 422, r"field 'ad_id': got {'a': \[\]}; expected text, an integer"),
        (bad(fields={}, shared=fields()), 422, r"field 'site_id': got \['a'\]; expected text, an integer"),
        (bad(fields={}, ids=[[1, 2], [3]]), 422, "ids: got rows of different lengths"),
        (bad(fields={}, ids=[[0, 0, 0, 0, 0, -1]]), 422, r"ids\[0\]\[5\]: got another value; expected int >= 0"),
        (bad(sampling_rate="0.1"), 422, "sampling_rate: got str; expected float"),
        (bad(fusion={"weights": {}}), 422, "fusion weights: got no task"),
        (bad(fusion={"weights": {"click": "1"}}), 422, r"fusion.weights\[...\]: got str; expected float"),
        (bad(fusion={"weight": {"click": 1}}), 422, "member of fusion: got 'weight'; .* did you mean 'weights'"),
        (bad(interval=1.0), 422, "interval: got another value; expected float < 1.0"),
    ],
)
def test_a_bad_request_is_refused_with_a_helpful_body(service, said, status, message):
    content = {"content": said} if isinstance(said, bytes) else {"json": said}
    answer = service.post("/v1/calibrate", **content)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert re.search(message, answer.json()["error"]), answer.text
    assert len(answer.content) < 1000
    assert list(answer.json()) == ["error"]
    # words of Python and of the command line, which a caller over HTTP has not
    assert not re.search("--|scores_are|features=", answer.text)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/calibrate", 405),
        ("POST", "/metrics", 405),
        ("GET", "/nothing", 404),
        ("GET", "/v1/models/other", 404),
        ("GET", "/v1/models/..%2f..%2fetc%2fpasswd", 404),
        ("GET", "/v1/models/shadow", 404),
        ("POST", "/v1/models/model/load", 401),
    ],
)
def test_paths_and_methods_that_do_not_exist_are_refused_in_json(service, method, path, status):
    answer = service.request(method, path)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]


def test_metrics_count_requests_rows_and_unseen_values(service, log, body):
    before = service.metric("monocal_rows_total") or 0.0
    said = body(log.slice(0, 10))
    said["fields"]["country"] = ["nowhere"] * 10
    unseen_before = service.metric("monocal_field_unseen_total", field="country") or 0.0
    answered = service.metric("monocal_requests_total", endpoint="calibrate", status="200") or 0.0
    for _ in range(5):
        assert service.post("/v1/calibrate", json=said).status_code == 200
    assert service.metric("monocal_rows_total") == before + 50
    assert service.metric("monocal_requests_total", endpoint="calibrate", status="200") == answered + 5
    assert service.metric("monocal_request_seconds_count", endpoint="calibrate") >= 5
    assert service.metric("monocal_field_unseen_total", field="country") == unseen_before + 50


def test_labels_sent_back_are_added_up(service):
    said = {"probabilities": {"long_view": [0.5, 0.25, 0.25, 0.5]}, "labels": {"long_view": [0, 0.0, 1, None]}}
    assert service.send_labels(said).json() == {"counted": {"long_view": 3}}
    for of, expected in (("predictions", 1.0), ("labels", 1.0)):
        assert service.metric("monocal_feedback_window_sum", task="long_view", of=of) == expected
    assert service.metric("monocal_feedback_rows_total", task="long_view") == 3.0


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({}, "probabilities: got nothing; expected a value"),
        ({"labels": {}, "probabilities": {}}, "labels: got no task"),
        ({"labels": {"click": [1]}, "probabilities": {}}, "labels of 'click': got 1 of them; expected 0"),
        ({"labels": {"click": [1]}, "probabilities": {"click": [0.1, 0.2]}}, "labels of 'click': got 1 of them"),
        ({"labels": {"click": [0, 0.5]}, "probabilities": {"click": [0.1] * 2}}, "labels of 'click': got 0.5 at row 1"),
        ({"labels": {"click": [2]}, "probabilities": {"click": [0.1]}}, "labels[...][0]: got another value; expected"),
        (
            {"labels": {"click": [1]}, "probabilities": {"click": [1.1]}},
            "probabilities[...][0]: got another value; expected",
        ),
        ({"labels": {"clic": [1]}, "probabilities": {"clic": [0.1]}}, "task: got 'clic'"),
        ({"labels": {"click": [1]}, "probabilities": {"click": [0.1]}, "id": 1}, "member of body: got 'id'"),
    ],
)
def test_feedback_that_makes_no_sense_is_refused(service, said, message):
    answer = service.send_labels(said)
    assert answer.status_code == 422
    assert message in answer.json()["error"]


def test_a_service_without_a_token_takes_no_labels_and_no_admin_calls(serve_here, models):
    service = serve_here(models / "platt", name="model")
    for path in ("/v1/feedback", "/v1/models/model/load"):
        answer = service.post(path, json={"probabilities": {"click": [1.0]}, "labels": {"click": [0]}})
        assert answer.status_code == 403
        assert "start the service with a token" in answer.json()["error"]
    assert service.metric("monocal_feedback_rows_total", task="click") is None


def test_logs_hold_no_feature_values(service, log, body):
    said = body(log.slice(0, 1))
    secret = "nobody-should-read-this"
    said["fields"]["ad_id"] = [secret]
    service.post("/v1/calibrate", json=said)
    said["fields"]["ad_id"] = [{secret: 1}]
    service.post("/v1/calibrate", json=said)
    service.get(f"/{secret}")
    service.post("/v1/calibrate", content=secret.encode())
    assert secret not in str(service.lines)
    logged = service.events("request")[-1]
    assert {"time", "level", "process", "event", "endpoint", "status", "rows", "milliseconds"} == set(logged)


def test_openapi_describes_every_call_and_the_model_now_serving(service):
    document = service.get("/openapi.json").json()
    described = {(path, method.upper()) for path, calls in document["paths"].items() for method in calls}
    served = {(route.path, method) for route in service.app.routes for method in route.methods - {"HEAD"}}
    assert described == served
    body = document["components"]["schemas"]["CalibrateBody"]
    assert list(body["properties"]["scores"]["properties"]) == ["click", "effective_view", "long_view"]
    assert list(body["properties"]["fields"]["properties"]) == FIELDS
    assert service.post("/v1/calibrate", json=body["example"]).status_code == 200
