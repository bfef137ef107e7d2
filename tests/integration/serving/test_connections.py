"""Bounds that only a socket can show, each with a clear end: heads, connections, bodies that do not end, bursts."""

import socket
import threading
import time
from functools import partial

import psutil
import pytest
import uvicorn

from monocal.serving import Settings
from monocal.serving.limits import BoundedProtocol

MAX_BODY, MAX_HEADERS, IN_FLIGHT, CONNECTIONS = 300_000, 2000, 4, 12
OK = {"scores": {"click": [0.25]}}
CHUNKED = b"POST /v1/calibrate HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def service(start, models):
    return start(
        models / "platt",
        name="model",
        max_body_bytes=MAX_BODY,
        max_header_bytes=MAX_HEADERS,
        max_in_flight=IN_FLIGHT,
        max_connections=CONNECTIONS,
        max_bytes_in_hand=2 * MAX_BODY,
        header_seconds=0.5,
        body_seconds=0.5,
    )


@pytest.fixture
def connect(service):
    opened = []

    def connect_one():
        connection = socket.create_connection(("127.0.0.1", service.port), 60.0)
        opened.append(connection)
        return connection

    yield connect_one
    for connection in opened:
        connection.close()


def read_all(connection):
    received = b""
    while True:
        try:
            piece = connection.recv(65536)
        except ConnectionResetError:
            return received
        if not piece:
            return received
        received += piece


def head(n_bytes):
    return b"POST /v1/calibrate HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % n_bytes


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (head(999_999_999), b"413"),
        (CHUNKED + 5 * (b"186a0\r\n" + b" " * 100_000 + b"\r\n"), b"413"),
        (b"GET /healthz HTTP/1.1\r\nhost: a\r\nx-long: " + b"a" * MAX_HEADERS + b"\r\n\r\n", b"431"),
        (head(100) + b"{", b"408"),
        (b"", b""),
        (b"POST /v1/calibrate HTTP/1.1\r\nhost: a\r\nx-half", b""),
    ],
    ids=["long body", "long chunks", "long headers", "half a body", "nothing", "half a head"],
)
def test_what_is_too_long_or_too_slow_is_ended(connect, sent, status):
    connection = connect()
    connection.sendall(sent)
    assert status in read_all(connection).partition(b"\r\n")[0]


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"POST / HTTP/1.1\r\n", b"x-more: " + b"a" * 1000 + b"\r\n"),
        (CHUNKED + b"0\r\n", b"x-more: " + b"a" * 1000 + b"\r\n"),
        (CHUNKED + b"5", b";more=" + b"a" * 1000),
    ],
    ids=["headers", "trailers", "chunk extensions"],
)
def test_lines_without_end_are_cut_off(connect, begin, more):
    connection = connect()
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        connection.sendall(begin)
        for _ in range(100_000):
            connection.sendall(more)


def test_requests_sent_ahead_are_answered_in_order_or_cut_off(connect):
    request = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n"
    many = connect()
    many.sendall(10_000 * request)
    assert read_all(many).count(b"HTTP/1.1 200 OK") < 10_000
    connection = connect()
    connection.sendall(5 * request)
    received = b""
    while received.count(b'{"ready":true}') < 5:
        received += connection.recv(65536)
    assert received.count(b"HTTP/1.1 200 OK") == 5


def test_half_sent_bodies_take_no_place_and_hold_bounded_memory(service, connect):
    process = psutil.Process(service.process.pid)
    before = process.memory_info().rss
    waiting = [connect() for _ in range(2 * IN_FLIGHT)]
    for connection in waiting:
        try:
            connection.sendall(head(MAX_BODY) + b"x" * (MAX_BODY - 1))
        except (BrokenPipeError, ConnectionResetError):
            continue
    for path in ("/healthz", "/metrics"):
        assert service.get(path).status_code == 200
    assert service.post("/v1/calibrate", json=OK).status_code == 200
    assert process.memory_info().rss - before < 16 << 20
    statuses = {read_all(connection).partition(b"\r\n")[0][9:12] for connection in waiting}
    assert statuses <= {b"408", b"429", b""}
    assert b"429" in statuses


def test_a_connection_beyond_the_bound_is_told_to_try_again(connect, wait):
    def last_of_many():
        many = [connect() for _ in range(CONNECTIONS + 3)]
        received = read_all(many[-1])
        for connection in many:
            connection.close()
        return b"429" in received.partition(b"\r\n")[0] and b"too many connections" in received

    # a machine that takes longer than the time for headers to accept so many has closed the first ones by then
    wait(last_of_many, "a refusal")


async def long_answer(_scope, _receive, send):
    """More than any socket buffers hold."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"33554432")]})
    await send({"type": "http.response.body", "body": bytes(32 << 20)})


def test_a_client_that_never_reads_its_answer_is_cut_off(tmp_path):
    protocol = partial(BoundedProtocol, Settings(tmp_path, name="model", body_seconds=0.2))
    config = uvicorn.Config(long_answer, http=protocol, ws="none", lifespan="off", log_config=None)
    server, listening = uvicorn.Server(config), socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    with socket.create_connection(listening.getsockname(), 60.0) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        # what was sent before stays in the way of the end, so it shows when something more is sent
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(6000):
                connection.sendall(b"G")
                time.sleep(0.01)
    server.should_exit = server.force_exit = True
    thread.join()
    listening.close()
