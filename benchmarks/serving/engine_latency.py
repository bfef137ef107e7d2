"""What one request costs in process, from raw strings to probabilities, on one thread.

    python benchmarks/serving/engine_latency.py                # two minutes
    python benchmarks/serving/engine_latency.py --rounds 20    # a quick look

Times are CPU time of one thread, the best and the median of many rounds, cases interleaved so that a busy neighbour
hits all of them alike. Every case is timed twice: the same request over and over, with everything in the cache, and
requests that change, whose strings are new objects, as those of a parsed body are.
"""

import argparse
import os
import platform
import sys
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import psutil
import pyarrow as pa

import monocal
from monocal.compiled.predict import umc_predictor
from monocal.serving import Engine, Request

N_FIELDS, N_SHARED, N_REQUESTS = 21, 11, 40
TARGETS = {1: "≤ 15", 100: "≤ 200"}
SWEPT_BYTES = 8 << 20
"""What a ranker may touch between two calls: more than the second-level cache of any core."""


def make_log(n_rows, rng):
    """Returns scores, labels that depend on fields as well, and 21 string fields of 20 to 20,000 values."""
    sizes = [20 * 10 ** (f % 4) for f in range(N_FIELDS)]
    values = [rng.zipf(1.3, n_rows) % size for size in sizes]
    fields = {f"field_{f}": pa.array([f"value_{value}" for value in column]) for f, column in enumerate(values)}
    scores = rng.beta(1.0, 8.0, n_rows).clip(1e-6, 1.0 - 1e-6)
    effects = sum(rng.uniform(-0.4, 0.4, size)[column] for size, column in zip(sizes[:8], values, strict=False))
    logits = 0.7 * np.log(scores / (1.0 - scores)) - 0.3 + effects
    labels = (rng.random(n_rows) < 1.0 / (1.0 + np.exp(-logits))).astype(np.int8)
    return pa.table({"pctr": scores, "click": labels, **fields})


def fitted_model(log, method):
    """Returns a model of all fields; of a network, the whole of it is believed: one that is not costs less."""
    names = [name for name in log.column_names if name.startswith("field_")]
    wishes = {"carry": "none", "n_epochs": 2} if method == "umc" else {}
    return monocal.fit(log, method=monocal.calibrator(method, **wishes), score="pctr", label="click", fields=names)


def requests_of(log, names, n_rows, n_shared):
    """Returns requests whose strings are objects of their own."""
    made = []
    for place in range(N_REQUESTS):
        rows = log.slice(500 + place * n_rows, n_rows).to_pydict()
        shared = {name: rows[name][0] for name in names[:n_shared]}
        made.append(Request({"click": rows["pctr"]}, shared, {name: rows[name] for name in names[n_shared:]}))
    return made


def calls_of(engine, requests, n_rows):
    """Returns what is timed: the whole for one request and for changing ones, and its parts for changing ones."""
    answers = [engine.calibrate(request) for request in requests]

    def taking_turns(call, cases):
        turn = iter(range(1 << 60))
        return lambda: call(cases[next(turn) % N_REQUESTS])

    return {
        "same": lambda: engine.calibrate(requests[0]),
        "changing": taking_turns(engine.calibrate, requests),
        "look-up": taking_turns(lambda request: engine._encoder.encode(request, n_rows), requests),
        "score": taking_turns(lambda answer: engine._scorers(answer.logits, answer.ids), answers),
    }


def measured(calls, n_rounds, n_calls):
    """Returns the best and the median microseconds of every call."""
    taken = {key: [] for key in calls}
    for _ in range(n_rounds):
        for key, call in calls.items():
            start = time.thread_time()
            for _ in range(n_calls(key)):
                call()
            taken[key].append((time.thread_time() - start) / n_calls(key) * 1e6)
    return {key: (min(found), float(np.median(found))) for key, found in taken.items()}


def check(engine, model, requests, n_rows):
    for request in requests:
        rows = {**request.fields, **{name: [value] * n_rows for name, value in request.shared.items()}}
        offline = model.predict({"pctr": request.scores["click"], **rows})
        assert np.array_equal(engine.calibrate(request).probabilities["click"], offline)


def random_twin(predictor, sizes, rng):
    """Returns a predictor of the same shape with weights as torch draws them."""
    widths = [len(sizes) * 16, 128, 128, len(predictor.knots) + 2]
    state = {"knots": predictor.knots, "beta": np.zeros(1)}
    for place, (n_in, n_out) in enumerate(pairwise(widths)):
        bound = n_in**-0.5
        state[f"trunk.layers.{place}.weight"] = rng.uniform(-bound, bound, (n_out, n_in))
        state[f"trunk.layers.{place}.bias"] = rng.uniform(-bound, bound, n_out)
    vectors, shifts = rng.normal(size=(sum(sizes), 16)), np.zeros(sum(sizes))
    return umc_predictor(state, field_sizes=sizes, vectors=vectors, wide_shifts=shifts)


