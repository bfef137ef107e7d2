"""Exchanging the model under traffic, and everything that must not take the old one down."""

import shutil
import threading
from dataclasses import replace

import pytest

import monocal

TOKEN = "a token for the tests only"
FIELDS = ["site_id", "ad_id", "country", "hour", "position", "device"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("published") / "model"


@pytest.fixture(scope="module")
def service(start, publish, folder):
    publish("one", folder)
    return start(folder, token=TOKEN).wait_until_ready()


@pytest.fixture(scope="module")
def watching(start, publish, tmp_path_factory):
    folder = publish("one", tmp_path_factory.mktemp("watched") / "model")
    return start(folder, watch=True, watch_seconds=0.1).wait_until_ready(), folder


def version_of(service, body, log):
    answer = service.client.post("/v1/calibrate", json=body(log.slice(0, 1)))
    assert answer.status_code == 200, answer.text
    return answer.json()["version"]


@pytest.fixture(autouse=True)
def _back_to_the_first(service, publish, folder, versions):
    publish("one", folder)
    answer = service.load().json()
    assert answer["version"] == versions["one"]


def test_a_published_model_is_switched_to_by_an_admin_call(service, publish, folder, body, log, versions):
    publish("two", folder)
    assert version_of(service, body, log) == versions["one"]
    answer = service.load()
    assert answer.status_code == 200
    assert answer.json() == {
        "model": "model",
        "outcome": "switched",
        "version": versions["two"],
        "workers": {"pending": 0, "switched": 1, "unchanged": 0, "refused": 0},
    }
    assert version_of(service, body, log) == versions["two"]
    assert service.load().json()["outcome"] == "unchanged"
    assert service.metric("monocal_model_info", model="model", version=versions["two"]) == 1.0


def test_the_old_model_is_freed_once_its_requests_are_done(service, publish, folder, versions):
    before = len(service.events("model drained"))
    publish("two", folder)
    service.load()
    drained = service.wait_for_event("model drained", before + 1)
    assert drained["version"] == versions["one"]


def test_under_traffic_every_answer_is_whole_and_comes_from_one_model(service, publish, folder, models, log, body):
    table = log.slice(0, 20)
    said = body(table)
    expected = {}
    for name in ("one", "two"):
        model = monocal.load(models / name)
        rows = {**table.to_pydict(), "device": [said["shared"]["device"]] * 20}
        answers = {task: column.tolist() for task, column in model.predict(rows).items()}
        expected[monocal.models.read_manifest(models / name)["fingerprint"]] = answers
    stop = threading.Event()
    wrong, seen = [], set()

    def ask():
        import httpx

        with httpx.Client(base_url=service.url, timeout=120.0) as client:
            while not stop.is_set():
                answer = client.post("/v1/calibrate", json=said)
                if answer.status_code != 200:
                    wrong.append(answer.text)
                    continue
                got = answer.json()
                seen.add(got["version"])
                if got["probabilities"] != expected[got["version"]]:
                    wrong.append(got)

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


def test_a_damaged_artefact_leaves_the_old_one_serving_and_says_why(
    service, damage, folder, models, body, log, versions
):
    damage(models / "two", folder)
    answer = service.load()
    assert answer.status_code == 409
    said = answer.json()
    assert said["error"].startswith("model/state.safetensors: the contents do not match the manifest's fingerprint")
    assert said["version"] == versions["one"]
    assert str(folder.parent) not in answer.text
    assert version_of(service, body, log) == versions["one"]
    assert service.client.get("/v1/models/model").json()["last_refusal"] in said["error"]
    assert service.events("model refused")[-1]["level"] == "error"
    assert service.metric("monocal_model_loads_total", model="model", outcome="refused") >= 1.0


def test_a_model_with_other_canary_answers_is_refused(service, folder, models, body, log, versions):
    model = monocal.load(models / "two")
    moved = {**model.canary, "answer0": model.canary["answer0"] + 0.01}
    replace(model, canary=moved).save(folder)
    answer = service.load()
    assert answer.status_code == 409
    assert "canary rows differ by 1.00e-02" in answer.json()["error"]
    assert version_of(service, body, log) == versions["one"]


def test_a_model_that_falls_somewhere_is_refused(service, folder, log, body, versions):
    tasks = {"click": ("click", "pctr"), "effective_view": ("click", "pev"), "long_view": ("click", "plv")}
    model = monocal.fit(log, method="wide_logistic", tasks=tasks, fields=FIELDS)
    model = model.with_fusion(monocal.models.Fusion({"click": 1.0}))
    model.task("click").calibrator.slope_ = -0.5
    replace(model, canary={}).save(folder)
    answer = service.load()
    assert answer.status_code == 409
    assert "task 'click': the prediction falls" in answer.json()["error"]
    assert version_of(service, body, log) == versions["one"]


def test_a_model_that_would_turn_right_requests_into_wrong_ones_is_refused(service, publish, folder, body, log):
    publish("platt", folder)
    answer = service.load()
    assert answer.status_code == 409
    assert "the new model asks for other requests than the one serving: fields [] instead of" in answer.json()["error"]
    version_of(service, body, log)


def test_a_folder_that_is_gone_leaves_the_old_one_serving(service, publish, folder, body, log, versions):
    shutil.rmtree(folder)
    answer = service.load()
    assert answer.status_code == 409
    assert "the model folder cannot be read: it does not exist" in answer.json()["error"]
    assert version_of(service, body, log) == versions["one"]


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
def test_an_admin_call_without_the_token_is_refused(service, publish, folder, body, log, versions, header):
    publish("two", folder)
    answer = service.client.post("/v1/models/model/load", headers=header)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert version_of(service, body, log) == versions["one"]


@pytest.mark.parametrize("name", ["..", "%2e%2e%2fother", "/etc", "model%00", "other"])
def test_no_name_in_a_request_reaches_the_file_system(service, name):
    answer = service.client.post(f"/v1/models/{name}/load", headers={"authorization": f"Bearer {TOKEN}"})
    assert answer.status_code in (404, 405)


def test_the_token_is_never_logged(service):
    assert TOKEN not in "".join(service.raw_log)


def test_a_watched_folder_is_loaded_when_it_changes(watching, publish, body, log, versions, wait):
    service, folder = watching
    publish("two", folder)
    wait(lambda: version_of(service, body, log) == versions["two"], "the watched model")


def test_a_watched_folder_that_goes_bad_is_refused_once_and_loaded_when_it_is_good_again(
    watching, publish, damage, models, body, log, versions, wait
):
    service, folder = watching
    publish("one", folder)
    wait(lambda: version_of(service, body, log) == versions["one"], "the first model")
    n_refused = len(service.events("model refused"))
    damage(models / "two", folder)
    service.wait_for_event("model refused", n_refused + 1)
    assert version_of(service, body, log) == versions["one"]
    publish("two", folder)
    wait(lambda: version_of(service, body, log) == versions["two"], "the good model")
    assert len(service.events("model refused")) <= n_refused + 2
