"""Load and chaos: many requests while models are swapped, workers are lost in five ways and the disk is full once.

    python benchmarks/serving/load_test.py --requests 100000 --swaps 50

Clients keep connections open and ask as fast as they are answered. Every answer is compared, byte for byte, with what
`model.predict` gives offline for the version it names. The requests on a lost worker's connections are lost with it, so
clients send those again on a new connection, which is counted. The explanation is the loss of a worker between the
last sign of life of the connection and the moment it was found dead; without one there is none. No waiting time
enters, so a machine with much else to do changes rates and latencies only. The service's temporary folder is a small
file system, which needs the right to mount one.
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
import orjson
import psutil
from chaos import DISK_FREE, DISK_FULL, DISK_KILOBYTES, Chaos

import monocal
from monocal.lab.simulator import simulate_log
from monocal.models import Fusion, read_manifest

FIELDS = ["site_id", "ad_id", "country", "hour", "position", "device"]
TASKS = {"click": ("click", "pctr"), "effective_view": ("effective_view", "pev"), "long_view": ("long_view", "plv")}
TOKEN = "a token for the load test only"
RESULT = Path(__file__).parents[1] / "results" / "serving_load.md"
PATIENCE_SECONDS = 1800.0
"""Ends a run that hangs; nothing is measured by it."""


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
    """The service under test, in processes of its own."""

    def __init__(self, folder, workers, temporary, hang_seconds):
        program = (
            f"import monocal.serving as s; s.serve({str(folder)!r}, port=0, workers={workers}, token={TOKEN!r}, "
            f"name='model', hang_seconds={hang_seconds})"
        )
        environment = {**os.environ, "PYTHONPATH": str(Path(monocal.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
        environment["TMPDIR"] = str(temporary)
        self.process = subprocess.Popen(
            [sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, env=environment
        )
        self.events = []
        threading.Thread(target=self._read, daemon=True).start()
        self.port = self.wait_for("listening")["port"]
        self.wait_for("model switched", workers)

    def _read(self):
        for line in self.process.stderr:
            self.events.append(json.loads(line))

    def of(self, name):
        return [event for event in list(self.events) if event["event"] == name]

    def wait_for(self, name, count=1):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self.of(name)) < count:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(f"no {name!r}; log: {self.events[-10:]}")
            time.sleep(0.05)
        return self.of(name)[count - 1]

    def living_workers(self):
        dead = {event["worker"] for event in self.of("worker died")}
        return [event["worker"] for event in self.of("worker started") if event["worker"] not in dead]

    def call(self, method, path, headers=None):
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        connection.request(method, path, headers=headers or {})
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response.status, content


def make_models(home, n_rows):
    """Fits two models that take the same requests and differ in their answers."""
    log = simulate_log(n_rows, seed=3, tasks=tuple(TASKS)).table()
    models = {}
    for name, l2 in (("one", 10.0), ("two", 3.0)):
        fitted = monocal.fit(log, method="wide_logistic", tasks=TASKS, fields=FIELDS, l2=l2)
        model = fitted.with_fusion(Fusion({"click": 1.0, "long_view": 2.0}))
        models[read_manifest(model.save(home / name))["fingerprint"]] = model
    return log, models


def make_requests(log, models, n_different, rng):
    """Returns bodies and, for each, the bytes that each version has to answer with."""
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
            said = {"model": "model", "version": version, "probabilities": answers, "fused": model.fusion.fuse(answers)}
            expected[version] = orjson.dumps(said, option=orjson.OPT_SERIALIZE_NUMPY)
        made.append((orjson.dumps(body), expected))
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
            except (OSError, HTTPException):  # the worker at the other end was killed; asking again reconnects
                connection.close()
                with tally.lock:
                    tally.sent_again.append((alive, time.monotonic()))
                alive = time.monotonic()
        seconds = time.perf_counter() - start
        version = next((name for name, wanted in expected.items() if wanted == content), None)
        with tally.lock:
            tally.n_answered += 1
            tally.seconds.append(seconds)
            tally.statuses[response.status] = tally.statuses.get(response.status, 0) + 1
            tally.versions[version] = tally.versions.get(version, 0) + 1
            if version is None:
                tally.n_wrong += 1
    connection.close()


def run(n_requests, n_swaps, n_clients, workers, n_rows, hang_seconds):
    """Runs the test and returns what was seen."""
    with tempfile.TemporaryDirectory() as home:
        disk = Path(home) / "disk"
        disk.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_KILOBYTES}k", "none", str(disk)]
        is_mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
        try:
            return _run(Path(home), disk, is_mounted, n_requests, n_swaps, n_clients, workers, n_rows, hang_seconds)
        finally:
            if is_mounted:
                subprocess.run(["umount", "--lazy", str(disk)], check=True)


def _run(home, disk, is_mounted, n_requests, n_swaps, n_clients, workers, n_rows, hang_seconds):
    log, models = make_models(home, n_rows)
    requests = make_requests(log, models, 60, np.random.default_rng(5))
    folder = home / "published"
    versions = list(models)
    models[versions[0]].save(folder)
    service = Service(folder, workers, disk, hang_seconds)
    chaos = Chaos(service, disk, is_mounted)
    memory, tally, enough = [], Tally(), threading.Event()
    try:
        clients = [
            threading.Thread(target=ask, args=(service.port, requests, enough, tally, seed))
            for seed in range(n_clients)
        ]
        start = time.monotonic()
        for client in clients:
            client.start()
        swaps, swap_seconds, n_refused = 0, [], 0
        while not enough.is_set():
            time.sleep(0.05)
            done = tally.n_answered / n_requests
            if not any(client.is_alive() for client in clients):
                raise RuntimeError("the clients gave up")
            if len(memory) < 400 * done:
                memory.append((done, _resident_bytes(service)))
            chaos.look(done)
            if swaps < n_swaps and done > (swaps + 0.5) / n_swaps:
                if chaos.is_full:
                    n_refused += _swap_is_refused(service, models, versions[(swaps + 1) % 2], folder)
                    continue
                swaps += 1
                swap_seconds.append(_swap(service, models, versions[swaps % 2], folder))
            if done >= 1.0 and swaps == n_swaps and chaos.is_over:
                enough.set()
        for client in clients:
            client.join()
        seconds = time.monotonic() - start
        counted = _counted(service)
        cpu = _cpu_seconds(service)
        service.process.send_signal(signal.SIGTERM)
        exit_code = service.process.wait(PATIENCE_SECONDS)
    finally:
        enough.set()
        if service.process.poll() is None:
            service.process.kill()
    taken = np.array(tally.seconds)
    again = _explained(tally.sent_again, chaos.windows)
    return {
        "requests": tally.n_answered,
        "swaps": swaps,
        "swaps_refused_while_full": n_refused,
        "disk_was_full": is_mounted,
        "lost_workers": again,
        "hung": len(service.of("worker hung")),
        "hang_seconds": hang_seconds,
        "wrong_answers": tally.n_wrong,
        "statuses": {str(status): count for status, count in tally.statuses.items()},
        "answers_per_version": {str(name): count for name, count in tally.versions.items()},
        "sent_again": len(tally.sent_again),
        "unexplained": len(tally.sent_again) - sum(again.values()),
        "clients": n_clients,
        "workers": workers,
        "seconds": seconds,
        "requests_per_second": tally.n_answered / seconds,
        "p50_ms": float(np.quantile(taken, 0.5)) * 1e3,
        "p99_ms": float(np.quantile(taken, 0.99)) * 1e3,
        "longest_ms": float(taken.max()) * 1e3,
        "swap_seconds": float(np.median(swap_seconds)) if swap_seconds else None,
        "requests_counted_by_the_service": counted,
        "memory_mb": _memory(memory),
        "failures_logged": len(service.of("request failed")),
        "exit_code": exit_code,
        "cpu_seconds_of_surviving_workers": cpu,
        "load_average": os.getloadavg(),
    }


def _explained(sent_again, windows):
    """Counts, by the loss that explains them, requests whose connection lived before its end and was dead after it."""
    counts = dict.fromkeys(windows, 0)
    for alive, found_dead in sent_again:
        why = next((name for name, (begin, end) in windows.items() if alive <= end and found_dead >= begin), None)
        if why is not None:
            counts[why] += 1
    return counts


def _swap_is_refused(service, models, version, folder):
    """Tries a swap that has nowhere to put its private copy."""
    models[version].save(folder)
    status, content = service.call("POST", "/v1/models/model/load", {"authorization": f"Bearer {TOKEN}"})
    if status != 409 or b"No space left" not in content:
        raise RuntimeError(f"a swap on a full disk: {status} {content!r}")
    return 1


def _swap(service, models, version, folder):
    models[version].save(folder)
    start = time.monotonic()
    while True:
        status, content = service.call("POST", "/v1/models/model/load", {"authorization": f"Bearer {TOKEN}"})
        said = json.loads(content)
        if status != 200 or said["version"] != version or said["workers"]["refused"]:
            raise RuntimeError(f"swap failed: {status} {content!r}")
        if not said["workers"]["pending"]:  # the call waits for a minute, which may be little for a starved worker
            return time.monotonic() - start


def _counted(service):
    text = service.call("GET", "/metrics")[1].decode()
    line = next(row for row in text.splitlines() if row.startswith("monocal_requests_total{") and 'calibrate"' in row)
    return float(line.rpartition(" ")[2])


def _resident_bytes(service):
    found = {}
    for pid in service.living_workers():
        try:
            found[pid] = psutil.Process(pid).memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return found


def _cpu_seconds(service):
    found = []
    for pid in service.living_workers():
        times = psutil.Process(pid).cpu_times()
        found.append(times.user + times.system)
    return found


def _memory(samples):
    """Returns the resident memory of each worker that lived to the end, at quarters of its life in the run."""
    last = {pid for _, found in samples[-1:] for pid in found}
    told = {}
    for place, pid in enumerate(sorted(last)):
        line = [found[pid] / 2**20 for _, found in samples if pid in found]
        marks = [line[min(int(share * len(line)), len(line) - 1)] for share in (0.1, 0.25, 0.5, 0.75, 1.0)]
        told[f"worker {place}"] = [round(mark, 1) for mark in marks]
    return told


def report(found, command):
    """Returns the run as Markdown."""
    memory = "\n".join(
        f"| {name} | " + " | ".join(f"{mark:.1f}" for mark in marks) + " |"
        for name, marks in found["memory_mb"].items()
    )
    losses = "\n".join(
        ["| a worker was | requests sent again |", "| --- | --- |"]
        + [f"| {name} | {count} |" for name, count in found["lost_workers"].items()]
    )
    load = ", ".join(f"{average:.1f}" for average in found["load_average"])
    statuses = ", ".join(f"{status}: {count:,}" for status, count in found["statuses"].items())
    versions = " / ".join(f"{count:,}" for count in found["answers_per_version"].values())
    latency = f"{found['p50_ms']:.1f} / {found['p99_ms']:.1f} / {found['longest_ms']:.0f} ms"
    return f"""# Load and chaos

