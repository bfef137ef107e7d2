"""Load and chaos: many requests while models are swapped and workers are lost in four ways; every answer is compared.

    python benchmarks/serving/load_test.py --requests 100000 --swaps 30

Clients keep connections open and ask as fast as they are answered. Every answer is compared, number by number and to
the last bit, with what `model.predict` gives offline for the version it names. The requests on a lost worker's
connections are lost with it, so clients send those again on a new connection, which is counted. The explanation is the
loss of a worker between the last sign of life of the connection and the moment it was found dead; without one there is
none. No waiting time enters, so a machine with much else to do changes rates and latencies only.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import numpy as np
import psutil

import monocal
from monocal.lab.simulator import simulate_log
from monocal.models import Fusion, read_manifest

FIELDS = ["site_id", "ad_id", "country", "hour", "position", "device"]
TASKS = {"click": ("click", "pctr"), "effective_view": ("effective_view", "pev"), "long_view": ("long_view", "plv")}
TOKEN = "a token for the load test only"
PATIENCE_SECONDS = 600.0
"""Ends a run that hangs; nothing is measured by it."""

LOSSES = {
    "killed (SIGKILL, as by the system when memory runs out)": (0.15, signal.SIGKILL),
    "asked to end (SIGTERM)": (0.35, signal.SIGTERM),
    "stopped (SIGSTOP)": (0.55, signal.SIGSTOP),
    "crashed (SIGSEGV)": (0.75, signal.SIGSEGV),
}
"""Ways to lose the worker with most connections, and the share of the requests after which it happens."""


@dataclass
class Tally:
    """What the clients saw."""

    n_answered: int = 0
    sent_again: list = field(default_factory=list)
    n_wrong: int = 0
    statuses: dict = field(default_factory=dict)
    versions: dict = field(default_factory=dict)
    seconds: list = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Service:
    """The service under test, in processes of its own, as its log tells of it."""

    def __init__(self, folder, workers, hang_seconds):
        program = (
            f"import monocal.serving as s; s.serve({str(folder)!r}, port=0, workers={workers}, token={TOKEN!r}, "
            f"name='model', hang_seconds={hang_seconds})"
        )
        environment = {**os.environ, "PYTHONPATH": str(Path(monocal.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, env=environment
        )
        self.events = []
        threading.Thread(target=self._read, daemon=True).start()
        self.wait(lambda: self.of("listening"))
        self.port = self.of("listening")[0]["port"]
        self.wait(lambda: len(self.workers()) == workers)

    def _read(self):
        for line in self.process.stderr:
            self.events.append(json.loads(line))

    def of(self, name):
        return [event for event in list(self.events) if event["event"] == name]

    def wait(self, condition):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(f"in vain; log: {self.events[-10:]}")
            time.sleep(0.02)

    def workers(self):
        """Returns the version of every living worker."""
        found = {event["process"]: event["version"] for event in self.of("model switched")}
        for event in list(self.events):
            if event["event"].startswith("Child process") and "died" in event["event"]:
                found.pop(int(event["event"].partition("[")[2].partition("]")[0]), None)
        return found

    def call(self, method, path, headers=None):
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        connection.request(method, path, headers=headers or {})
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response.status, content

    def swap(self, model, version, folder):
        """Publishes a model and has it loaded; returns the seconds until every worker serves it."""
        model.save(folder)
        start = time.monotonic()
        status, content = self.call("POST", "/v1/models/model/load", {"authorization": f"Bearer {TOKEN}"})
        if status != 200 or json.loads(content)["version"] != version:
            raise RuntimeError(f"swap failed: {status} {content!r}")
        self.wait(lambda: set(self.workers().values()) == {version})
        return time.monotonic() - start

    def lose(self, number):
        """Sends a signal to the busiest worker; returns when that was, and when it was dead, its successor serving."""
        n_switched, workers = len(self.of("model switched")), self.workers()
        victim = max(workers, key=lambda process_id: len(psutil.Process(process_id).net_connections("tcp")))
        start = time.monotonic()
        os.kill(victim, number)
        self.wait(lambda: victim not in self.workers())
        end = time.monotonic()
        self.wait(lambda: len(self.workers()) == len(workers) and len(self.of("model switched")) > n_switched)
        return start, end


def make_models(home, n_rows):
    """Fits two models that take the same requests and differ in their answers."""
    log = simulate_log(n_rows, seed=3, tasks=tuple(TASKS)).table()
    models = {}
    for name, l2 in (("one", 10.0), ("two", 3.0)):
        fitted = monocal.fit(log, method=monocal.WideLogistic(l2=l2), tasks=TASKS, fields=FIELDS)
        model = fitted.with_fusion(Fusion({"click": 1.0, "long_view": 2.0}))
        models[read_manifest(model.save(home / name))["fingerprint"]] = model
    return log, models


def make_requests(log, models, n_different, rng):
    """Returns bodies and, for each, what each version has to answer."""
    made = []
    for _ in range(n_different):
        n_rows = int(rng.choice([1, 1, 5, 20, 50]))
        rows = log.slice(int(rng.integers(log.num_rows - n_rows)), n_rows).to_pydict()
        rows["device"] = [rows["device"][0]] * n_rows
        body = {
            "scores": {task: rows[score] for task, (_, score) in TASKS.items()},
            "shared": {"device": rows["device"][0]},
            "fields": {name: rows[name] for name in FIELDS[:-1]},
        }
        expected = {}
        for version, model in models.items():
            answers = model.predict(rows)
            said = {task: column.tolist() for task, column in answers.items()}
            fused = model.fusion.fuse(answers).tolist()
            expected[version] = {"model": "model", "version": version, "probabilities": said, "fused": fused}
        made.append((json.dumps(body).encode(), expected))
    return made


def ask(port, requests, enough, tally, seed):
    """One client: asks until it was enough."""
    rng = np.random.default_rng(seed)
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    alive = time.monotonic()
    while not enough.is_set():
        body, expected = requests[int(rng.integers(len(requests)))]
        start = time.perf_counter()
        while True:
            try:
                connection.request("POST", "/v1/calibrate", body)
                response = connection.getresponse()
                content = response.read()
                alive = time.monotonic()
                break
            except (OSError, HTTPException):  # the worker at the other end is gone; asking again reconnects
                connection.close()
                with tally.lock:
                    tally.sent_again.append((alive, time.monotonic()))
                alive = time.monotonic()
        seconds = time.perf_counter() - start
        said = json.loads(content)
        version = said.get("version")
        with tally.lock:
            tally.n_answered += 1
            tally.seconds.append(seconds)
            tally.statuses[response.status] = tally.statuses.get(response.status, 0) + 1
            tally.versions[version] = tally.versions.get(version, 0) + 1
            tally.n_wrong += said != expected.get(version)
    connection.close()


def run(wishes):
    """Runs the test and returns what was seen."""
    with tempfile.TemporaryDirectory() as home:
        return _run(Path(home), wishes)


def _run(home, wishes):
    log, models = make_models(home, wishes.rows)
    requests = make_requests(log, models, 60, np.random.default_rng(5))
    folder, versions = home / "published", list(models)
    models[versions[0]].save(folder)
    service = Service(folder, wishes.workers, wishes.hang_seconds)
    losses, windows = dict(LOSSES), {}
    tally, enough = Tally(), threading.Event()
    clients = [
        threading.Thread(target=ask, args=(service.port, requests, enough, tally, seed))
        for seed in range(wishes.clients)
    ]
    try:
        start = time.monotonic()
        for client in clients:
            client.start()
        swap_seconds = []
        while not enough.is_set():
            time.sleep(0.02)
            done = tally.n_answered / wishes.requests
            if not any(client.is_alive() for client in clients):
                raise RuntimeError("the clients gave up")
            for name, (share, number) in list(losses.items()):
                if done > share:
                    del losses[name]
                    windows[name] = service.lose(number)
            n_swaps = len(swap_seconds)
            if n_swaps < wishes.swaps and done > (n_swaps + 0.5) / wishes.swaps:
                version = versions[(n_swaps + 1) % 2]
                swap_seconds.append(service.swap(models[version], version, folder))
            if done >= 1.0 and n_swaps == wishes.swaps and not losses:
                enough.set()
        for client in clients:
            client.join()
        seconds = time.monotonic() - start
        memory = [psutil.Process(worker).memory_info().rss / 2**20 for worker in service.workers()]
        counted = _counted(service)
        service.process.send_signal(signal.SIGTERM)
        exit_code = service.process.wait(PATIENCE_SECONDS)
    finally:
        enough.set()
        if service.process.poll() is None:
            service.process.kill()
    taken = np.array(tally.seconds)
    return {
        "requests": tally.n_answered,
        "statuses": {str(status): count for status, count in tally.statuses.items()},
        "wrong_answers": tally.n_wrong,
        "answers_per_version": {str(name): count for name, count in tally.versions.items()},
        "swaps": len(swap_seconds),
        "swap_seconds": [float(np.median(swap_seconds)), float(np.max(swap_seconds))],
        "lost_workers": {
            name: {
                "sent_again": sum(map(lambda again, at=at: _explains(at, again), tally.sent_again)),
                "seconds": at[1] - at[0],
            }
            for name, at in windows.items()
        },
        "sent_again": len(tally.sent_again),
        "unexplained": sum(not any(_explains(at, again) for at in windows.values()) for again in tally.sent_again),
        "seconds": seconds,
        "milliseconds": [float(np.quantile(taken, q)) * 1e3 for q in (0.5, 0.99, 1.0)],
        "requests_counted_by_the_service": counted,
        "memory_mb": memory,
        "failures_logged": len(service.of("request failed")),
        "exit_code": exit_code,
        "load_average": os.getloadavg(),
    }


def _explains(window, again):
    """Says whether a connection was alive before the end of a worker and was found dead after its beginning."""
    return again[0] <= window[1] and again[1] >= window[0]


def _counted(service):
    text = service.call("GET", "/metrics")[1].decode()
    line = next(row for row in text.splitlines() if row.startswith("monocal_requests_total{") and 'calibrate"' in row)
    return float(line.rpartition(" ")[2])


def report(found, wishes):
    """Returns the run as Markdown."""
    losses = "\n".join(
        f"| {name} | {loss['seconds']:.1f} | {loss['sent_again']} |" for name, loss in found["lost_workers"].items()
    )
    load = ", ".join(f"{average:.1f}" for average in found["load_average"])
    statuses = ", ".join(f"{status}: {count:,}" for status, count in found["statuses"].items())
    versions = " / ".join(f"{count:,}" for count in found["answers_per_version"].values())
    latency = " / ".join(f"{number:.1f}" for number in found["milliseconds"])
    memory = ", ".join(f"{number:.0f}" for number in found["memory_mb"])
    swaps = f"{found['swaps']} (median {found['swap_seconds'][0]:.1f} s, longest {found['swap_seconds'][1]:.1f} s)"
    counted, rate = found["requests_counted_by_the_service"], found["requests"] / found["seconds"]
    return f"""# Load and chaos