def kernel_lines(model, log, names, n_rounds):
    """Times the compiled loops alone: a fitted and a random network, one request, changing ones, and behind a sweep."""
    fitted = model.tasks[0].calibrator._fitted_map().predictor
    n_rows = N_REQUESTS * 100
    rows = log.slice(500, n_rows)
    ids = model.vocabulary.encode(rows.select(names)).reshape(N_REQUESTS, 100, N_FIELDS)
    ids[:, :, :N_SHARED] = ids[:, :1, :N_SHARED]
    logits = np.log(rows["pctr"].to_numpy()).reshape(N_REQUESTS, 100)
    swept = np.zeros(SWEPT_BYTES // 8)
    calls = {}
    twin = random_twin(fitted, list(model.vocabulary.sizes), np.random.default_rng(0))
    for name, predictor in (("fitted", fitted), ("random", twin)):
        turn = iter(range(1 << 60))

        def changing(predictor=predictor, turn=turn):
            place = next(turn) % N_REQUESTS
            predictor.score(logits[place], ids[place])

        def behind_a_sweep(changing=changing):
            np.add(swept, 1.0, out=swept)
            changing()

        calls[name, "same"] = lambda predictor=predictor: predictor.score(logits[0], ids[0])
        calls[name, "changing"] = changing
        calls[name, "swept"] = behind_a_sweep
    calls["sweep"] = lambda: np.add(swept, 1.0, out=swept)
    found = measured(calls, n_rounds, lambda _: 5)
    lines = []
    for name, predictor in (("fitted", fitted), ("random", twin)):
        same, changing = found[name, "same"][0], found[name, "changing"][0]
        cold = found[name, "swept"][1] - found["sweep"][1]
        floats = np.concatenate([predictor.net.table.ravel(), predictor.net.weights])
        n_denormal = int(((floats != 0.0) & (np.abs(floats) < np.finfo(np.float32).tiny)).sum())
        lines.append(
            f"| {name} | {same:.0f} | {changing:.0f} | {cold:.0f} | {_share_on(predictor, ids):.0%} | {n_denormal} |"
        )
    return lines


def _share_on(predictor, ids):
    """The share of first-layer units that are on."""
    net, sums = predictor.net, 0.0
    rows = ids.reshape(-1, N_FIELDS)
    first = 8
    for f in range(N_FIELDS):
        column, size, start, _ = net.plan[first + 4 * f : first + 4 * f + 4]
        sums = sums + net.table[start + np.where(rows[:, column] < size, rows[:, column], 0)]
    return float((sums + net.weights[: net.plan[2]])[:, net.plan[1] :].__gt__(0.0).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", default=["platt", "wide_logistic", "umc"])
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=100)
    wishes = parser.parse_args()
    log = make_log(wishes.rows, np.random.default_rng(0))
    names = [name for name in log.column_names if name.startswith("field_")]
    lines, kernels, memory = [], [], 0.0
    for method in wishes.methods:
        model = fitted_model(log, method)
        engine = Engine(model)
        engine.warm_up()
        memory = engine.vocabulary_n_bytes / 2**20
        calls = {}
        for n_rows in (1, 100):
            for n_shared in (0, N_SHARED):
                requests = requests_of(log, names, n_rows, n_shared)
                check(engine, model, requests, n_rows)
                named = calls_of(engine, [replace(request) for request in requests], n_rows)
                calls |= {(n_rows, n_shared, part): call for part, call in named.items()}
        found = measured(calls, wishes.rounds, lambda key: 80 if key[0] == 1 else 8)
        for n_rows in (1, 100):
            for n_shared in (0, N_SHARED):
                same, changing, look_up, score = (
                    found[n_rows, n_shared, part] for part in ("same", "changing", "look-up", "score")
                )
                lines.append(
                    f"| {method} | {n_rows} | {n_shared} | **{same[0]:.1f}** | {same[1]:.1f} | {changing[0]:.1f} | "
                    f"{changing[1]:.1f} | {look_up[0]:.1f} | {score[0]:.1f} | {'' if n_shared else TARGETS[n_rows]} |"
                )
        print("\n".join(lines[-4:]), file=sys.stderr, flush=True)
        if method == "umc":
            kernels = kernel_lines(model, log, names, wishes.rounds)
            print("\n".join(kernels), file=sys.stderr, flush=True)
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    sizes = " + ".join(f"{size:,}" for size in model.vocabulary.sizes[:4])
    table, kernel_table = "\n".join(lines), "\n".join(kernels)
    print(
        f"""# Latency of the engine

Command: `python benchmarks/serving/engine_latency.py --rounds {wishes.rounds}`.

One request in process: {N_FIELDS} string fields ({sizes} + … ids), one task, look-up included, no HTTP. CPU
microseconds on one thread, best and median of {wishes.rounds} interleaved rounds; look-up and score are the best for
changing requests. `umc` has its default size, is fitted on {wishes.rows:,} rows and believed wholly. "Same" is one
request over and over, "changing" {N_REQUESTS} requests in turn whose strings are new objects. Machine:
{psutil.cpu_count()} cores ({platform.machine()}), load average {load}. Answers were checked to be bit-equal to
`model.predict` before timing.

| method | candidates | given once | same, best | median | changing, best | median | look-up | score | target |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
{table}

The look-up tables of these {sum(model.vocabulary.sizes):,} values take {memory:.1f} MB per worker.

## The compiled loops alone

100 rows, {N_SHARED} of {N_FIELDS} fields alike in all of them; random weights as torch draws them, in the same shape.
"Swept" is a changing request after {SWEPT_BYTES >> 20} MB were touched, as by a ranker (medians).

| network | same, best | changing, best | swept | first-layer units on | denormal numbers |
| --- | --- | --- | --- | --- | --- |
{kernel_table}
"""
    )


if __name__ == "__main__":
    main()
