"""Another model under traffic: whole or not at all, and whatever lies in the folder."""

import shutil
import threading

import numpy as np
import pytest

import monocal
from monocal.monitoring.registry import Step, promote, read_registry, rollback, write_history

TOKEN = "a token for the tests only"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, publish):
    return publish("one", tmp_path_factory.mktemp("published") / "model")


@pytest.fixture(scope="module")
def service(serve_here, folder):
    return serve_here(folder, token=TOKEN)


def version_of(service, body, log):
    answer = service.post("/v1/calibrate", json=body(log.slice(0, 1)))
    assert answer.status_code == 200, answer.text
    return answer.json()["version"]


@pytest.fixture(autouse=True)
def _back_to_the_first(service, publish, folder, versions):
    yield
    shutil.rmtree(folder, ignore_errors=True)
    publish("one", folder)
    assert service.load().json()["version"] == versions["one"]


def test_a_published_model_is_switched_to_by_an_admin_call(service, publish, folder, body, log, versions):
    publish("two", folder)
    assert version_of(service, body, log) == versions["one"]
    answer = service.load()
    assert answer.json() == {"model": "model", "outcome": "switched", "version": versions["two"]}
    assert version_of(service, body, log) == versions["two"]
    assert service.load().json()["outcome"] == "unchanged"
    assert service.metric("monocal_model_info", model="model", version=versions["two"]) == 1.0


def test_under_traffic_every_answer_is_whole_and_comes_from_one_model(service, publish, folder, models, log, body):
    table = log.slice(0, 20)
    said = body(table)
    expected = {}
    for name in ("one", "two"):
        model = monocal.load(models / name)
        rows = {**table.to_pydict(), "device": [said["shared"]["device"]] * 20}
        expected[model.fingerprint] = {task: column.tolist() for task, column in model.predict(rows).items()}
    stop = threading.Event()
    wrong, seen = [], set()

    def ask():
        while not stop.is_set():
            answer = service.post("/v1/calibrate", json=said)
            got = answer.json()
            seen.add(got.get("version"))
            if answer.status_code != 200 or got["probabilities"] != expected[got["version"]]:
                wrong.append(answer.text)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for name in ("two", "one", "two", "one", "two"):
        publish(name, folder)
        assert service.load().json()["outcome"] == "switched"
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert seen == set(expected)


REFUSED = {
    "damaged": "model/state.safetensors: the contents do not match the manifest's fingerprint",
    "gone": "model: there is no such folder; a saved model is a folder with manifest.json in it",
    "for other requests": "the new model asks for other requests than the one serving: fields [] instead of",
}


@pytest.mark.parametrize("lies_there", REFUSED)
def test_what_is_not_sound_leaves_the_old_one_serving_and_says_why(
    service, publish, damage, folder, models, body, log, versions, lies_there
):
    n_refused = len(service.events("model refused"))
    if lies_there == "damaged":
        damage(models / "two", folder)
    elif lies_there == "gone":
        shutil.rmtree(folder)
    else:
        publish("platt", folder)
    answer = service.load()
    assert answer.status_code == 409
    said = answer.json()
    assert REFUSED[lies_there] in said["error"]
    assert f"{versions['one']} goes on serving" in said["error"]
    assert str(folder.parent) not in answer.text
    assert version_of(service, body, log) == versions["one"]
    assert service.get("/v1/models/model").json()["last_refusal"] in said["error"]
    assert service.wait_for_event("model refused", n_refused + 1)["level"] == "error"


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": TOKEN},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": b"Bearer \xff\xfe"},
    ],
)
def test_a_call_without_the_token_is_refused(service, publish, folder, body, log, versions, header):
    publish("two", folder)
    for path, said in (("/v1/models/model/load", {}), ("/v1/feedback", {"labels": {}, "probabilities": {}})):
        answer = service.post(path, headers=header, json=said)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
    assert version_of(service, body, log) == versions["one"]
    assert TOKEN not in str(service.lines)


