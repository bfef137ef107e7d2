"""Services started for real: a process of their own, a loopback socket, JSON logs."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

import monocal
from monocal.lab.simulator import simulate_log
from monocal.models import Fusion

FIELDS = ["site_id", "ad_id", "country", "hour", "position", "device"]
TASKS = {"click": ("click", "pctr"), "effective_view": ("effective_view", "pev"), "long_view": ("long_view", "plv")}
TOKEN = "a token for the tests only"
PATIENCE_SECONDS = 400.0
"""Ends a test that waits in vain; one that waits for something real goes on as soon as it is there, so a machine with
twenty other things to do fails nothing."""


@dataclass
class Running:
    """A service in a process of its own."""

    process: subprocess.Popen
    lines: list[dict[str, Any]] = field(default_factory=list)
    raw_log: list[str] = field(default_factory=list)

    def __post_init__(self):
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        listening = self.wait_for_event("listening")
        self.port = listening["port"]
        self.url = f"http://127.0.0.1:{self.port}"
        self.admin_url = f"http://127.0.0.1:{listening.get('admin_port', self.port)}"
        self.client = httpx.Client(base_url=self.url, timeout=PATIENCE_SECONDS)

    def _read(self):
        for line in self.process.stderr:
            self.raw_log.append(line)
            try:
                self.lines.append(json.loads(line))
            except json.JSONDecodeError:
                self.lines.append({"event": "not JSON", "text": line})

    def events(self, name):
        return [line for line in list(self.lines) if line["event"] == name]

    def wait_for_event(self, name, count=1):
        def enough():
            if self.process.poll() is not None and len(self.events(name)) < count:
                self._reader.join(5.0)
                if len(self.events(name)) < count:
                    pytest.fail("the service ended:\n" + "".join(self.raw_log))
            return len(self.events(name)) >= count

        wait_until(enough, lambda: f"event {name!r} ({count}), log:\n" + "".join(self.raw_log))
        return self.events(name)[count - 1]

    def wait_until_ready(self):
        wait_until(self._is_ready, lambda: "readiness")
        return self

    def _is_ready(self):
        try:
            return self.client.get("/v2/health/ready").json()["ready"]
        except httpx.TransportError:
            return False

    def living_workers(self):
        dead = {event["worker"] for event in self.events("worker died")}
        return [event["worker"] for event in self.events("worker started") if event["worker"] not in dead]

    def ask(self, said, times=1, path="/v1/calibrate"):
        """Asks on fresh connections, so that every worker gets some."""
        return [httpx.post(f"{self.url}{path}", json=said, timeout=PATIENCE_SECONDS) for _ in range(times)]

    def load(self, name="model", token=TOKEN):
        return self.client.post(f"/v1/models/{name}/load", headers={"authorization": f"Bearer {token}"})

    def metric(self, name, **labels):
        """Returns the value of a metric; NaN and absence differ: absence is None."""
        expected = {f'{key}="{value}"' for key, value in labels.items()}
        for line in httpx.get(f"{self.admin_url}/metrics", timeout=PATIENCE_SECONDS).text.splitlines():
            head, _, value = line.rpartition(" ")
            found, _, inside = head.partition("{")
            if found == name and expected == set(filter(None, inside.rstrip("}").split(","))):
                return float(value)
        return None

    def stop(self):
        """Asks for a graceful end and returns the exit code."""
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE_SECONDS)
        self._reader.join(5.0)
        return code

    def end(self):
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30.0)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._reader.join(5.0)
        self.process.stderr.close()


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {PATIENCE_SECONDS:g} s in vain for {what()}")
        time.sleep(0.05)


def launch(model_folder, environment=None, **settings):
    program = f"import monocal.serving as serving; serving.serve({str(model_folder)!r}, **{settings!r})"
    paths = [str(Path(monocal.__file__).parents[1]), *filter(None, [(environment or {}).get("PYTHONPATH")])]
    environment = {
        **os.environ,
        **(environment or {}),
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, env=environment)


@pytest.fixture(scope="module")
def start():
    """Starts services and ends them with the module."""
    running = []

    def start_one(model_folder, environment=None, **settings):
        process = launch(model_folder, environment, **{"port": 0, **settings})
        try:
            running.append(Running(process))
        except BaseException:
            process.kill()
            process.wait()
            raise
        return running[-1]

    yield start_one
    for service in running:
        service.end()


@pytest.fixture(scope="session")
def log():
    return simulate_log(3000, seed=3, tasks=tuple(TASKS)).table()


@pytest.fixture(scope="session")
def models(log, tmp_path_factory):
    """Saved models: `one` and `two` differ a little, `platt` asks for other requests."""
    home = tmp_path_factory.mktemp("models")
    fusion = Fusion({"click": 1.0, "long_view": 2.0}, {"long_view": 0.5})
    for name, l2 in (("one", 10.0), ("two", 3.0)):
        fitted = monocal.fit(log, method="wide_logistic", tasks=TASKS, fields=FIELDS, l2=l2)
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


@pytest.fixture(scope="session")
def wait():
    return lambda condition, what: wait_until(condition, lambda: what)
