"""Bodies nobody would send: never a 5xx, never half an answer; fifty thousand: `benchmarks/serving/body_fuzz.py`."""

import importlib.util
import json
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "serving" / "body_fuzz.py"
N_BODIES = 2_000
TOKEN = "a token for the tests only"
FIELDS = ["site_id", "ad_id", "country", "hour", "position", "device"]
TASKS = ["click", "effective_view", "long_view"]
CALLS = ["/v1/calibrate", "/v1/feedback"]

bounded = settings(
    max_examples=25,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def found():
    spec = importlib.util.spec_from_file_location("body_fuzz", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.run(N_BODIES)


def test_nearly_right_bodies_get_no_5xx_and_no_half_answer(found):
    assert found["problems"][:3] == []
    assert sum(found["statuses"].values()) == N_BODIES
    # enough of them are right, and the others are refused for many reasons
    assert found["statuses"][200] > N_BODIES / 20
    assert {400, 401, 404, 422} <= set(found["statuses"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("path", CALLS)
def test_what_is_made_from_the_document_is_answered_as_it_says(service, path, mode):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    call = schemathesis.openapi.from_dict(service.get("/openapi.json").json())[path]["POST"]
    asked = [not_a_server_error, checks.status_code_conformance]
    asked += [checks.content_type_conformance, checks.response_schema_conformance]

    @bounded
    @given(case=call.as_strategy(generation_mode=schemathesis.GenerationMode(mode)))
    def ask(case):
        content = case.body if isinstance(case.body, bytes) else json.dumps(case.body).encode("utf-8", "replace")
        answer = service.post(path, content=content, headers={"authorization": f"Bearer {TOKEN}"})
        case.validate_response(answer, checks=asked)

    ask()


def test_right_requests_with_strange_values_are_answered_whole(service):
    strange = st.text(max_size=20) | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.none()

    @settings(bounded, max_examples=60)
    @given(data=st.data(), n_rows=st.integers(1, 5))
    def ask(data, n_rows):
        scores = {task: data.draw(st.lists(st.floats(0.0, 1.0), min_size=n_rows, max_size=n_rows)) for task in TASKS}
        fields = {name: data.draw(st.lists(strange, min_size=n_rows, max_size=n_rows)) for name in FIELDS}
        try:
            content = json.dumps({"scores": scores, "fields": fields}, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # a lone surrogate is no text
            return
        answer = service.post("/v1/calibrate", content=content)
        assert answer.status_code == 200, answer.text
        columns = answer.json()["probabilities"].values()
        assert all(len(column) == n_rows and all(0.0 <= p <= 1.0 for p in column) for column in columns)

    ask()
