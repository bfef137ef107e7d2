"""Bodies nobody would send, made from the OpenAPI document and from thin air: never a 5xx, never a partial answer."""

import json
import struct
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

FIELDS = ["site_id", "ad_id", "country", "hour", "position", "device"]
TASKS = ["click", "effective_view", "long_view"]
OPERATIONS = [
    "POST /v1/calibrate",
    "POST /v1/feedback",
    "POST /v2/models/{name}/infer",
    "POST /v1/models/{name}/load",
    "GET /v1/models/{name}",
    "GET /v2/models/{name}",
    "GET /v2/models/{name}/ready",
    "GET /v2",
    "GET /v2/health/live",
    "GET /v2/health/ready",
    "GET /healthz",
    "GET /v1/models",
    "GET /metrics",
]
WITH_BODY = OPERATIONS[:3]
"""The others take nothing that could be of a wrong type."""

bounded = settings(
    max_examples=25,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def service(start, models):
    return start(models / "one", name="model", max_rows=20).wait_until_ready()


@pytest.fixture(scope="module")
def api(service):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import schemathesis
    return schemathesis.openapi.from_dict(service.client.get("/openapi.json").json())


def test_every_operation_of_the_document_is_fuzzed(api):
    found = {f"{operation.ok().method.upper()} {operation.ok().path}" for operation in api.get_all_operations()}
    assert found == set(OPERATIONS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("operation", "mode"),
    [(operation, "positive") for operation in OPERATIONS]
    + [(operation, "negative") for operation in OPERATIONS if operation in WITH_BODY],
)
def test_nothing_made_from_the_document_gets_a_5xx(api, service, operation, mode):
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
    method, path = operation.split()
    one = api[path][method]

    @bounded
    @given(case=one.as_strategy(generation_mode=GenerationMode(mode)))
    def ask(case):
        if case.path_parameters and mode == "positive" and len(case.path_parameters["name"]) % 4:
            case.path_parameters["name"] = "model"
        case.call_and_validate(base_url=service.url, checks=checks, timeout=120.0)

    ask()


texts = st.text(max_size=20)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | texts
anything = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4))
numbers = st.floats(0.0, 1.0) | st.sampled_from([0, 1, -1, 1e308, 1e-320, 2**63, -0.0])
names = st.sampled_from([*TASKS, *FIELDS]) | texts
columns = st.lists(numbers | leaves, max_size=4)
near_misses = st.fixed_dictionaries(
    {"scores": st.dictionaries(names, columns, max_size=3) | anything},
    optional={
        "shared": st.dictionaries(names, leaves, max_size=6) | anything,
        "fields": st.dictionaries(names, st.lists(leaves, max_size=4), max_size=6) | anything,
        "ids": st.lists(st.lists(st.integers(-2, 2**70), max_size=7), max_size=4) | anything,
        "sampling_rate": numbers | columns | anything,
        "fusion": st.fixed_dictionaries({"weights": st.dictionaries(names, numbers, max_size=3)}) | anything,
        "other": columns | anything,
    },
)


def check_whole(answer):
    """A 200 has a finite probability for every row and task; anything else has a reason."""
    assert answer.status_code < 500, answer.text
    said = answer.json()
    if answer.status_code != 200:
        assert set(said) >= {"error", "kind"}
        return
    lengths = {len(column) for column in said["probabilities"].values()}
    assert len(lengths) == 1
    values = np.array(list(said["probabilities"].values()), dtype=np.float64)
    assert np.isfinite(values).all()
    assert ((values >= 0.0) & (values <= 1.0)).all()


def dumped(value):
    """Writes JSON as a careless client would: with NaN and infinity."""
    return json.dumps(value).encode("utf-8", "surrogatepass")


def test_near_misses_of_a_request_are_answered_whole_or_refused(service):
    @settings(bounded, max_examples=150)
    @given(said=near_misses)
    def ask(said):
        check_whole(service.client.post("/v1/calibrate", content=dumped(said)))

    ask()


def test_right_requests_with_strange_values_are_answered_whole(service):
    strange = texts | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.none()

    @settings(bounded, max_examples=60)
    @given(data=st.data(), n_rows=st.integers(1, 5))
    def ask(data, n_rows):
        scores = {task: data.draw(st.lists(st.floats(0.0, 1.0), min_size=n_rows, max_size=n_rows)) for task in TASKS}
        fields = {name: data.draw(st.lists(strange, min_size=n_rows, max_size=n_rows)) for name in FIELDS}
        try:
            content = json.dumps({"scores": scores, "fields": fields}, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # a lone surrogate is no text
            return
        answer = service.client.post("/v1/calibrate", content=content)
        assert answer.status_code == 200, answer.text
        check_whole(answer)

    ask()


def test_raw_bytes_are_refused(service):
    @settings(bounded, max_examples=50)
    @given(content=st.binary(max_size=200), length=st.none() | st.integers(-5, 300))
    def ask(content, length):
        headers = {} if length is None else {"inference-header-content-length": str(length)}
        for path in ("/v1/calibrate", "/v1/feedback", "/v2/models/model/infer"):
            assert 400 <= service.client.post(path, content=content, headers=headers).status_code < 500

    ask()


def test_binary_tensors_of_any_bytes_are_answered_or_refused(service):
    types = st.sampled_from(["BYTES", "FP64", "FP32", "FP16", "INT64", "UINT8", "BOOL", "FP128"])
    tensor_names = st.sampled_from(["score.click", "field.site_id", "ids", "sampling_rate", "field.device", "x"])
    tensors = st.lists(
        st.tuples(tensor_names, types, st.lists(st.integers(0, 4), max_size=3), st.binary(max_size=40)), max_size=4
    )

    @settings(bounded, max_examples=100)
    @given(tensors=tensors)
    def ask(tensors):
        described = [
            {"name": name, "datatype": kind, "shape": shape, "parameters": {"binary_data_size": len(raw)}}
            for name, kind, shape, raw in tensors
        ]
        head = json.dumps({"inputs": described}).encode()
        answer = service.client.post(
            "/v2/models/model/infer",
            content=head + b"".join(raw for *_, raw in tensors),
            headers={"inference-header-content-length": str(len(head))},
        )
        assert answer.status_code < 500, answer.text

    ask()


def test_any_floats_as_binary_scores_are_answered_whole_or_refused(service):
    @settings(bounded, max_examples=80)
    @given(scores=st.lists(st.floats(), min_size=1, max_size=5))
    def ask(scores):
        raw = struct.pack(f"<{len(scores)}d", *scores)
        ids = {"name": "ids", "datatype": "INT32", "shape": [len(scores), 6], "data": [0] * (6 * len(scores))}
        head = json.dumps(
            {
                "inputs": [
                    {
                        "name": "score.click",
                        "datatype": "FP64",
                        "shape": [len(scores)],
                        "parameters": {"binary_data_size": len(raw)},
                    },
                    ids,
                ]
            }
        ).encode()
        answer = service.client.post(
            "/v2/models/model/infer",
            content=head + raw,
            headers={"inference-header-content-length": str(len(head))},
        )
        if all(0.0 <= score <= 1.0 for score in scores):
            assert answer.status_code == 200, answer.text
            column = answer.json()["outputs"][0]["data"]
            assert len(column) == len(scores)
            assert np.isfinite(column).all()
        else:
            assert answer.status_code == 422, answer.text

    ask()


def test_no_request_failed_inside(service):
    assert not service.events("request failed")
    for endpoint in ("calibrate", "feedback", "infer", "load", "none"):
        assert service.metric("monocal_requests_total", endpoint=endpoint, status="500") is None
