"""One service for all contracts, inside this process; others in processes of their own where sockets matter."""

import asyncio
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

import monocal
from monocal.lab.simulator import simulate_log
from monocal.models import Fusion
from monocal.serving import Settings
from monocal.serving.telemetry import LOGGER, JsonLines

FIELDS = ["site_id", "ad_id", "country", "hour", "position", "device"]
TASKS = {"click": ("click", "pctr"), "effective_view": ("effective_view", "pev"), "long_view": ("long_view", "plv")}
TOKEN = "a token for the tests only"
PATIENCE_SECONDS = 400.0
"""Ends a test that waits in vain; one that waits for something real goes on as soon as it is there, so a machine with
twenty other things to do fails nothing."""


class Service:
    """What tests ask of a service, wherever it runs."""

    lines: list[dict]

    def events(self, name):
        return [line for line in list(self.lines) if line["event"] == name]

    def wait_for_event(self, name, count=1):
        wait_until(lambda: len(self.events(name)) >= count, f"event {name!r} ({count}); log: {self.lines[-20:]}")
        return self.events(name)[count - 1]

    def load(self, name="model", token=TOKEN):
        return self.post(f"/v1/models/{name}/load", headers={"authorization": f"Bearer {token}"})

    def metric(self, name, **labels):
        """Returns the value of a metric; NaN and absence differ: absence is None."""
        expected = {f'{key}="{value}"' for key, value in labels.items()}
        for line in self.scrape().splitlines():
            head, _, value = line.rpartition(" ")
            found, _, inside = head.partition("{")
            if found == name and expected == set(filter(None, inside.rstrip("}").split(","))):
                return float(value)
        return None

    def send_labels(self, said):
        return self.post("/v1/feedback", json=said, headers={"authorization": f"Bearer {TOKEN}"})

    def get(self, path, **others):
        return self.request("GET", path, **others)

    def post(self, path, **others):
        return self.request("POST", path, **others)


class Here(Service, logging.Handler):
    """A service inside this process: its event loop turns in a thread, requests go in without a socket."""

    def __init__(self, settings):
        from monocal.serving import create_app

        logging.Handler.__init__(self, logging.INFO)
        self.lines = []
        self.setFormatter(JsonLines())
        LOGGER.addHandler(self)
        LOGGER.setLevel(logging.INFO)
        self.app = create_app(settings)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.lifespan = self.app.router.lifespan_context(self.app)
        self._do(self.lifespan.__aenter__())
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://service")

    def emit(self, record):
        self.lines.append(json.loads(self.format(record)))

    def _do(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE_SECONDS)

    def request(self, method, path, **others):
        return self._do(self.client.request(method, path, **others))

    def scrape(self):
        return self.get("/metrics").text

    def end(self):
        self._do(self.client.aclose())
        self._do(self.lifespan.__aexit__(None, None, None))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()
        LOGGER.removeHandler(self)


class Process(Service):
    """A service in processes of its own, with a loopback socket and JSON logs."""

    def __init__(self, model, **settings):
        program = f"import monocal.serving as serving; serving.serve({str(model)!r}, port=0, **{settings!r})"
        environment = {**os.environ, "PYTHONPATH": str(Path(monocal.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", program]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        self.lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        listening = self.wait_for_event("listening")
        self.port = listening["port"]
        self.url = f"http://127.0.0.1:{self.port}"
        self.admin_url = f"http://127.0.0.1:{listening.get('admin_port', self.port)}"
        self.wait_for_event("model switched", settings.get("workers", 1))
        wait_until(self.is_ready, "readiness")

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(json.loads(line) if line.startswith("{") else {"event": "not JSON", "text": line})

    def is_ready(self):
        try:
            return self.get("/healthz").status_code == 200
        except httpx.TransportError:
            return False

    def request(self, method, path, **others):
        """Asks on a fresh connection, so that every worker gets some."""
        return httpx.request(method, self.url + path, timeout=PATIENCE_SECONDS, **others)

    def scrape(self):
        return httpx.get(f"{self.admin_url}/metrics", timeout=PATIENCE_SECONDS).text

    def workers(self):
        """Returns the processes that began to serve and were not seen dead."""
        dead = {line["event"].partition("[")[2].partition("]")[0] for line in self.lines if "died" in line["event"]}
        started = [event["process"] for event in self.events("Application startup complete.")]
        return [process_id for process_id in started if str(process_id) not in dead]

    def end(self):
        """Asks for a graceful end and returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self._reader.join(5.0)
        self.process.stderr.close()
        return code


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {PATIENCE_SECONDS:g} s in vain for {what}")
        time.sleep(0.02)


@pytest.fixture(scope="session")
def wait():
    return wait_until


def starter(make):
    running = []

    def start_one(model, **settings):
        running.append(make(model, **settings))
        return running[-1]

    yield start_one
    for service in running:
        service.end()


@pytest.fixture(scope="module")
def serve_here():
    """Starts services inside this process and ends them with the module."""
    yield from starter(lambda model, **settings: Here(Settings(model, **settings)))


@pytest.fixture(scope="module")
def start():
    """Starts services in processes of their own and ends them with the module."""
    yield from starter(Process)


@pytest.fixture(scope="session")
def service(models):
    """The service of all contracts: three tasks, six fields, a fusion rule."""
    found = Here(Settings(models / "one", name="model", max_rows=50, access_log=True, token=TOKEN))
    yield found
    found.end()


@pytest.fixture(scope="session")
def log():
    return simulate_log(3000, seed=3, tasks=tuple(TASKS)).table()


@pytest.fixture(scope="session")
def models(log, tmp_path_factory):
    """Saved models: `one` and `two` differ a little, `platt` asks for other requests."""
    home = tmp_path_factory.mktemp("models")
    fusion = Fusion({"click": 1.0, "long_view": 2.0}, {"long_view": 0.5})
    for name, l2 in (("one", 10.0), ("two", 3.0)):
        fitted = monocal.fit(log, method=monocal.WideLogistic(l2=l2), tasks=TASKS, fields=FIELDS)
        fitted.with_fusion(fusion).save(home / name)
    monocal.fit(log, method="platt", score="pctr", label="click").save(home / "platt")
    return home


@pytest.fixture(scope="session")
def versions(models):
    return {name: monocal.models.read_manifest(models / name)["fingerprint"] for name in ("one", "two", "platt")}


@pytest.fixture(scope="session")
def publish(models):
    """Puts one of the saved models into a folder as a publisher does: whole or not at all."""

    def publish_one(name, folder):
        monocal.load(models / name).save(folder)
        return folder

    return publish_one


@pytest.fixture(scope="session")
def damage():
    """Puts a damaged copy of a model into a folder, file by file, as a careless copy would."""

    def damage_one(source, folder):
        for path in source.iterdir():
            shutil.copyfile(path, folder / path.name)
        state = folder / "state.safetensors"
        content = bytearray(state.read_bytes())
        content[-3] ^= 1
        state.write_bytes(bytes(content))

    return damage_one


@pytest.fixture(scope="session")
def body():
    """Returns a body for rows of the log, with `device` given once."""

    def body_of(table, tasks=TASKS):
        rows = table.to_pydict()
        return {
            "scores": {task: rows[TASKS[task][1]] for task in tasks},
            "shared": {"device": rows["device"][0]},
            "fields": {name: rows[name] for name in FIELDS if name != "device"},
        }

    return body_of
