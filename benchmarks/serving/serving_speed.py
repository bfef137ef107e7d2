"""Requests per second and CPU per request of the service, and where the time of a request goes.

    python benchmarks/serving/serving_speed.py                     # three minutes
    python benchmarks/serving/serving_speed.py --seconds 0.3       # a quick look
    python benchmarks/serving/serving_speed.py --source ../other/src   # another version

The service runs as its users run it: processes of its own, a loopback socket, connections that are kept. Clients write
prepared bytes and read whole answers. CPU is that of the workers, from the system's books, so a busy neighbour changes
the rates far more than it changes the CPU per request; the best of several rounds is shown.
"""

import argparse
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
from engine_latency import N_SHARED, fitted_model, make_log

CANDIDATES = (1, 10, 100, 1000)
N_BODIES = 20


def json_body(rows, names):
    shared = {name: rows[name][0] for name in names[:N_SHARED]}
    said = {
        "scores": {"click": rows["pctr"]},
        "shared": shared,
        "fields": {name: rows[name] for name in names[N_SHARED:]},
    }
    return json.dumps(said).encode()


def messages(log, names, n_rows):
    """Returns whole HTTP requests for rows that differ."""
    made = []
    for place in range(N_BODIES):
        body = json_body(log.slice(place * n_rows, n_rows).to_pydict(), names)
        made.append(
            "POST /v1/calibrate HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n".encode()
            + body
        )
    return made


class Client:
    """A connection that is kept until the service says that it ends."""

    def __init__(self, port):
        self.port = port
        self.connect()

    def connect(self):
        self.socket = socket.create_connection(("127.0.0.1", self.port), 60.0)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, message):
        self.socket.sendall(message)
        received = self.socket.recv(1 << 20)
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += self.socket.recv(1 << 20)
        head = received[:end]
        n_bytes = end + 4 + int(head[head.index(b"content-length: ") + 16 :].split(b"\r\n", 1)[0])
        while len(received) < n_bytes:
            received += self.socket.recv(1 << 20)
        assert head.startswith(b"HTTP/1.1 200"), received[:500]
        if b"connection: close" in head:
            self.socket.close()
            self.connect()


def ask_for(port, prepared, seconds, done):
    client = Client(port)
    n_done, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        client.ask(prepared[n_done % N_BODIES])
        n_done += 1
    done.append(n_done)
    client.socket.close()


def load(port, workers, prepared, n_clients, seconds):
    """Returns requests per second and CPU microseconds of the workers per request."""
    done = []
    threads = [threading.Thread(target=ask_for, args=(port, prepared, seconds, done)) for _ in range(n_clients)]
    before, start = cpu_seconds(workers), time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - start), (cpu_seconds(workers) - before) / sum(done) * 1e6


def cpu_seconds(processes):
    """User and system time; the scheduler's own books count nanoseconds, where they can be read."""
    total = 0.0
    for process in processes:
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0]) * 1e-9
    return total


def started(folder, n_workers, source):
    """Starts a service; returns its process, its port and the processes that answer."""
    command = [sys.executable, "-m", "monocal", "serve", str(folder), "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*command, "--workers", str(n_workers)], stderr=subprocess.PIPE, text=True, env=environment
    )
    port = 0
    while not port:
        port = json.loads(process.stderr.readline()).get("port", 0)
    threading.Thread(target=process.stderr.read, daemon=True).start()
    while True:
        try:
            Client(port).ask(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")
            break
        except (OSError, ValueError, AssertionError):
            time.sleep(0.2)
    family = psutil.Process(process.pid)
    workers = [child for child in family.children() if "spawn_main" in " ".join(child.cmdline())]
    return process, port, workers or [family]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.5, help="of every round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--source", type=Path, help="the src folder of another version")
    wishes = parser.parse_args()
    source = (wishes.source or Path(__file__).parents[2] / "src").resolve()
    log = make_log(wishes.rows, np.random.default_rng(0))
    names = [name for name in log.column_names if name.startswith("field_")]
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        model = fitted_model(log, "umc").save(Path(folder) / "model")
        for n_workers, n_clients in ((1, 1), (1, 4), (2, 4)):
            process, port, workers = started(model, n_workers, source)
            try:
                time.sleep(2.0)
                for n_rows in CANDIDATES:
                    prepared = messages(log, names, n_rows)
                    found = [load(port, workers, prepared, n_clients, wishes.seconds) for _ in range(wishes.rounds)]
                    rate, cpu = max(run[0] for run in found), min(run[1] for run in found)
                    size = len(prepared[0])
                    lines.append(
                        f"| {n_workers} | {n_clients} | {n_rows:,} | {size:,} | {rate:,.0f} | **{cpu:,.0f}** |"
                    )
                    print(lines[-1], file=sys.stderr, flush=True)
            finally:
                process.terminate()
                process.wait()
    print(report(lines, wishes))


def report(lines, wishes):
    """Returns the run as Markdown."""
    load_now = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    table = "\n".join(lines)
    return f"""# Speed of the service

Command: `python benchmarks/serving/serving_speed.py --seconds {wishes.seconds:g} --rounds {wishes.rounds}`.

`umc` (default size, fitted on {wishes.rows:,} rows), 21 string fields of which {N_SHARED} are given once, bodies that
change, connections that are kept, clients on the same machine. CPU is that of the workers per request, user and system;
rates are what the clients saw. Best of {wishes.rounds} rounds of {wishes.seconds:g} s. {psutil.cpu_count()} cores
({platform.machine()}), load average at the end {load_now}: with neighbours, and with clients on the same cores, rates
say less than CPU.

| workers | connections | candidates | bytes | requests per second | CPU µs per request |
| --- | --- | --- | --- | --- | --- |
{table}
"""


if __name__ == "__main__":
    main()