Command: `{command}`.

Machine: {psutil.cpu_count()} cores ({platform.machine()}), shared with the clients and with other work (load average at
the end {load}), so rates and latencies are those of a busy box; counts are what this is about.

| | |
| --- | --- |
| requests answered | {found["requests"]:,} by {found["workers"]} workers to {found["clients"]} clients |
| statuses | {statuses} |
| answers that differ from `model.predict` by a bit | {found["wrong_answers"]} |
| answers per model version | {versions} |
| model swaps, in every worker each time | {found["swaps"]} (median {found["swap_seconds"]:.2f} s each) |
| swaps tried while the disk was full, all refused | {found["swaps_refused_while_full"]} |
| workers lost and replaced, each the one with most connections | {len(found["lost_workers"])} |
| workers that were taken for stuck (after {found["hang_seconds"]:g} s) | {found["hung"]}; one was stopped |
| requests sent again because their worker was lost | {found["sent_again"] - found["unexplained"]} |
| requests sent again without that explanation | {found["unexplained"]} |
| failures logged by the service | {found["failures_logged"]} |
| requests per second | {found["requests_per_second"]:,.0f} |
| latency seen by clients, p50 / p99 / longest | {latency} |
| exit code after SIGTERM | {found["exit_code"]} |

{losses}

