"""A real headless Chromium, driven over its DevTools pipe with the standard library alone; and reports to look at."""

import json
import os
import select
import shutil
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest

import monocal
from monocal.lab.simulator import TASKS
from monocal.reports import report

NAMES = ("chromium", "chromium-browser", "google-chrome")
DEADLINE_SECONDS = 180.0
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --disable-dev-shm-usage --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync --hide-scrollbars"
)

_WIRE = (
    "import os, sys; a, b = (os.dup(int(one)) for one in sys.argv[1:3]); os.dup2(a, 103); os.dup2(b, 104); "
    "os.dup2(103, 3); os.dup2(104, 4); os.execv(sys.argv[3], sys.argv[3:])"
)


def find_chromium():
    """Where Chromium is, or None."""
    return next((found for found in map(shutil.which, NAMES) if found), None)


class Page:
    """One tab. Everything it logs and requests is kept in `messages` and `requests`."""

    def __init__(self, executable, profile):
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        self._process = subprocess.Popen(
            [
                # Chromium takes commands on descriptor 3 and answers on 4; a process of our own puts the pipes there
                *(sys.executable, "-c", _WIRE, str(to_browser), str(from_browser)),
                executable,
                *FLAGS.split(),
                f"--user-data-dir={profile}",
                "--remote-debugging-pipe",
                "about:blank",
            ],
            pass_fds=(to_browser, from_browser),
            **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL),
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer, self._last, self._session, self._loaded = b"", 0, None, False
        self.messages, self.requests = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        """Sends a command and returns its result, collecting events on the way."""
        self._last += 1
        command = {"id": self._last, "method": method, "params": parameters}
        if self._session is not None:
            command["sessionId"] = self._session
        os.write(self._out, json.dumps(command).encode() + b"\0")
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, url):
        """Loads a page and waits for it."""
        self.messages.clear()
        self.requests.clear()
        self._loaded = False
        self.call("Page.navigate", url=url)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not self._loaded:
            self._next(deadline)

    def size(self, width, height, *, phone=False):
        """Sets the size of the window."""
        scale = {"deviceScaleFactor": 2 if phone else 1, "mobile": phone}
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, **scale)

    def media(self, *, dark=False, kind=""):
        """Pretends that the reader prefers dark colours, or prints."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", media=kind, features=features)

    def run(self, expression):
        """Evaluates JavaScript and returns its value."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def close(self):
        """Ends the browser."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._out)
        os.close(self._in)

    def _next(self, deadline):
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise TimeoutError("Chromium did not answer in time")
            received = os.read(self._in, 1 << 20)
            if not received:
                raise RuntimeError(f"Chromium ended with code {self._process.poll()}")
            self._buffer += received
        line, self._buffer = self._buffer.split(b"\0", 1)
        event = json.loads(line)
        self._note(event)
        return event

    def _note(self, event):
        kind, facts = event.get("method"), event.get("params", {})
        if kind == "Page.loadEventFired":
            self._loaded = True
        elif kind == "Runtime.consoleAPICalled":
            self.messages.append(f"{facts['type']}: {[argument.get('value') for argument in facts['args']]}")
        elif kind == "Runtime.exceptionThrown":
            self.messages.append(f"exception: {facts['exceptionDetails'].get('exception', facts)}")
        elif kind == "Log.entryAdded":
            self.messages.append(f"{facts['entry']['level']}: {facts['entry']['text']}")
        elif kind == "Network.requestWillBeSent":
            self.requests.append(facts["request"]["url"])


@pytest.fixture(scope="session")
def reports(tmp_path_factory):
    """Two reports, as paths: of a network with all columns a report may name, and of three tasks."""
    folder = tmp_path_factory.mktemp("reports")
    columns = {"time": "timestamp", "group": "user_id", "n_bootstrap": 20, "n_floor": 20}
    log = monocal.simulate_log(24_000, seed=5).table()
    bids = np.exp(np.random.default_rng(0).normal(0.0, 0.5, (2, len(log))))
    log = log.append_column("bid", pa.array(bids[0])).append_column("price", pa.array(bids[1]))
    fields = ["site_id", "device", "position", "hour"]
    old, new = log.slice(0, 12_000), log.slice(12_000)
    model = monocal.fit(old, method="umc", score="pctr", label="click", fields=fields, numeric=["price"])
    found = {"one task": report(model, new, folder / "umc.html", value="bid", **columns)}
    log = monocal.simulate_log(8_000, world="multitask", seed=5)
    fields, log = list(log.field_names[1:4]), log.table()
    tasks = {name: (name, TASKS[name].score) for name in ("click", "effective_view", "long_view")}
    several = monocal.fit(log.slice(0, 4_000), method="wide_logistic", tasks=tasks, fields=fields)
    found["tasks"] = report(several, log.slice(4_000), folder / "tasks.html", **columns)
    return found


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    """A tab of a real Chromium; on a machine without one the test is skipped, in CI it fails."""
    executable = find_chromium()
    if executable is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no Chromium in CI: install the distribution's package before running the tests")
        pytest.skip("no Chromium on this machine; install the distribution's package to run the browser tests")
    opened = Page(executable, tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()
