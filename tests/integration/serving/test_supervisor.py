"""Several workers on one port: shared work, deaths, graceful ends."""

import json
import os
import signal
import socket
import threading
import time

import httpx
import psutil
import pytest

TOKEN = "a token for the tests only"


@pytest.fixture(scope="module")
def folder(publish, tmp_path_factory):
    return publish("one", tmp_path_factory.mktemp("published") / "model")


@pytest.fixture(scope="module")
def service(start, folder):
    service = start(folder, workers=2, token=TOKEN)
    service.wait_for_event("model switched", 2)
    return service.wait_until_ready()


def ask(service, said, times=1):
    """Asks on fresh connections, so that every worker gets some."""
    return [httpx.post(f"{service.url}/v1/calibrate", json=said, timeout=120.0) for _ in range(times)]


def test_metrics_add_up_over_workers(service, body, log, wait):
    assert {answer.status_code for answer in ask(service, body(log.slice(0, 5)), 30)} == {200}
    assert service.metric("monocal_requests_total", endpoint="calibrate", status="200") == 30.0
    # rows are handed over once a second
    wait(lambda: service.metric("monocal_rows_total") == 150.0, "the rows of both workers")


def test_running_pcoc_adds_up_over_workers(service):
    for label in (0, 1, 1, 0, 0, 1, 0, 0):
        said = {"probabilities": {"click": [0.75]}, "labels": {"click": [label]}}
        headers = {"authorization": f"Bearer {TOKEN}"}
        answer = httpx.post(f"{service.url}/v1/feedback", json=said, headers=headers, timeout=120.0)
        assert answer.status_code == 200
    assert service.metric("monocal_pcoc", task="click") == pytest.approx(6.0 / 3.0)
    assert service.metric("monocal_feedback_rows_total", task="click") == 8.0


def test_an_admin_call_reaches_every_worker(service, folder, publish, body, log, versions):
    publish("two", folder)
    answer = service.load().json()
    assert answer["workers"] == {"pending": 0, "switched": 2, "unchanged": 0, "refused": 0}
    assert {answer.json()["version"] for answer in ask(service, body(log.slice(0, 1)), 20)} == {versions["two"]}


def test_a_killed_worker_is_restarted_and_counters_do_not_fall(service, body, log, versions):
    before = service.metric("monocal_requests_total", endpoint="calibrate", status="200")
    n_started = len(service.events("worker started"))
    n_switched = len(service.events("model switched"))
    victim = service.events("worker started")[0]["worker"]
    os.kill(victim, signal.SIGKILL)
    died = service.wait_for_event("worker died")
    assert (died["worker"], died["exit_code"]) == (victim, -signal.SIGKILL)
    service.wait_for_event("worker started", n_started + 1)
    # the other worker answers meanwhile
    assert {answer.status_code for answer in ask(service, body(log.slice(0, 1)), 10)} == {200}
    service.wait_for_event("model switched", n_switched + 1)
    assert {answer.json()["version"] for answer in ask(service, body(log.slice(0, 1)), 10)} == {versions["two"]}
    service.client.close()
    service.client = httpx.Client(base_url=service.url, timeout=120.0)
    assert service.metric("monocal_requests_total", endpoint="calibrate", status="200") == before + 20


def test_a_worker_restarted_over_a_bad_artefact_serves_what_the_others_serve(
    service, damage, models, folder, body, log, versions
):
    damage(models / "one", folder)
    assert service.load().status_code == 409
    n_switched = len(service.events("model switched"))
    living = {event["worker"] for event in service.events("worker started") if psutil.pid_exists(event["worker"])}
    os.kill(min(living), signal.SIGKILL)
    again = service.wait_for_event("model switched", n_switched + 1)
    assert again["version"] == versions["two"]
    assert {answer.json()["version"] for answer in ask(service, body(log.slice(0, 1)), 20)} == {versions["two"]}


def slow_request(service, said):
    """Returns a connection with a request whose body is not whole yet, and the rest of the body."""
    content = json.dumps(said).encode()
    connection = socket.create_connection(("127.0.0.1", service.port), 120.0)
    head = b"POST /v1/calibrate HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(content)
    connection.sendall(head + content[:10])
    return connection, content[10:]


def n_connections(service, pids):
    """Counts the accepted connections to the service's port."""
    every = [connection for pid in pids for connection in psutil.Process(pid).net_connections("tcp")]
    return sum(
        connection.status == psutil.CONN_ESTABLISHED and connection.laddr.port == service.port for connection in every
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_requests_in_hand_are_finished_before_the_end(start, models, body, log, workers, wait):
    service = start(models / "one", workers=workers, body_seconds=60.0)
    service.wait_for_event("model switched", workers)
    service.wait_until_ready()
    service.client.close()  # an idle connection of its own would be counted until the service tires of it
    pending = [slow_request(service, body(log.slice(0, 3))) for _ in range(4)]
    pids = [event["worker"] for event in service.events("worker started")]
    wait(lambda: n_connections(service, pids or [service.process.pid]) == 4, "the requests to be in hand")
    service.process.send_signal(signal.SIGTERM)
    time.sleep(1.0)
    assert service.process.poll() is None
    for connection, rest in pending:
        connection.sendall(rest)
        received = b""
        while piece := connection.recv(65536):
            received += piece
        assert b"200" in received.splitlines()[0]
        assert received.endswith(b"}")
        connection.close()
    assert service.stop() == 0
    assert service.events("stopped")
    assert not any(psutil.pid_exists(pid) for pid in pids)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", service.port), 5.0)


def test_workers_end_when_their_supervisor_is_killed(start, models, wait):
    service = start(models / "platt", workers=2)
    service.wait_for_event("model switched", 2)
    pids = [event["worker"] for event in service.events("worker started")]
    service.process.kill()
    wait(lambda: not any(psutil.pid_exists(pid) for pid in pids), "the workers' end")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_service_without_a_sound_model_does_not_start(start, tmp_path, workers):
    service = start(tmp_path / "nothing", workers=workers)
    refused = service.wait_for_event("model refused")
    assert refused["reason"].startswith("the model folder cannot be read: it does not exist")
    assert service.process.wait(120.0) != 0


def test_a_port_that_is_taken_is_said_so(models, service):
    from monocal.serving import Settings
    from monocal.serving.workers.listening import ServiceStopped
    from monocal.serving.workers.start import run

    settings = Settings(models / "one", port=service.port)
    with pytest.raises(ServiceStopped, match=rf"cannot listen on 127.0.0.1:{service.port} \(Address already in use\)"):
        run(settings)


def test_swaps_in_quick_succession_from_several_callers_end_on_the_last_model(
    service, folder, publish, body, log, versions
):
    publish("one", folder)
    results = []
    threads = [threading.Thread(target=lambda: results.append(_load(service).status_code)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(results) == {200}
    assert {answer.json()["version"] for answer in ask(service, body(log.slice(0, 1)), 20)} == {versions["one"]}


def _load(service):
    headers = {"authorization": f"Bearer {TOKEN}"}
    return httpx.post(f"{service.url}/v1/models/model/load", headers=headers, timeout=120.0)
