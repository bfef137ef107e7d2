"""One client that means harm: it may waste its own time, and nobody else's."""

import json
import socket

import httpx
import psutil
import pytest

FIELDS = ["site_id", "ad_id", "country", "hour", "position", "device"]
MEGABYTE = 1 << 20
LONG = "n" * (8 * MEGABYTE - 1000)
IN_HAND = 16 * MEGABYTE


@pytest.fixture(scope="module")
def service(start, models):
    """One worker without a token, with a port for its operator; few bytes may be in hand."""
    return start(
        models / "one", name="model", admin_port=0, max_bytes_in_hand=IN_HAND, body_seconds=60.0
    ).wait_until_ready()


def cpu_seconds(service):
    times = psutil.Process(service.process.pid).cpu_times()
    return times.user + times.system


def test_memory_is_given_back_after_large_bodies(service, wait):
    """The first test here, so that the memory before is that of a service which has seen no large body."""
    process = psutil.Process(service.process.pid)
    before = process.memory_info().rss
    n_bytes, n_bodies, step = MEGABYTE, 14, 64 << 10
    body = b'{"scores": {}}'.ljust(n_bytes)
    head = b"POST /v1/calibrate HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % n_bytes
    opened = [socket.create_connection(("127.0.0.1", service.port), 60.0) for _ in range(n_bodies)]
    # pieces of all bodies lie between each other, and what stays of a connection lies between them: freed memory that
    # the C library keeps unless it is asked
    for begin in range(0, n_bytes - 1, step):
        for connection in opened:
            connection.sendall((head if not begin else b"") + body[begin : min(begin + step, n_bytes - 1)])
    wait(lambda: process.memory_info().rss > before + n_bodies * n_bytes // 2, "the bodies to be in hand")
    for connection in opened:
        connection.sendall(body[-1:])
        assert b"422" in connection.recv(65536).splitlines()[0]
    wait(lambda: process.memory_info().rss < before + 6 * MEGABYTE, "memory to be given back")
    for connection in opened:
        connection.close()


LONG_NAMES = {
    "a member": ("/v1/calibrate", {LONG: 1}),
    "a task": ("/v1/calibrate", {"scores": {LONG: [0.1]}}),
    "a field": ("/v1/calibrate", {"scores": {"click": [0.1]}, "fields": {LONG: ["a"]}}),
    "a shared field": ("/v1/calibrate", {"scores": {"click": [0.1]}, "shared": {LONG: "a"}}),
    "a task to fuse": ("/v1/calibrate", {"scores": {"click": [0.1]}, "fusion": {"weights": {LONG: 1}}}),
    "a score": ("/v1/calibrate", {"scores": {"click": [LONG]}}),
    "a task with labels": ("/v1/feedback", {"labels": {LONG: [1]}, "probabilities": {}}),
    "a tensor": ("/v2/models/model/infer", {"inputs": [{"name": LONG, "shape": [1], "datatype": "FP64"}]}),
    "a datatype": ("/v2/models/model/infer", {"inputs": [{"name": "ids", "shape": [1], "datatype": LONG}]}),
    "a shape": (
        "/v2/models/model/infer",
        {"inputs": [{"name": "ids", "shape": [1] * 3 * MEGABYTE, "datatype": "FP64"}]},
    ),
    "an id": ("/v2/models/model/infer", {"id": LONG, "inputs": []}),
    "200,000 tasks with labels": (
        "/v1/feedback",
        {
            "labels": {str(place): [1] for place in range(200_000)},
            "probabilities": {str(place): [1] for place in range(200_000)},
        },
    ),
    "200,000 fields": ("/v1/calibrate", {"scores": {"click": [0.1]}, "fields": {f"f{i}": [] for i in range(200_000)}}),
    "200,000 tensors": ("/v2/models/model/infer", {"inputs": [{"name": "x"} for _ in range(200_000)]}),
    "a million ids": ("/v1/calibrate", {"scores": {"click": [0.1]}, "ids": [[0] * 1_000_000]}),
}


@pytest.mark.parametrize("what", LONG_NAMES)
def test_a_large_body_costs_little_and_is_not_echoed(service, what):
    path, said = LONG_NAMES[what]
    content = json.dumps(said, separators=(",", ":")).encode()
    before = cpu_seconds(service)
    answer = service.client.post(path, content=content)
    taken = cpu_seconds(service) - before
    assert answer.status_code == 422, answer.text
    assert len(answer.content) < 1500
    # reading and parsing 8 MB is what remains
    assert taken < 1.0, f"{taken:.2f} s of CPU"


def test_bodies_that_never_end_hold_bounded_memory_and_nobody_up(service):
    process = psutil.Process(service.process.pid)
    before = process.memory_info().rss
    head = b"POST /v1/calibrate HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % (8 * MEGABYTE)
    opened = []
    for _ in range(64):
        connection = socket.create_connection(("127.0.0.1", service.port), 60.0)
        opened.append(connection)
        try:
            connection.sendall(head + b"x" * MEGABYTE)
        except (BrokenPipeError, ConnectionResetError):
            continue
    assert service.client.get("/v2/health/ready").json() == {"ready": True}
    assert httpx.get(f"{service.admin_url}/metrics", timeout=60.0).status_code == 200
    small = service.client.post("/v1/calibrate", json={"scores": {"nothing": [1]}})
    assert small.status_code == 422
    held = process.memory_info().rss - before
    # what is in hand, what the connections have read ahead, and what joining a body takes
    assert held < IN_HAND + 64 * 4 * 64 * 1024 + 24 * MEGABYTE, held
    for connection in opened:
        connection.close()


def test_labels_without_a_token_are_bounded(service):
    """Ten seconds' worth at once; afterwards one second's worth per second."""
    said = {"probabilities": {"click": [1.0] * 4000}, "labels": {"click": [0] * 4000}}
    answers = [service.client.post("/v1/feedback", json=said) for _ in range(40)]
    n_taken = sum(answer.status_code == 200 for answer in answers)
    refused = [answer for answer in answers if answer.status_code != 200]
    assert {answer.status_code for answer in refused} == {429}
    assert refused[0].headers["retry-after"] == "1"
    assert "feedback without a token: got more than 1000 labels per second" in refused[0].json()["error"]
    assert 1 <= n_taken < 30
    assert service.metric("monocal_feedback_rows_total", task="click") == 4000.0 * n_taken


def test_an_operator_s_calls_have_a_port_of_their_own(service):
    for path in ("/metrics", "/v1/models/model"):
        elsewhere = service.client.get(path)
        assert (elsewhere.status_code, elsewhere.json()["kind"]) == (404, "not found")
        assert httpx.get(service.admin_url + path, timeout=60.0).status_code == 200
    assert service.client.post("/v1/models/model/load").status_code == 404
    assert httpx.post(f"{service.admin_url}/v1/calibrate", json={}, timeout=60.0).status_code == 404
    assert httpx.get(f"{service.admin_url}/v2/health/ready", timeout=60.0).json() == {"ready": True}


def test_the_service_is_well_after_all_this(service):
    assert (
        service.client.post(
            "/v1/calibrate", json={"scores": {"click": [0.1]}, "shared": dict.fromkeys(FIELDS, "a")}
        ).status_code
        == 200
    )
    assert not service.events("request failed")
