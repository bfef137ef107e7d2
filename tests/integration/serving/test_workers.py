"""Several workers on one port: one version, added metrics, deaths, a graceful end."""

import json
import os
import signal
import socket
import subprocess
import sys

import httpx
import psutil
import pytest

TOKEN = "a token for the tests only"
WATCH_SECONDS = 0.1


@pytest.fixture(scope="module")
def folder(publish, tmp_path_factory):
    return publish("one", tmp_path_factory.mktemp("published") / "model")


@pytest.fixture(scope="module")
def service(start, folder):
    """Two workers, with a port for their operator, whose calls some tests send to the service's port in vain."""
    return start(folder, workers=2, token=TOKEN, admin_port=0, watch_seconds=WATCH_SECONDS, body_seconds=60.0)


@pytest.fixture
def load(service):
    url, headers = f"{service.admin_url}/v1/models/model/load", {"authorization": f"Bearer {TOKEN}"}
    return lambda: httpx.post(url, headers=headers, timeout=120.0)


def versions_answered(service, said, times=12):
    answers = [service.post("/v1/calibrate", json=said) for _ in range(times)]
    assert {answer.status_code for answer in answers} == {200}
    return {answer.json()["version"] for answer in answers}


def lose(service, number=signal.SIGKILL):
    """Ends a worker and waits until its successor serves."""
    victim = service.workers()[0]
    n_switched = len(service.events("model switched"))
    os.kill(victim, number)
    service.wait_for_event("model switched", n_switched + 1)


def test_metrics_add_up_over_workers_and_do_not_fall_when_one_dies(service, body, log, wait):
    said = body(log.slice(0, 5))
    assert len(versions_answered(service, said, 30)) == 1
    wait(lambda: service.metric("monocal_rows_total") == 150.0, "the rows of both workers")
    for label in (0, 1, 1, 0, 0, 1, 0, 0):
        sent = {"probabilities": {"click": [0.75]}, "labels": {"click": [label]}}
        assert service.post("/v1/feedback", json=sent, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert service.metric("monocal_feedback_window_sum", task="click", of="predictions") == pytest.approx(6.0)
    assert service.metric("monocal_feedback_window_sum", task="click", of="labels") == 3.0
    in_bins = service.metric("monocal_score_window_rows", task="click", bin="10")
    lose(service)
    versions_answered(service, said, 10)
    assert service.metric("monocal_requests_total", endpoint="calibrate", status="200") == 40.0
    # gauges of the dead worker are not those of a living one
    wait(lambda: service.metric("monocal_rows_total") == 200.0, "the rows of all workers")
    assert service.metric("monocal_score_window_rows", task="click", bin="10") <= in_bins + 50


def test_a_swap_reaches_every_worker_and_a_later_one_begins_there(
    service, load, folder, publish, damage, models, body, log, versions, wait
):
    said = body(log.slice(0, 1))
    publish("two", folder)
    assert load().json()["version"] == versions["two"]
    wait(lambda: versions_answered(service, said) == {versions["two"]}, "the new model in every worker")
    # what lies there since is damaged, or was never loaded
    for leave in (lambda: damage(models / "one", folder), lambda: publish("one", folder)):
        for path in folder.iterdir():
            path.unlink()
        leave()
        lose(service)
        assert versions_answered(service, said) == {versions["two"]}
    assert load().json()["version"] == versions["one"]
    wait(lambda: versions_answered(service, said) == {versions["one"]}, "the first model in every worker")


def test_an_operator_s_calls_have_a_port_of_their_own(service):
    for path in ("/metrics", "/v1/models/model"):
        elsewhere = service.get(path)
        assert elsewhere.status_code == 404
        assert "use the service's other port" in elsewhere.json()["error"]
        assert httpx.get(service.admin_url + path, timeout=60.0).status_code == 200
    assert service.post("/v1/models/model/load").status_code == 404
    assert httpx.post(f"{service.admin_url}/v1/calibrate", json={}, timeout=60.0).status_code == 404
    for url in (service.url, service.admin_url):
        assert httpx.get(f"{url}/healthz", timeout=60.0).json() == {"ready": True}


def test_requests_in_hand_are_finished_before_the_end(service, body, log, wait):
    """The last test here: it ends the service."""
    content = json.dumps(body(log.slice(0, 3))).encode()
    head = b"POST /v1/calibrate HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(content)
    pending = [socket.create_connection(("127.0.0.1", service.port), 120.0) for _ in range(4)]
    for connection in pending:
        connection.sendall(head + content[:10])
    workers = service.workers()
    wait(lambda: n_connections(service, workers) == 4, "the requests to be in hand")
    service.process.send_signal(signal.SIGTERM)
    wait(lambda: len(service.events("Shutting down")) == 2, "the workers to hear of it")
    for connection in pending:
        connection.sendall(content[10:])
        received = b""
        while piece := connection.recv(65536):
            received += piece
        assert b"200" in received.splitlines()[0]
        assert received.endswith(b"}")
        connection.close()
    assert service.end() == 0
    assert service.events("stopped")
    assert not service.events("not JSON")
    assert not any(psutil.pid_exists(process_id) for process_id in workers)


def n_connections(service, workers):
    """Counts the accepted connections to the service's port."""
    every = [connection for worker in workers for connection in psutil.Process(worker).net_connections("tcp")]
    return sum(found.status == psutil.CONN_ESTABLISHED and found.laddr.port == service.port for found in every)


def test_workers_end_when_their_supervisor_is_killed(start, models, wait):
    service = start(models / "platt", workers=2)
    workers = service.workers()
    service.process.kill()
    wait(lambda: not any(psutil.pid_exists(worker) for worker in workers), "the orphans to end")


STUCK = """
import asyncio, multiprocessing, sys, time
from pathlib import Path
from monocal.serving import Settings
from monocal.serving.service import Service

class Supervisor:
    def is_alive(self):
        return True

async def main():
    service = Service(Settings(sys.argv[1], name="model", hang_seconds=0.1), Path(sys.argv[1]))
    task = asyncio.create_task(service._tick())
    await asyncio.sleep(0)
    time.sleep(300)

multiprocessing.parent_process = Supervisor
asyncio.run(main())
"""


def test_a_worker_whose_event_loop_does_not_turn_ends(tmp_path):
    command = [sys.executable, "-c", STUCK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1
    assert "Timeout" in done.stderr


def test_a_service_without_a_sound_model_does_not_start(tmp_path):
    """The reason is in the log, and nobody tries for ever."""
    program = f"import monocal.serving as serving; serving.serve({str(tmp_path)!r}, port=0, workers=2, name='model')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    reasons = {line["reason"] for line in lines if line["event"] == "model refused"}
    assert reasons == {"model/manifest.json: there is no such file; a saved model is a folder with manifest.json in it"}
    assert "ServiceStopped: a worker could not start" in done.stderr
