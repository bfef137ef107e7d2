"""Loading a model with ten million values: memory and CPU per process, with the mapped index and with one built anew.

python benchmarks/scale/mapped_index.py make MODEL --values 10000000
python benchmarks/scale/mapped_index.py mapped MODEL
python benchmarks/scale/mapped_index.py built MODEL
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

import monocal
from monocal.tables.vocabulary import FieldVocabulary, Vocabulary


def memory(key: str) -> float:
    """Returns a line of this process's memory in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(key))


def make(folder: Path, n_values: int) -> None:
    """Saves a model that knows that many users."""
    rng = np.random.default_rng(0)
    log = {"p": rng.uniform(0.1, 0.3, 1000), "y": rng.integers(0, 2, 1000), "user": ["0"] * 1000}
    model = monocal.fit(log, method="platt", score="p", label="y", fields=["user"])
    users = pa.array([f"{number:012d}" for number in range(n_values)])
    replace(model, vocabulary=Vocabulary((FieldVocabulary("user", users),))).save(folder)


def measure(folder: Path, *, is_built: bool) -> None:
    """Loads the model, looks up some values and prints what it took."""
    asked = pa.array([f"{number:012d}" for number in range(0, 1_000_000, 7)])
    monocal.load  # noqa: B018 (imports the package before the clock starts)
    before, cpu = memory("RssAnon"), time.process_time()
    field = monocal.load(folder).vocabulary.fields[0]
    if is_built:
        field = FieldVocabulary(field.name, field.values)
    ids = field.encode(asked)
    facts = {
        "index": "built" if is_built else "mapped",
        "values": len(field.values),
        "private MiB": round(memory("RssAnon") - before),
        "shared MiB": round(memory("RssFile")),
        "cpu s": round(time.process_time() - cpu, 2),
        "found": int((ids > 0).sum()),
    }
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["make", "mapped", "built"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--values", type=int, default=10_000_000)
    given = parser.parse_args()
    if given.what == "make":
        make(given.folder, given.values)
    else:
        measure(given.folder, is_built=given.what == "built")
