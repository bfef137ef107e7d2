"""Bounds on everything, each with a refusal that says which."""

import json
import socket
import threading
import time

import pytest

MAX_BODY, MAX_HEADERS, IN_FLIGHT, CONNECTIONS = 4000, 2000, 4, 12
HEADER_SECONDS, BODY_SECONDS = 1.0, 8.0


@pytest.fixture(scope="module")
def service(start, models):
    return start(
        models / "platt",
        name="model",
        max_body_bytes=MAX_BODY,
        max_header_bytes=MAX_HEADERS,
        max_in_flight=IN_FLIGHT,
        max_connections=CONNECTIONS,
        header_seconds=HEADER_SECONDS,
        body_seconds=BODY_SECONDS,
    ).wait_until_ready()


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


OK = {"scores": {"click": [0.25]}}


def test_a_body_that_says_it_is_too_long_is_refused_unread(service, connect):
    connection = connect()
    connection.sendall(b"POST /v1/calibrate HTTP/1.1\r\nhost: a\r\ncontent-length: 999999999\r\n\r\n")
    received = read_all(connection)
    assert b"413" in received.splitlines()[0]
    assert b"body: got more than 4000 bytes" in received


def test_a_body_that_grows_too_long_in_chunks_is_refused(service, connect):
    connection = connect()
    connection.sendall(b"POST /v1/calibrate HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
    for _ in range(5):
        connection.sendall(b"3e8\r\n" + b" " * 1000 + b"\r\n")
    assert b"413" in read_all(connection).splitlines()[0]


def test_headers_that_are_too_long_are_refused(service):
    answer = service.client.post("/v1/calibrate", json=OK, headers={"x-long": "a" * MAX_HEADERS})
    assert answer.status_code == 431
    assert answer.json()["kind"] == "headers too large"
    assert "expected at most 2000" in answer.json()["error"]


def test_headers_without_end_are_cut_off(service, connect):
    connection = connect()
    received = b""
    try:
        for _ in range(1000):
            connection.sendall(b"x-more: " + b"a" * 1000 + b"\r\n")
    except (BrokenPipeError, ConnectionResetError):
        pass
    received = read_all(connection)
    assert received == b"" or b"400" in received.splitlines()[0]


@pytest.mark.parametrize(
    ("begin", "more"),
    [(b"0\r\n", b"x-more: " + b"a" * 1000 + b"\r\n"), (b"5", b";more=" + b"a" * 1000)],
    ids=["trailers", "chunk extensions"],
)
def test_a_chunked_body_s_lines_without_end_are_cut_off(service, connect, begin, more):
    connection = connect()
    connection.sendall(b"POST /v1/calibrate HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n" + begin)
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        for _ in range(1000):
            connection.sendall(more)
            time.sleep(0.001)


@pytest.mark.parametrize("hosts", [b"", b"host: a\r\nhost: b\r\n"])
def test_a_request_names_one_host(service, connect, hosts):
    connection = connect()
    connection.sendall(b"GET /healthz HTTP/1.1\r\n" + hosts + b"\r\n")
    assert b"400" in read_all(connection).splitlines()[0]


def test_requests_sent_ahead_are_answered_in_order_or_cut_off(service, connect):
    few, many = connect(), connect()
    ask = b"GET /v2/health/live HTTP/1.1\r\nhost: a\r\n\r\n"
    few.sendall(5 * ask)
    received = b""
    while received.count(b'{"live":true}') < 5:
        received += few.recv(65536)
    assert received.count(b"HTTP/1.1 200 OK") == 5
    many.sendall(10_000 * ask)
    assert read_all(many).count(b"HTTP/1.1 200 OK") < 10_000


def test_a_connection_ends_after_a_thousand_requests_and_says_so(service, connect):
    connection = connect()
    for number in range(1, 1001):
        connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nhost: a\r\n\r\n")
        received = b""
        while not received.endswith(b"}"):
            received += connection.recv(65536)
        assert (b"connection: close" in received) == (number == 1000)


def test_a_head_that_drips_is_cut_off(service, connect):
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        drip(connect(), b"POST /v1/calibrate HTTP/1.1\r\n" + b"x" * 10_000)


def drip(connection, content):
    for letter in content:
        connection.sendall(bytes([letter]))
        time.sleep(0.1)


def test_a_connection_without_a_request_is_cut_off(service, connect):
    assert read_all(connect()) == b""


def test_a_body_that_drips_is_refused(service, connect):
    connection = connect()
    connection.sendall(b"POST /v1/calibrate HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{")
    received = read_all(connection)
    assert b"408" in received.splitlines()[0]
    assert b"body: not whole after 8 seconds" in received


def test_half_sent_bodies_take_no_place(service, connect):
    content = json.dumps(OK).encode()
    head = b"POST /v1/calibrate HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(content)
    waiting = [connect() for _ in range(2 * IN_FLIGHT)]
    for connection in waiting:
        connection.sendall(head + content[:5])
    late = connect()
    late.sendall(head + content)
    assert b"200" in late.recv(65536).splitlines()[0]
    for path in ("/v2/health/live", "/v2/health/ready", "/metrics"):
        assert service.client.get(path).status_code == 200
    for connection in waiting:
        connection.sendall(content[5:])
        assert b"200" in connection.recv(65536).splitlines()[0]


def test_connections_beyond_the_bound_are_told_to_come_back(service, connect, wait):
    service.client.close()
    fresh = type(service.client)(base_url=service.url, timeout=60.0)
    service.client = fresh
    head = b"POST /v1/calibrate HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{"

    def last_of_many():
        many = [connect() for _ in range(CONNECTIONS + 3)]
        for connection in many[:CONNECTIONS]:
            connection.sendall(head)
        received = read_all(many[-1])
        for connection in many:
            connection.close()
        return b"429" in received.partition(b"\r\n")[0] and b"too many connections" in received

    # a machine that takes longer than the time for headers to accept so many has closed the first ones by then
    wait(last_of_many, "a refusal")


def test_a_burst_is_answered_or_refused_and_never_fails(service):
    import httpx

    statuses = []

    def ask():
        try:
            statuses.append(httpx.post(f"{service.url}/v1/calibrate", json=OK, timeout=60.0).status_code)
        except httpx.TransportError:
            # a connection over the bound is closed after its 429, which a client still sending may not get to read
            statuses.append(429)

    threads = [threading.Thread(target=ask) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) <= {200, 429}
    assert 200 in statuses


def test_the_service_is_well_after_all_this(service, wait):
    wait(lambda: service.client.post("/v1/calibrate", json=OK).status_code == 200, "an answer")
    assert not service.events("request failed")
