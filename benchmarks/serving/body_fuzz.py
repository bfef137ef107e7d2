"""Bodies that are nearly right, of every call: no answer of class 5xx, none that is not whole.

    python benchmarks/serving/body_fuzz.py --bodies 50000

A right body is drawn from the grammar of a call, then changed in up to four places: a value becomes something else, a
member goes, comes or is renamed, a list grows or shrinks, bytes are flipped or cut off. Bodies go straight into the
application, without a socket, so that tens of thousands take a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import copy
import json
import math
import tempfile
import time
from pathlib import Path

import numpy as np

import monocal
from monocal.lab.simulator import simulate_log
from monocal.models import Fusion
from monocal.serving import Settings, create_app

FIELDS = ["site_id", "ad_id", "country", "hour", "position", "device"]
TASKS = {"click": ("click", "pctr"), "effective_view": ("effective_view", "pev"), "long_view": ("long_view", "plv")}
TOKEN = "a token for the fuzz only"
MAX_ROWS = 20
JUNK = [None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, -(2**63), 0.5, -0.0, 1e308, 1e-320, -1e308, "", "a", "click"]
JUNK += [
    "ids",
    "\ud800",
    "ß" * 300,
    [],
    {},
    [[]],
    [{}],
    {"a": []},
    [None],
]
JUNK += [[0.1], ["a"], [1, 2, 3], {"name": []}, {"name": {}}, {"click": [0.1]}, {"weights": {}}, float("nan"), math.inf]


def make_models(home):
    """Two models: three fused tasks on probabilities, and one task on logits with a sampling rate per row."""
    log = simulate_log(3000, seed=3, tasks=tuple(TASKS)).table()
    fused = monocal.fit(log, method="wide_logistic", tasks=TASKS, fields=FIELDS)
    fused.with_fusion(Fusion({"click": 1.0, "long_view": 2.0}, {"long_view": 0.5})).save(home / "fused")
    rows = log.to_pydict()
    p = np.asarray(rows["pctr"])
    table = {"z": np.log(p / (1 - p)), "click": rows["click"], "rate": [0.5] * len(p)}
    table |= {name: rows[name] for name in FIELDS[:2]}
    sampled = monocal.fit(
        table, method="platt", score="z", label="click", fields=FIELDS[:2], scores_are="logit", sampling_rate="rate"
    )
    sampled.save(home / "sampled")
    return [(home / "fused", list(TASKS), FIELDS), (home / "sampled", ["click"], FIELDS[:2])]


class Grammar:
    """Draws requests to one model."""

    def __init__(self, tasks, fields, seed):
        self.tasks, self.fields = tasks, fields
        self.rng = np.random.default_rng(seed)

    def request(self):
        """Returns a path, headers and a body."""
        kind = self.pick([self.calibrate, self.calibrate, self.feedback, self.load])
        return kind()

    def pick(self, values):
        return values[int(self.rng.integers(len(values)))]

    def chance(self, share):
        return bool(self.rng.random() < share)

    def calibrate(self):
        n_rows = int(self.rng.integers(1, 5))
        tasks = [task for task in self.tasks if self.chance(0.7)] or self.tasks[:1]
        body = {"scores": {task: self.rng.random(n_rows).tolist() for task in tasks}}
        if self.chance(0.3):
            body["ids"] = self.rng.integers(0, 30, (n_rows, len(self.fields))).tolist()
        else:
            body["fields"], body["shared"] = {}, {}
            for name in self.fields:
                if self.chance(0.5):
                    body["shared"][name] = self.value()
                else:
                    body["fields"][name] = [self.value() for _ in range(n_rows)]
        if self.chance(0.5):
            body["sampling_rate"] = 0.5 if self.chance(0.5) else [0.5] * n_rows
        if self.chance(0.3):
            body["fusion"] = {"weights": dict.fromkeys(tasks, 1.5), "powers": dict.fromkeys(tasks, 0.5)}
            body["other"] = self.rng.random(n_rows).tolist()
        return "/v1/calibrate", {}, self.written(self.changed(body))

    def feedback(self):
        n_rows = int(self.rng.integers(1, 5))
        body = {
            "probabilities": {task: self.rng.random(n_rows).tolist() for task in self.tasks},
            "labels": {task: [self.pick([0, 1, None]) for _ in range(n_rows)] for task in self.tasks},
        }
        headers = (
            {"authorization": f"Bearer {TOKEN}"} if self.chance(0.9) else {"authorization": self.pick(["", "x y"])}
        )
        return "/v1/feedback", headers, self.written(self.changed(body))

    def load(self):
        name = self.pick(["model", "shadow", "x", "%00", "..", "a" * 300])
        path = f"/v1/models/{name}" + self.pick(["/load", "/load", "", "/versions/1"])
        headers = {"authorization": self.pick([f"Bearer {TOKEN}x", "Bearer", "Basic ß", "bearer \ud83d", ""])}
        return path, headers, self.written(self.changed({"folder": "/", "version": "1"}))

    def value(self):
        return self.pick(["news", "7", 7, True, None, "", "new", "ß", -3, 2**40])

    def changed(self, body):
        """Returns the body with up to four changes anywhere in it."""
        holder = {"": copy.deepcopy(body)}
        for _ in range(int(self.rng.integers(0, 5))):
            places = list(containers(holder))
            place = self.pick(places)
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                continue
            key = self.pick(keys)
            how = self.pick(["replace", "replace", "replace", "remove", "add", "rename", "repeat"])
            if how == "replace" or place is holder:
                place[key] = copy.deepcopy(self.pick(JUNK))
            elif how == "remove":
                del place[key]
            elif isinstance(place, dict):
                name = self.pick([*self.tasks, *self.fields, "x", "", "\u0000"])
                place[name] = copy.deepcopy(self.pick(JUNK)) if how == "add" else place.pop(key)
            else:
                place.extend([copy.deepcopy(place[key])] * int(self.rng.integers(1, 40)))
        return holder[""]

    def written(self, body):
        """Writes JSON as a careless client would, with NaN and infinity, and damages some of it."""
        content = json.dumps(body, ensure_ascii=self.chance(0.5)).encode("utf-8", "surrogatepass")
        if self.chance(0.05) and content:
            at = int(self.rng.integers(len(content)))
            byte = bytes([int(self.rng.integers(256))])
            content = self.pick([content[:at], content[:at] + byte + content[at + 1 :], content + byte])
        return content


def containers(value):
    """Yields every object and list inside a value."""
    if isinstance(value, dict | list):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from containers(inner)


async def ask(app, path, headers, body):
    """Sends one request into the application and returns status and body."""
    sent = []
    given = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive():
        return next(given, {"type": "http.disconnect"})

    async def send(message):
        sent.append(message)

    raw = [(name.encode(), value.encode("utf-8", "replace")) for name, value in headers.items()]
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http"}
    scope |= {"path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": raw}
    scope |= {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)}
    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def problem_of(status, body):
    """Says what is wrong with an answer, or returns None."""
    if status >= 500:
        return f"status {status}"
    if status != 200:
        said = json.loads(body)
        return None if set(said) == {"error"} and len(body) < 4000 else "a refusal without a reason"
    said = json.loads(body)
    values = [value for column in said.get("probabilities", {}).values() for value in column]
    if not all(isinstance(value, float) and math.isfinite(value) for value in values):
        return "an answer with something else than finite numbers"
    return None


async def run_one(folder, tasks, fields, n_bodies, seed, found):
    grammar = Grammar(tasks, fields, seed)
    app = create_app(Settings(folder, name="model", token=TOKEN, max_rows=MAX_ROWS))
    async with app.router.lifespan_context(app):
        for _ in range(n_bodies):
            path, headers, body = grammar.request()
            status, answer = await ask(app, path, headers, body)
            found["statuses"][status] += 1
            problem = problem_of(status, answer)
            if problem is not None:
                found["problems"].append((problem, path, headers, body, answer))


def run(n_bodies, seed=0):
    """Returns how many answers had which status, and everything that was wrong."""
    found = {"statuses": collections.Counter(), "problems": []}
    with tempfile.TemporaryDirectory() as home:
        models = make_models(Path(home))
        for place, (folder, tasks, fields) in enumerate(models):
            asyncio.run(run_one(folder, tasks, fields, n_bodies // len(models), seed + place, found))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bodies", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    wishes = parser.parse_args()
    start = time.monotonic()
    found = run(wishes.bodies, wishes.seed)
    print(dict(sorted(found["statuses"].items())), f"{time.monotonic() - start:.0f} s")
    print(len(found["problems"]), "problems")
    for problem in found["problems"][:20]:
        print(*problem, sep="\n  ")


if __name__ == "__main__":
    main()
