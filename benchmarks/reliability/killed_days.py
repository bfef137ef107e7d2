"""Kills a daily job (refresh, save, promote) at random moments and looks whether anything is lost or half-believed.

After every kill the model in force has to load, to be the one before the day or the one after it, and to know its
parents; the folder of the next generation, if it is there, has to be whole; and the job, started again, has to go on.

    python benchmarks/reliability/killed_days.py --kills 200
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import time
from pathlib import Path

import numpy as np

import monocal
from monocal.models.artefact import load_model
from monocal.operations import promote, read_registry, refresh

ROWS = 2_000


def rows_of_day(day: int) -> dict[str, list[float]]:
    random = np.random.default_rng(day)
    scores = random.uniform(0.02, 0.4, ROWS)
    return {
        "pctr": scores.tolist(),
        "click": (random.random(ROWS) < scores).astype(int).tolist(),
        "site": random.integers(0, 50 + day, ROWS).tolist(),
        "day": [day] * ROWS,
    }


def do_day(place: Path) -> None:
    """Goes on from the model in force with the day that it has not learned; to be repeated at will."""
    found = read_registry(place / "registry")
    day = found.load().info.get("generation", 1)
    refresh(found.model_folder, rows_of_day(day), place / "next")
    promote(place / "next", place / "registry")


def look(place: Path) -> int:
    """Returns the generation in force; fails if anything is not whole or not in its place."""
    found = read_registry(place / "registry")
    model = found.load()
    generation = int(model.info.get("generation", 1))
    assert generation == found.current.generation == len(found.history)
    parents = [entry["parent"] for entry in model.info.get("history", ())]
    assert parents == [step.fingerprint for step in found.history[:-1]]
    assert [entry["last"] for entry in model.info["learned_from"]] == list(range(generation))
    if (place / "next").exists():
        assert load_model(place / "next").info.get("generation", 1) in (generation, generation + 1)
    return generation


def kill_days(place: Path, n_kills: int, seed: int = 0) -> dict[str, int]:
    """Returns how many kills left the generation before in force, and how many the new one."""
    random = np.random.default_rng(seed)
    columns = {"score": "pctr", "label": "click", "fields": ["site"], "time": "day"}
    monocal.fit(rows_of_day(0), method="wide_logistic", **columns).save(place / "first")  # type: ignore[arg-type]
    promote(place / "first", place / "registry")
    longest = 0.0
    for _ in range(3):
        start = time.perf_counter()
        do_day(place)
        longest = max(longest, time.perf_counter() - start)
    counts = {"kills": 0, "before": 0, "after": 0, "finished before the kill": 0}
    while counts["kills"] < n_kills:
        before = look(place)
        child = os.fork()
        if child == 0:
            do_day(place)
            os._exit(0)
        time.sleep(float(random.uniform(0.0, 2.0 * longest)))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        after = look(place)
        assert after - before in (0, 1)
        if os.WIFSIGNALED(status):
            counts["kills"] += 1
            counts["after" if after > before else "before"] += 1
        else:
            counts["finished before the kill"] += 1
    do_day(place)
    look(place)
    left = sorted(os.listdir(place))
    assert left == ["first", "next", "registry"], left
    assert sorted(os.listdir(place / "registry")) == ["models", "registry.json"]
    return counts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as place:
        print(json.dumps(kill_days(Path(place), given.kills, given.seed)))


if __name__ == "__main__":
    main()
