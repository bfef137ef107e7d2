"""What one request costs in process, from raw strings to probabilities, on one thread.

    python benchmarks/serving/engine_latency.py

Times are CPU time of one thread, the best and the median of many rounds, cases interleaved so that a busy neighbour
hits all of them alike. The part before the score (dictionary look-ups) and the score itself are timed beside the whole.
"""

import argparse
import os
import platform
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa

import monocal
from monocal.calibrators import CALIBRATORS
from monocal.serving import Engine, Request

N_FIELDS, N_SHARED = 21, 11
RESULT = Path(__file__).parents[1] / "results" / "engine_latency.md"
TARGETS = {1: "≤ 30", 100: "≤ 500"}


def make_log(n_rows, rng):
    """Returns scores, labels and 21 string fields of 20 to 20,000 values."""
    sizes = [20 * 10 ** (f % 4) for f in range(N_FIELDS)]
    fields = {
        f"field_{f}": pa.array([f"value_{value}" for value in rng.zipf(1.3, n_rows) % size])
        for f, size in enumerate(sizes)
    }
    scores = rng.beta(1.0, 8.0, n_rows)
    labels = (rng.random(n_rows) < scores).astype(np.int8)
    return pa.table({"pctr": scores, "click": labels, **fields})


def cases_of(log, names):
    """Returns requests: 1 and 100 candidates, with all fields per candidate and with 11 of 21 given once."""
    made = {}
    for n_rows in (1, 100):
        rows = log.slice(500, n_rows).to_pydict()
        for n_shared in (0, N_SHARED):
            shared = {name: rows[name][0] for name in names[:n_shared]}
            fields = {name: rows[name] for name in names[n_shared:]}
            made[n_rows, n_shared] = Request({"click": rows["pctr"]}, shared, fields)
    return made


def seconds_per_call(call, n_calls):
    start = time.process_time()
    for _ in range(n_calls):
        call()
    return (time.process_time() - start) / n_calls


def measure(engine, cases, n_rounds):
    """Returns best and median microseconds: the whole, the look-up, the score."""
    calls = {}
    for key, request in cases.items():
        n_rows = key[0]
        answer = engine.calibrate(request)
        score = engine._scorers["click"]
        calls[key, "whole"] = lambda request=request: engine.calibrate(request)
        calls[key, "look-up"] = lambda request=request, n_rows=n_rows: engine._encoder.encode(request, n_rows)
        calls[key, "score"] = lambda answer=answer, score=score: score(answer.logits["click"], answer.ids)
    taken = {key: [] for key in calls}
    for _ in range(n_rounds):
        for key, call in calls.items():
            taken[key].append(seconds_per_call(call, 50 if key[0][0] == 1 else 5) * 1e6)
    return {key: (min(found), float(np.median(found))) for key, found in taken.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", default=["platt", "wide_logistic", "umc"])
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=300)
    wishes = parser.parse_args()
    log = make_log(wishes.rows, np.random.default_rng(0))
    names = [name for name in log.column_names if name.startswith("field_")]
    cases = cases_of(log, names)
    lines = []
    memory = 0.0
    for method in wishes.methods:
        if method not in CALIBRATORS:
            lines.append(f"| {method} | not in this version | | | | | |")
            continue
        model = monocal.fit(log, method=method, score="pctr", label="click", fields=names)
        engine = Engine(model)
        engine.warm_up()
        memory = engine.vocabulary_n_bytes / 2**20
        for (n_rows, _), request in cases.items():
            rows = {**request.fields, **{name: [value] * n_rows for name, value in request.shared.items()}}
            offline = model.predict({"pctr": request.scores["click"], **rows})
            assert np.array_equal(engine.calibrate(request).probabilities["click"], offline)
        found = measure(engine, cases, wishes.rounds)
        for key in cases:
            whole, look_up, score = (found[key, part] for part in ("whole", "look-up", "score"))
            lines.append(
                f"| {method} | {key[0]} | {key[1]} | **{whole[0]:.1f}** | {whole[1]:.1f} | {look_up[0]:.1f} | "
                f"{score[0]:.1f} | {TARGETS[key[0]] if key[1] == 0 else ''} |"
            )
        print("\n".join(lines[-4:]))
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    table = "\n".join(lines)
    sizes = " + ".join(f"{size:,}" for size in model.vocabulary.sizes[:4])
    RESULT.write_text(
        f"""# Latency of the engine

Command: `python benchmarks/serving/engine_latency.py --methods {" ".join(wishes.methods)}`.

One request in process: {N_FIELDS} string fields ({sizes} + … ids), one task, look-up included, no HTTP. CPU
microseconds on one thread, best and median of {wishes.rounds} interleaved rounds. Machine: {psutil.cpu_count()} cores
({platform.machine()}), shared with other work (load average {load}). Answers were checked to be bit-equal to
`model.predict` before timing.

| method | candidates | fields given once | whole, best | whole, median | look-up, best | score, best | target |
| --- | --- | --- | --- | --- | --- | --- | --- |
{table}

The look-up tables of these {sum(model.vocabulary.sizes):,} values take {memory:.1f} MB per worker.
""",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
