"""`POST /v1/calibrate` and its neighbours: numbers to the last bit, and one clear line about what is wrong."""

import math
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
        (b"{", 400, "malformed JSON"),
        (b'{"scores": {"click": [NaN]}}', 400, "JSON has no NaN"),
        (b'{"scores": {"click": [1e999]}}', 422, "scores of 'click': got number out of range at row 0"),
        (b'\xff\xfe{"a": 1}', 400, "malformed JSON"),
        (b'{"scores": {"a\xff": [1]}}', 400, "malformed JSON"),
        (b"[" * 100_000, 422, "body: got array; expected object"),
        (b'{"scores":{"click":[0.1]},"shared":{"site_id":"\\ud800"}}', 400, "malformed JSON"),
        (7, 422, "body: got int; expected object"),
        ({}, 422, "scores: got nothing; expected a value"),
        (bad(score={}), 422, "member of body: got 'score'; .* did you mean 'scores'"),
        (bad(scores=[0.1]), 422, "scores: got array; expected object"),
        (bad(scores={"click": 0.1}), 422, "scores of 'click': got float; expected array"),
        (bad(scores={"click": [0.1, "0.1"]}), 422, "scores of 'click': got str at row 1; expected float"),
        (bad(scores={"click": [None]}), 422, "scores of 'click': got null at row 0"),
        (bad(scores={"click": [True]}), 422, "scores of 'click': got bool at row 0"),
        (bad(scores={"click": [1.5]}), 422, r"scores of 'click': got 1.5 at row 0; expected probabilities in \[0, 1\]"),
        (bad(scores={"clicks": [0.1]}), 422, "task: got 'clicks'; .* did you mean 'click'"),
        (bad(scores={"click": MANY}), 413, "scores of 'click': got 51 entries; expected at most 50"),
        (bad(fields=fields(ad_id=MANY)), 413, "field 'ad_id': got 51 entries; expected at most 50"),
        (bad(fields=fields(ad_id="a")), 422, "field 'ad_id': got str; expected array"),
        (bad(fields=fields(ad_id=[{"a": []}])), 422, "field 'ad_id': got object at row 0; expected bool"),
        (bad(fields=fields(ad=["a"])), 422, "field: got 'ad'; .* did you mean 'ad_id'"),
        (bad(shared={"ad_id": [1]}), 422, "field 'ad_id': got array; expected bool"),
        (bad(fields={}, ids=[[1, 2, 3]]), 422, "ids: got 3 at row 0; expected a list of 6 integers"),
        (bad(fields={}, ids=[[1, 2, 3, 4, 5, "6"]]), 422, r"ids\[0\]\[5\]: got str; expected int"),
        (bad(fields={}, ids=[[0, 0, 0, 0, 0, -1]]), 422, r"ids\[0\]\[5\]: got another value; expected int >= 0"),
        (bad(sampling_rate=0), 422, "sampling_rate: got 0; expected the share"),
        (bad(sampling_rate="0.1"), 422, "sampling_rate: got str; expected float"),
        (bad(fusion={"weights": {}}), 422, "fusion weights: got no task"),
        (bad(fusion={"weights": {"clic": 1}}), 422, "task of fusion: got 'clic'"),
        (bad(fusion={"weights": {"click": "1"}}), 422, "fusion weights of 'click': got str; expected float"),
        (bad(fusion={"weights": {"click": 1}, "powers": {"click": 0}}), 422, "fusion power of 'click': got 0"),
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
        ("POST", "/v1/models/model/load", 403),
    ],
)
def test_paths_and_methods_that_do_not_exist_are_refused_in_json(service, method, path, status):
    answer = service.request(method, path)
    assert answer.status_code == status
    assert set(answer.json()) == {"error", "kind"}