Command: `python benchmarks/serving/load_test.py --requests {wishes.requests} --swaps {wishes.swaps} --clients
{wishes.clients} --workers {wishes.workers} --hang-seconds {wishes.hang_seconds:g}`.

Machine: {psutil.cpu_count()} cores ({platform.machine()}), shared with the clients and with other work (load average at
the end {load}), so rates and latencies are those of a busy box; counts are what this is about.

| | |
| --- | --- |
| requests answered | {found["requests"]:,} by {wishes.workers} workers to {wishes.clients} clients |
| statuses | {statuses} |
| answers that differ from `model.predict` by a bit | {found["wrong_answers"]} |
| answers per model version | {versions} |
| model swaps, until every worker served the new model; they look once a second | {swaps} |
| workers lost and replaced, each the one with most connections | {len(found["lost_workers"])} |
| requests sent again because their worker was lost | {found["sent_again"] - found["unexplained"]} |
| requests sent again without that explanation | {found["unexplained"]} |
| failures logged by the service | {found["failures_logged"]} |
| requests that the service counted, over all workers and their successors | {counted:,.0f} |
| requests per second | {rate:,.0f} |
| latency seen by clients, p50 / p99 / longest | {latency} ms |
| resident memory of the workers at the end | {memory} MB |
| exit code after SIGTERM | {found["exit_code"]} |

| a worker was | seconds until it was gone | requests sent again |
| --- | --- | --- |
{losses}

A request in the hands of a lost worker is lost: its client sees a reset connection and has to send it again. A worker
that is stopped answers nobody until uvicorn's health check gives it up; clients on its connections wait as long. Every
answer was compared number by number with the offline numbers of the version it names.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--swaps", type=int, default=30)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rows", type=int, default=20_000, help="rows that the two models are fitted on")
    parser.add_argument("--hang-seconds", type=float, default=10.0, help="when a silent worker is replaced")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    wishes = parser.parse_args()
    found = run(wishes)
    print(json.dumps(found, indent=1) if wishes.json else report(found, wishes))


if __name__ == "__main__":
    main()
