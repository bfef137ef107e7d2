"""Peak memory of a wide fit by several processes on a log of many rows; prints a line per process.

python benchmarks/scale/team_memory.py make LOG --rows 20000000 --fields 21
torchrun --standalone --nproc-per-node 2 benchmarks/scale/team_memory.py fit LOG
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from monocal.core.roles import Roles
from monocal.logs.encoded_log import EncodedLog
from monocal.models.fit_options import FitOptions
from monocal.models.fitting import fit_log
from monocal.vocabulary.vocabulary import FieldVocabulary, Vocabulary

VALUES = 20_000
BLOCK = 1_000_000


def make(folder: Path, n_rows: int, n_fields: int) -> None:
    """Writes ids, scores and labels block by block."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    kinds = {"ids": ((n_rows, n_fields), np.int32), "scores": ((n_rows,), np.float64), "labels": ((n_rows,), np.int8)}
    files = {
        name: np.lib.format.open_memmap(folder / f"{name}.npy", "w+", kind, shape)
        for name, (shape, kind) in kinds.items()
    }
    effects = 0.3 * rng.normal(size=(n_fields, VALUES))
    for start in range(0, n_rows, BLOCK):
        at = slice(start, min(start + BLOCK, n_rows))
        ids = (VALUES * rng.random((at.stop - start, n_fields), dtype=np.float32) ** 2).astype(np.int32)
        logits = rng.normal(-3.0, 1.0, at.stop - start)
        truth = 1.3 * logits + effects[0, ids[:, 0]]
        files["ids"][at] = ids + 1
        files["scores"][at] = 1.0 / (1.0 + np.exp(-logits))
        files["labels"][at] = rng.random(at.stop - start) < 1.0 / (1.0 + np.exp(-truth))


def opened(folder: Path) -> EncodedLog:
    """Maps what `make` wrote as a log."""
    import pyarrow as pa

    ids, scores, labels = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("ids", "scores", "labels"))
    texts = pa.array([str(number) for number in range(VALUES)])
    fields = [f"f{number}" for number in range(ids.shape[1])]
    return EncodedLog(
        features=ids,
        labels={"y": labels},
        vocabulary=Vocabulary(tuple(FieldVocabulary(name, texts) for name in fields)),
        roles=Roles.of(score="p", label="y", fields=fields),
        fingerprint="made up",
        scores={"y": scores},
    )


def memory(key: str) -> int:
    """Returns a line of this process's memory in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return 1024 * int(line.split()[1])
    raise KeyError(key)


def fit(folder: Path) -> None:
    """Fits this process's part and prints what it took."""
    from threading import Event, Thread

    from monocal.training.process_group import launched_team

    team, log = launched_team(), opened(folder)
    before, peak, done = memory("RssAnon"), 0, Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.05):
            peak = max(peak, memory("RssAnon"))

    watcher = Thread(target=watch)
    watcher.start()
    started, cpu = time.perf_counter(), time.process_time()
    model = fit_log(log, FitOptions("wide_logistic"), team=team)
    done.set()
    watcher.join()
    own = log.n_rows / team.size
    facts = {
        "rank": team.rank,
        "of": team.size,
        "rows": log.n_rows,
        "fields": log.n_fields,
        "bytes per own row at the peak": round((peak - before) / own, 1),
        "peak MiB beyond the start": round((peak - before) / 2**20),
        "wall s": round(time.perf_counter() - started, 1),
        "cpu s": round(time.process_time() - cpu, 1),
        "shifts": model.tasks[0].calibrator.shifts_.tobytes()[-8:].hex(),
    }
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["make", "fit"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--fields", type=int, default=21)
    given = parser.parse_args()
    if given.what == "make":
        make(given.folder, given.rows, given.fields)
    else:
        fit(given.folder)