def test_metrics_count_requests_rows_and_unseen_values(service, log, body):
    before = service.metric("monocal_rows_total") or 0.0
    said = body(log.slice(0, 10))
    said["fields"]["country"] = ["nowhere"] * 10
    share_before = service.metric("monocal_field_unseen_share", field="country") or 0.0
    answered = service.metric("monocal_requests_total", endpoint="calibrate", status="200") or 0.0
    for _ in range(5):
        assert service.post("/v1/calibrate", json=said).status_code == 200
    assert service.metric("monocal_rows_total") == before + 50
    assert service.metric("monocal_requests_total", endpoint="calibrate", status="200") == answered + 5
    assert service.metric("monocal_request_seconds_count", endpoint="calibrate") >= 5
    assert service.metric("monocal_field_unseen_share", field="country") > share_before


def test_running_pcoc_comes_from_labels_sent_back(service):
    assert service.metric("monocal_pcoc", task="long_view") is None
    said = {"probabilities": {"long_view": [0.5, 0.25, 0.25, 0.5]}, "labels": {"long_view": [0, 0.0, 0, None]}}
    assert service.post("/v1/feedback", json=said).json() == {"counted": {"long_view": 3}}
    assert math.isnan(service.metric("monocal_pcoc", task="long_view"))
    said = {"probabilities": {"long_view": [0.2]}, "labels": {"long_view": [1]}}
    assert service.post("/v1/feedback", json=said).status_code == 200
    assert service.metric("monocal_pcoc", task="long_view") == pytest.approx(1.2)
    assert service.metric("monocal_feedback_rows_total", task="long_view") == 4.0


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({}, "probabilities: got nothing; expected a value"),
        ({"labels": {}, "probabilities": {}}, "labels: got no task"),
        ({"labels": {"click": [1]}, "probabilities": {}}, "task 'click': got labels or probabilities alone"),
        ({"labels": {"click": [1]}, "probabilities": {"click": [0.1, 0.2]}}, "labels of 'click': got 1 of them"),
        ({"labels": {"click": [0, 2]}, "probabilities": {"click": [0.1] * 2}}, "labels of 'click': got 2 at row 1"),
        ({"labels": {"click": [1]}, "probabilities": {"click": [1.1]}}, "probabilities of 'click': got numbers beyond"),
        ({"labels": {"clic": [1]}, "probabilities": {"clic": [0.1]}}, "task: got 'clic'"),
        ({"labels": {"click": [1]}, "probabilities": {"click": [0.1]}, "id": 1}, "member of body: got 'id'"),
    ],
)
def test_feedback_that_makes_no_sense_is_refused(service, said, message):
    answer = service.post("/v1/feedback", json=said)
    assert answer.status_code == 422
    assert message in answer.json()["error"]


def test_labels_without_a_token_are_taken_at_a_bounded_rate(serve_here, models):
    service = serve_here(models / "platt", name="model")
    said = {"probabilities": {"click": [1.0] * 4000}, "labels": {"click": [0] * 4000}}
    answers = [service.post("/v1/feedback", json=said) for _ in range(30)]
    n_taken = sum(answer.status_code == 200 for answer in answers)
    refused = [answer for answer in answers if answer.status_code != 200]
    assert {answer.status_code for answer in refused} == {429}
    assert refused[0].headers["retry-after"] == "1"
    assert "feedback without a token: got more than 1000 labels per second" in refused[0].json()["error"]
    assert 1 <= n_taken < 25
    assert service.metric("monocal_feedback_rows_total", task="click") == 4000.0 * n_taken


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
    served = {
        (route.path, method)
        for route in service.app.routes
        for method in route.methods - {"HEAD"}
        if route.path != "/openapi.json"
    }
    assert described == served
    body = document["components"]["schemas"]["CalibrateBody"]
    assert list(body["properties"]["scores"]["properties"]) == ["click", "effective_view", "long_view"]
    assert list(body["properties"]["fields"]["properties"]) == FIELDS
    assert service.post("/v1/calibrate", json=body["example"]).status_code == 200
