"""A second model on the same traffic: counted, never answered with."""

import numpy as np
import pytest

import monocal

TOKEN = "a token for the tests only"


@pytest.fixture(scope="module")
def shadow_folder(publish, tmp_path_factory):
    return publish("two", tmp_path_factory.mktemp("shadow") / "candidate")


@pytest.fixture(scope="module")
def service(start, models, shadow_folder):
    return start(models / "one", name="model", shadow=str(shadow_folder), token=TOKEN).wait_until_ready()


def test_answers_come_from_the_active_model_alone(service, models, log, body):
    table = log.slice(0, 40)
    said = body(table)
    answer = service.client.post("/v1/calibrate", json=said).json()
    rows = {**table.to_pydict(), "device": [said["shared"]["device"]] * 40}
    offline = monocal.load(models / "one").predict(rows)
    assert np.array_equal(answer["probabilities"]["click"], offline["click"])
    assert "shadow" not in str(answer)


def test_differences_between_the_two_are_counted(service, models, log, body, wait):
    table = log.slice(200, 40)
    said = body(table)
    rows = {**table.to_pydict(), "device": [said["shared"]["device"]] * 40}
    one, two = (monocal.load(models / name).predict(rows)["click"] for name in ("one", "two"))
    names = {"task": "click"}
    before = {
        "rows": service.metric("monocal_shadow_rows_total", **names) or 0.0,
        "beyond": service.metric("monocal_shadow_rows_beyond_total", difference="0.001", **names) or 0.0,
        "active": service.metric("monocal_shadow_probability_total", model="active", **names) or 0.0,
        "shadow": service.metric("monocal_shadow_probability_total", model="shadow", **names) or 0.0,
    }
    assert service.client.post("/v1/calibrate", json=said).status_code == 200
    wait(lambda: service.metric("monocal_shadow_rows_total", **names) == before["rows"] + 40, "the shadow")
    n_beyond = int(np.count_nonzero(np.abs(one - two) > 1e-3))
    assert n_beyond > 0
    assert (
        service.metric("monocal_shadow_rows_beyond_total", difference="0.001", **names) == before["beyond"] + n_beyond
    )
    for model, expected in (("active", one), ("shadow", two)):
        got = service.metric("monocal_shadow_probability_total", model=model, **names) - before[model]
        assert got == pytest.approx(expected.sum())


def test_the_shadow_is_swapped_by_its_own_name(service, publish, shadow_folder, versions):
    assert service.client.get("/v1/models/shadow").json()["version"] == versions["two"]
    publish("one", shadow_folder)
    assert service.load("shadow").json()["outcome"] == "switched"
    assert service.client.get("/v1/models/shadow").json()["version"] == versions["one"]
    assert service.client.get("/v1/models/model").json()["version"] == versions["one"]


def test_a_shadow_that_cannot_be_compared_harms_no_answer(start, models, log, body, wait):
    service = start(models / "platt", shadow=str(models / "one"), name="model").wait_until_ready()
    said = {"scores": {"click": [0.1, 0.2]}, "ids": [[], []]}
    answer = service.client.post("/v1/calibrate", json=said)
    assert answer.status_code == 200, answer.text
    wait(lambda: service.metric("monocal_shadow_requests_total", outcome="incomparable") == 1.0, "the shadow")
    # without ids the shadow takes the fields it misses as unseen
    assert service.client.post("/v1/calibrate", json={"scores": {"click": [0.1]}}).status_code == 200
    wait(lambda: service.metric("monocal_shadow_requests_total", outcome="compared") == 1.0, "the shadow")
