"""The online level in a real service with two workers: learned, the same everywhere, replayable, removable."""

import numpy as np
import pytest

from monocal.core.errors import InvalidInput
from monocal.operations.online_level import replay
from monocal.serving import Settings

TOKEN = "a token for the tests only"
HEADERS = {"authorization": f"Bearer {TOKEN}"}
RULES = {"level_batch_rows": 200, "level_fields": "site_id"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("labels") / "level"


@pytest.fixture(scope="module")
def service(start, models, folder):
    return start(models / "one", name="model", token=TOKEN, workers=2, level_folder=str(folder), **RULES)


@pytest.fixture(scope="module")
def asked(service, body, log):
    """The body of a request, and its answer before any label."""
    said = body(log.slice(0, 100), tasks=("click",))
    return said, service.wait_until_ready().client.post("/v1/calibrate", json=said).json()


def label(service, said, answer, labels):
    back = {name: answer[name] for name in ("probabilities", "corrections", "version")}
    sites = {"site_id": said["fields"]["site_id"]}
    return service.client.post("/v1/feedback", headers=HEADERS, json={**back, "labels": labels, "fields": sites})


def corrections(service, said):
    return {tuple(answer.json()["corrections"]["click"]) for answer in service.ask(said, times=8)}


def test_labels_move_every_worker_alike_and_the_log_gives_the_same_bits(service, asked, folder, wait):
    said, first = asked
    assert set(first["corrections"]["click"]) == {0.0}
    for _ in range(6):
        answer = service.client.post("/v1/calibrate", json=said).json()
        told = label(service, said, answer, {"click": [1] * 100})
        assert told.json() == {"counted": {"click": 100}, "learned": True}, told.text
    wait(lambda: len(corrections(service, said)) == 1, "the same correction in both workers")
    (found,) = corrections(service, said)
    version, level = replay(folder)
    assert version == first["version"]
    assert level.n_steps("click") == 3
    wait(lambda: service.client.get("/v1/models/model/level").json()["tasks"] == level.summary(), "the level served")
    assert service.metric("monocal_online_level", task="click") == level.summary()["click"]["level"] > 0.0
    now = service.client.post("/v1/calibrate", json=said).json()
    p, q = (np.array(answer["probabilities"]["click"]) for answer in (first, now))
    np.testing.assert_allclose(np.log(q / (1 - q)) - np.log(p / (1 - p)), found, atol=1e-6)


def test_a_restarted_service_goes_on_where_it_was(service, asked, start, models, folder):
    said, _ = asked
    (before,) = corrections(service, said)
    again = start(models / "one", name="model", token=TOKEN, level_folder=str(folder), **RULES).wait_until_ready()
    assert corrections(again, said) == {before}
    again.end()


def test_labels_of_another_model_are_counted_and_not_learned(service, asked):
    said, first = asked
    told = label(service, said, {**first, "version": "0" * 32}, {"click": [0] * 100})
    assert told.json() == {"counted": {"click": 100}, "learned": False}


def test_feedback_that_cannot_be_placed_is_refused(service, asked):
    _, first = asked
    plain = {"probabilities": first["probabilities"], "labels": {"click": [0] * 100}}
    assert service.client.post("/v1/feedback", json=plain).status_code == 401
    answer = service.client.post("/v1/feedback", json=plain, headers=HEADERS)
    assert answer.status_code == 422
    assert "version and corrections" in answer.json()["error"]
    whole = {**plain, "version": first["version"], "corrections": first["corrections"]}
    answer = service.client.post("/v1/feedback", json=whole, headers=HEADERS)
    assert (answer.status_code, "site_id" in answer.json()["error"]) == (422, True)


def test_one_call_removes_the_level_everywhere(service, asked, wait):
    said, first = asked
    assert service.client.post("/v1/models/model/level/reset").status_code == 401
    assert service.client.post("/v1/models/model/level/reset", headers=HEADERS).json()["tasks"] == {}
    wait(lambda: corrections(service, said) == {(0.0,) * 100}, "no correction in any worker")
    answer = service.client.post("/v1/calibrate", json=said).json()
    assert answer["probabilities"] == first["probabilities"]


def test_without_a_token_there_is_no_level(models, tmp_path):
    with pytest.raises(InvalidInput, match="token"):
        Settings(models / "one", level_folder=tmp_path / "level")
