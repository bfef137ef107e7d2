"""A service of a registry serves what is active there, and nothing else."""

import pytest

import monocal
from monocal.monitoring.registry import Step, promote, read_registry, rollback, write_history

SERVED = {"watch_seconds": 0.1}


@pytest.fixture(scope="module")
def registry(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("home") / "ads"
    promote(models / "one", folder)
    return folder


@pytest.fixture(scope="module")
def service(start, registry):
    return start(registry, **SERVED, workers=2).wait_until_ready()


def versions_answered(service, body, log):
    return {answer.json()["version"] for answer in service.ask(body(log.slice(0, 1)), times=6)}


def test_the_service_follows_promotions_and_rollbacks(service, registry, models, versions, body, log, wait):
    assert versions_answered(service, body, log) == {versions["one"]}
    promote(models / "two", registry)
    wait(lambda: versions_answered(service, body, log) == {versions["two"]}, "the promoted model in every worker")
    rollback(registry)
    wait(lambda: versions_answered(service, body, log) == {versions["one"]}, "the earlier model in every worker")
    listed = service.client.get("/v1/models").json()
    assert listed == {"models": [{"model": "ads", "version": versions["one"], "answers": True}]}


def test_what_was_not_promoted_is_not_served(service, registry, models, versions, body, log, wait):
    before = registry / "registry.json"
    sound = before.read_text()
    # another model lies where the promoted one should
    place = read_registry(registry).folder / "models" / ("0" * 32)
    monocal.load(models / "two").save(place)
    forged = Step("promote", 3, "0" * 32, "2026-01-01T00:00:00+00:00")
    refused = len(service.events("model refused"))
    write_history(registry, (*read_registry(registry).history, forged))
    reason = service.wait_for_event("model refused", refused + 1)["reason"]
    assert "was not promoted" in reason
    assert versions_answered(service, body, log) == {versions["one"]}
    before.write_text("{")
    reason = service.wait_for_event("model refused", refused + 2)["reason"]
    assert str(registry) not in reason
    assert versions_answered(service, body, log) == {versions["one"]}
    before.write_text(sound)
