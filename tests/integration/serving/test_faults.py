"""A failing machine: killed and stopped workers, a clock that jumps, a temporary folder that is full."""

import os
import shutil
import signal
import subprocess

import pytest

TOKEN = "a token for the tests only"
HANG_SECONDS = 5.0
JUMPING_CLOCK = """
import itertools, time
_real, _turn = time.time, itertools.count()
time.time = lambda: _real() + (86_400.0 if next(_turn) % 2 else -86_400.0)
"""
"""Every second look at the wall clock is two days away from the one before."""


@pytest.fixture(scope="module")
def folder(publish, tmp_path_factory):
    return publish("one", tmp_path_factory.mktemp("published") / "model")


@pytest.fixture(scope="module")
def service(start, folder, tmp_path_factory):
    """Two workers on a machine whose clock jumps by days all the time."""
    home = tmp_path_factory.mktemp("clock")
    (home / "sitecustomize.py").write_text(JUMPING_CLOCK)
    environment = {"PYTHONPATH": str(home)}
    service = start(folder, environment, workers=2, token=TOKEN, hang_seconds=HANG_SECONDS, feedback_rows_per_second=10)
    service.wait_for_event("model switched", 2)
    return service.wait_until_ready()


def answers(service, said, version, times=20):
    """Checks that all workers answer, and with one version."""
    found = service.ask(said, times)
    assert {answer.status_code for answer in found} == {200}
    assert {answer.json()["version"] for answer in found} == {version}


def lose(service, number):
    """Sends a signal to a worker and waits until its successor serves."""
    victim = service.living_workers()[0]
    n_died, n_switched = len(service.events("worker died")), len(service.events("model switched"))
    os.kill(victim, number)
    died = service.wait_for_event("worker died", n_died + 1)
    assert died["worker"] == victim
    service.wait_for_event("model switched", n_switched + 1)
    return died


def test_the_clock_really_jumps(service):
    assert not service.events("not JSON")
    days = {line["time"][:10] for line in service.lines}
    assert len(days) >= 2


def test_a_crashed_worker_is_replaced(service, body, log, versions):
    lose(service, signal.SIGABRT)
    answers(service, body(log.slice(0, 2)), versions["one"])


def test_a_stopped_worker_is_found_and_replaced(service, body, log, versions):
    n_hung = len(service.events("worker hung"))
    died = lose(service, signal.SIGSTOP)
    assert died["exit_code"] == -signal.SIGKILL
    assert len(service.events("worker hung")) == n_hung + 1
    answers(service, body(log.slice(0, 2)), versions["one"])


@pytest.mark.parametrize("lies_there", ["for other requests", "good, not loaded"])
def test_a_restarted_worker_takes_the_version_in_force(service, folder, publish, body, log, versions, lies_there):
    publish("platt" if lies_there == "for other requests" else "two", folder)
    assert lies_there != "for other requests" or service.load().status_code == 409
    lose(service, signal.SIGKILL)
    answers(service, body(log.slice(0, 2)), versions["one"])
    publish("one", folder)


def test_a_swap_reaches_every_worker_whatever_the_clock_says(service, folder, publish, body, log, versions):
    for name in ("two", "one"):
        publish(name, folder)
        assert service.load().json()["workers"] == {"pending": 0, "switched": 2, "unchanged": 0, "refused": 0}
        answers(service, body(log.slice(0, 2)), versions[name])


def test_labels_need_the_token_if_there_is_one(service):
    said = {"probabilities": {"click": [1.0]}, "labels": {"click": [0]}}
    refused = service.ask(said, path="/v1/feedback")[0]
    assert (refused.status_code, refused.json()["kind"]) == (401, "no token")
    headers = {"authorization": f"Bearer {TOKEN}"}
    # more than anybody could send without it
    many = {"probabilities": {"click": [1.0] * 2000}, "labels": {"click": [0] * 2000}}
    assert service.client.post("/v1/feedback", json=many, headers=headers).status_code == 200


def test_nobody_was_killed_who_was_well(service):
    assert len(service.events("worker hung")) == 1
    assert not service.events("request failed")


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory):
    """Mounts file systems of a few megabytes."""
    mounted = []

    def mount(n_kilobytes):
        place = tmp_path_factory.mktemp("disk")
        command = ["mount", "-t", "tmpfs", "-o", f"size={n_kilobytes}k", "none", str(place)]
        if shutil.which("mount") is None or subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip("needs the right to mount a small file system")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place):
    """Takes every byte of a file system."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as stream:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    stream.write(b"x" * size)
            except OSError:
                continue
    return filler


def test_a_full_temporary_folder_costs_no_answer(start, publish, small_disk, body, log, versions, tmp_path):
    place = small_disk(16_000)
    published = publish("one", tmp_path / "model")
    service = start(published, {"TMPDIR": str(place)}, workers=2, token=TOKEN)
    service.wait_for_event("model switched", 2)
    filler = fill(place)
    said = body(log.slice(0, 2))
    answers(service, said, versions["one"])
    # refusals of every kind make metrics that were never written before
    for wrong, path in (({}, "/v1/calibrate"), ([], "/v1/feedback"), ({"scores": 1}, "/v2/models/model/infer")):
        assert {answer.status_code for answer in service.ask(wrong, 4, path)} <= {401, 422}
    n_before = service.metric("monocal_requests_total", endpoint="calibrate", status="200")
    assert n_before == 20.0
    lose(service, signal.SIGKILL)
    answers(service, said, versions["one"])
    assert service.metric("monocal_requests_total", endpoint="calibrate", status="200") == n_before + 20
    publish("two", published)
    refused = service.load()
    assert refused.status_code == 409
    assert "No space left on device" in refused.json()["error"]
    answers(service, said, versions["one"])
    filler.unlink()
    done = service.load().json()
    # a replacement that came up late has begun with the new model and has nothing left to switch
    assert done["workers"]["switched"] + done["workers"]["unchanged"] == 2, done
    answers(service, said, versions["two"])
    assert len(service.events("worker died")) == 1
    assert service.stop() == 0


def test_without_room_for_shared_metrics_the_service_answers_and_says_so(
    start, models, small_disk, body, log, versions
):
    service = start(models / "one", {"TMPDIR": str(small_disk(1_500))}, workers=2)
    service.wait_for_event("model switched", 2)
    said = service.wait_for_event("metrics are those of single workers")
    assert said["reason"] == "the temporary folder has no room for them: No space left on device"
    answers(service, body(log.slice(0, 2)), versions["one"])
    assert service.metric("monocal_metrics_cover_all_workers") == 0.0
    assert service.stop() == 0