The service's temporary folder was full from {DISK_FULL:.0%} to {DISK_FREE:.0%} of the requests.

Resident memory in MB over each surviving worker's part of the run:

| | 10 % | 25 % | 50 % | 75 % | 100 % |
| --- | --- | --- | --- | --- | --- |
{memory}

A request in the hands of a lost worker is lost: its client sees a reset connection and has to send it again. The
service cannot do better, since whatever held the request is gone. A worker that is asked to end finishes what it has
in hand and closes its idle connections; a client about to use one of those sends again as well. Every answer was
compared byte for byte with the offline numbers of the version it names.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--swaps", type=int, default=50)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rows", type=int, default=20_000, help="rows that the two models are fitted on")
    parser.add_argument("--hang-seconds", type=float, default=5.0, help="when a silent worker is replaced")
    parser.add_argument("--json", action="store_true", help="print what was found and write no report")
    wishes = parser.parse_args()
    found = run(wishes.requests, wishes.swaps, wishes.clients, wishes.workers, wishes.rows, wishes.hang_seconds)
    print(json.dumps(found, indent=1))
    if not wishes.json:
        command = (
            f"python benchmarks/serving/load_test.py --requests {wishes.requests} --swaps {wishes.swaps} "
            f"--clients {wishes.clients} --workers {wishes.workers} --hang-seconds {wishes.hang_seconds:g}"
        )
        RESULT.write_text(report(found, command), encoding="utf-8")


if __name__ == "__main__":
    main()
