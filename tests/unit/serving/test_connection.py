"""Bounds of a connection that an application inside cannot set."""

import socket
import threading
import time

import pytest

from monocal.serving import Settings

uvicorn = pytest.importorskip("uvicorn")


async def long_answer(scope, receive, send):
    """More than any socket buffers hold."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"33554432")]})
    await send({"type": "http.response.body", "body": bytes(32 << 20)})


@pytest.fixture
def port(tmp_path):
    """A server in this process that cuts off who leaves an answer unread for half a second."""
    from monocal.serving.http.connection import bounded_protocol

    settings = Settings(tmp_path, name="model", body_seconds=0.5)
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(long_answer, http=bounded_protocol(settings), ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield listening.getsockname()[1]
    server.should_exit = server.force_exit = True
    thread.join()
    listening.close()


def test_a_client_that_never_reads_is_cut_off(port):
    with socket.create_connection(("127.0.0.1", port), 60.0) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        # what was sent before stays in the way of the end, so it shows when something more is sent
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(1200):
                connection.sendall(b"G")
                time.sleep(0.05)