@pytest.mark.parametrize("name", ["..", "%2e%2e%2fother", "/etc", "model%00", "other"])
def test_no_name_in_a_request_reaches_the_file_system(service, name):
    answer = service.post(f"/v1/models/{name}/load", headers={"authorization": f"Bearer {TOKEN}"})
    assert answer.status_code in (404, 405)


def test_a_watched_folder_is_followed_and_a_bad_model_in_it_is_refused(
    serve_here, tmp_path, publish, damage, models, body, log, versions, wait
):
    folder = publish("one", tmp_path / "model")
    service = serve_here(folder, watch=True, watch_seconds=0.02)
    publish("two", folder)
    wait(lambda: version_of(service, body, log) == versions["two"], "the watched model")
    damage(models / "one", folder)
    service.wait_for_event("model refused")
    assert version_of(service, body, log) == versions["two"]
    publish("one", folder)
    wait(lambda: version_of(service, body, log) == versions["one"], "the good model")


def test_a_registry_is_followed_and_what_was_not_promoted_is_not_served(
    serve_here, models, versions, tmp_path, body, log, wait
):
    registry = tmp_path / "ads"
    promote(models / "one", registry)
    service = serve_here(registry, watch_seconds=0.02)
    promote(models / "two", registry)
    wait(lambda: version_of(service, body, log) == versions["two"], "the promoted model")
    rollback(registry)
    wait(lambda: version_of(service, body, log) == versions["one"], "the earlier model")
    assert service.get("/v1/models").json() == {
        "models": [{"model": "ads", "version": versions["one"], "answers": True}]
    }
    # another model lies where the promoted one should
    monocal.load(models / "two").save(read_registry(registry).folder / "models" / ("0" * 32))
    forged = Step("promote", 3, "0" * 32, "2026-01-01T00:00:00+00:00")
    write_history(registry, (*read_registry(registry).history, forged))
    assert "was not promoted" in service.wait_for_event("model refused")["reason"]
    (registry / "registry.json").write_text("{")
    assert str(registry) not in service.wait_for_event("model refused", 2)["reason"]
    assert version_of(service, body, log) == versions["one"]


def test_a_shadow_is_compared_and_never_answers(serve_here, publish, models, versions, log, body, tmp_path, wait):
    beside = publish("two", tmp_path / "candidate")
    service = serve_here(models / "one", name="model", shadow=beside, token=TOKEN)
    said = body(log.slice(200, 40))
    answer = service.post("/v1/calibrate", json=said).json()
    rows = {**log.slice(200, 40).to_pydict(), "device": [said["shared"]["device"]] * 40}
    one, two = (monocal.load(models / name).predict(rows)["click"] for name in ("one", "two"))
    assert np.array_equal(answer["probabilities"]["click"], one)
    assert "shadow" not in str(answer)
    assert service.metric("monocal_shadow_rows_total", task="click") == 40
    n_beyond = int(np.count_nonzero(np.abs(one - two) > 1e-3))
    assert n_beyond > 0
    assert service.metric("monocal_shadow_rows_beyond_total", task="click", difference="0.001") == n_beyond
    for model, expected in (("active", one), ("shadow", two)):
        got = service.metric("monocal_shadow_probability_total", task="click", model=model)
        assert got == pytest.approx(expected.sum())
    publish("one", beside)
    assert service.load("shadow").json()["outcome"] == "switched"
    assert service.get("/v1/models/shadow").json()["version"] == versions["one"]


def test_a_shadow_that_cannot_be_compared_harms_no_answer(serve_here, models):
    service = serve_here(models / "platt", shadow=models / "one", name="model")
    for said, outcome in (({"ids": [[], []]}, "incomparable"), ({}, "compared")):
        answer = service.post("/v1/calibrate", json={"scores": {"click": [0.1, 0.2]}, **said})
        assert answer.status_code == 200, answer.text
        assert service.metric("monocal_shadow_requests_total", outcome=outcome) == 1.0
