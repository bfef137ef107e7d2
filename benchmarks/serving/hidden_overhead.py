"""What three heads on the ranker's hidden layer add to a multi-task DeepFM, beside heads on field ids.

    python benchmarks/serving/hidden_overhead.py

Requests, ranker and turns are those of `overhead.py`. The heads are compiled loops of this file, put in the place of an
engine's own (checks and fusing are the engine's), or called without the engine ("bare").
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from overhead import (
    BLOCK_REQUESTS,
    FUSION,
    HEAD,
    RAW,
    TASKS,
    Ranked,
    answer_raw,
    engine_of,
    lines_of,
    prepare,
    take_turns,
    world_of_requests,
)
from scipy.special import expit

from monocal.core.files import atomic_file
from monocal.kernels.compiled import compiled
from monocal.kernels.folded_rows import BLOCK, dense_wide
from monocal.kernels.integral_walk import LANES
from monocal.kernels.knot_integral import integrate_knots
from monocal.kernels.rescaling import bounded_scale
from monocal.serving import Request

sys.path.insert(0, str(Path(__file__).parents[1] / "quality"))
from hidden_head import HiddenHead
from hidden_layer import scores_and_hidden

RESULT = Path(__file__).parents[1] / "results" / "hidden_overhead.md"
HEADS: dict[str, tuple[dict[str, Any], bool]] = {
    "hidden layer: shift, linear": ({"form": "shift"}, False),
    "hidden layer: knots, linear": ({}, False),
    "hidden layer: knots, 16 units between": ({"trunk": (16,)}, False),
    "hidden layer: shift, linear; shifts by field": ({"form": "shift"}, True),
    "hidden layer: knots, linear; shifts by field": ({}, True),
    "hidden layer: knots, 16 units between; shifts by field": ({"trunk": (16,)}, True),
}
ENGINES: dict[str, dict[str, Any]] = {
    "SIR, of the score alone": {"method": "sir"},
    "wide logistic": {"method": "wide_logistic"},
    'umc size="small", one network for the three heads': {"size": "small", "shared": True},
    "umc default, one network for the three heads": {"shared": True},
}


@compiled()
def score_hidden_rows(logits, hidden, layers, weights, knots, n_knots, constants, ids, starts, sizes, shifts, out):
    """Writes calibrated logits `(tasks, n)`; `layers` has per layer its inputs, outputs and first weight, by task."""
    n_tasks, n_rows = logits.shape
    n_units = hidden.shape[1] // n_tasks
    work = np.empty((2 * BLOCK, max(n_units, 16)), np.float32)
    beside = np.zeros((BLOCK, n_tasks))
    for first in range(0, n_rows, BLOCK):
        n_here = min(BLOCK, n_rows - first)
        beside[:] = 0.0
        if len(starts):
            for row in range(n_here):
                for field in range(len(starts)):
                    value = ids[first + row, field]
                    place = starts[field] + (value if 0 <= value < sizes[field] else 0)
                    for task in range(n_tasks):
                        beside[row, task] += shifts[place, task]
        for task in range(n_tasks):
            for row in range(n_here):
                for unit in range(n_units):
                    work[row, unit] = hidden[first + row, task * n_units + unit]
            source, target = 0, BLOCK
            for layer in range(layers.shape[1]):
                n_in, n_out, place = layers[task, layer, 0], layers[task, layer, 1], layers[task, layer, 2]
                dense_wide(work, source, target, n_here, n_in, weights, place, n_out)
                source, target = target, source
            slope, intercept, share, beta, constant = constants[task]
            for row in range(n_here):
                t = slope * logits[task, first + row] + intercept
                n_own = n_knots[task]
                if n_own == 0:
                    value = t + work[source + row, 0]
                else:
                    scale = bounded_scale(float(work[source + row, n_own]))
                    area = integrate_knots(t, knots[task], n_own, work, source + row)
                    value = scale * area + (scale * beta + work[source + row, n_own + 1])
                out[task, first + row] = (1.0 - share) * t + share * value + (constant + beside[row, task])


class HiddenScorers:
    """Takes the place of an engine's scorers; `hidden` is what the ranker has just computed.

    Arguments:
        heads: One fitted head per task.
        wide: Whether shifts by field are added.
    """

    def __init__(self, heads: list[HiddenHead], wide: bool) -> None:
        self.hidden = np.zeros((0, 0), np.float32)
        packed, places, knots, constants, n_packed = [], [], [], [], 0
        for head in heads:
            assert head.fitted_ is not None
            found = head.fitted_.weights
            if head.form == "shift":
                matrices = [(found["vector"][:-1][None], found["vector"][-1:])]
                knots.append(np.zeros(0))
            else:
                curve = head.curve_
                matrices = [
                    (layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in curve.trunk.linears
                ]
                knots.append(curve.curve.knots.numpy())
            weight, bias = matrices[0]
            weight = weight @ head.projection_.T
            matrices[0] = (weight, bias - weight @ head.centre_)
            mine = []
            for weight, bias in matrices:
                room = -len(bias) % LANES
                flat = [np.pad(weight, ((0, room), (0, 0))).T.ravel(), np.pad(bias, (0, room))]
                mine.append((weight.shape[1], len(bias) + room, n_packed))
                packed += flat
                n_packed += sum(map(len, flat))
            places.append(mine)
            beta = 0.0 if head.form == "shift" else float(head.curve_.beta.detach())
            # a head that later rows reject costs as much here as one that they believe
            share = head.share_ or 0.5
            constants.append([*found["affine"], share, beta, found["wide.intercept"][0] + head.fitted_.level])
        sizes = np.asarray(heads[0].sizes_ if wide else [], np.int64)
        shifts = np.stack([head.fitted_.weights["wide.shifts"] for head in heads], 1)  # type: ignore[union-attr]
        self._net = (np.array(places), np.concatenate(packed).astype(np.float32))
        n_knots = np.array([len(own) for own in knots])
        self._net += (np.array([np.pad(own, (0, max(n_knots) - len(own))) for own in knots]), n_knots)
        self._constants = np.array(constants)
        self._wide = (np.concatenate([[0], np.cumsum(sizes)])[:-1].astype(np.int64), sizes, shifts)

    def __call__(
        self, logits: dict[str, np.ndarray], ids: np.ndarray, columns: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        if columns is None:
            columns = np.array([logits[task] for task in TASKS])
        found = self.logits(columns, ids)
        expit(found, found)
        return dict(zip(TASKS, found, strict=True))

    def logits(self, columns: np.ndarray, ids: np.ndarray) -> np.ndarray:
        out = np.empty(columns.shape)
        score_hidden_rows(columns, self.hidden, *self._net, self._constants, ids, *self._wide, out)
        return out


def arms_of(ranked: Ranked, engines: Sequence[str] = (*ENGINES,), heads: Sequence[str] = (*HEADS,)) -> dict[str, Any]:
    """Returns functions that rank a request of ids: of the raw ranker, and of these of `ENGINES` and `HEADS`."""
    network = ranked.scorer._network
    ids = np.ascontiguousarray(ranked.log.features)
    _, hidden, _ = scores_and_hidden(network, ids)
    towers = np.split(hidden, len(TASKS), axis=1)
    caught: list[torch.Tensor] = []
    network.heads.register_forward_pre_hook(lambda _, inputs: caught.__setitem__(slice(None), [inputs[0]]))

    def through(engine, scorers=None):
        def answer(ids):
            logits = ranked.scorer(ids)
            if scorers is not None:
                scorers.hidden = caught[0].numpy()
            return engine.calibrate(Request({task: logits[:, k] for k, task in enumerate(TASKS)}, ids=ids)).fused

        return answer

    def bare(scorers):
        def answer(ids):
            logits = ranked.scorer(ids)
            if isinstance(scorers, HiddenScorers):
                scorers.hidden = caught[0].numpy()
            return FUSION.fuse(scorers({task: logits[:, k] for k, task in enumerate(TASKS)}, ids))

        return answer

    arms = {RAW: lambda ids: answer_raw(ranked, ids)}
    times = np.arange(len(ids))
    for name in engines:
        engine = engine_of(ranked, ENGINES[name])
        arms[name] = through(engine)
        if "small" in name:
            arms[f"{name}, bare"] = bare(engine._scorers)
    for name in heads:
        arguments, wide = HEADS[name]
        fitted = [
            HiddenHead(**arguments).fit(
                ranked.logits[:, place],
                np.asarray(ranked.log.task_labels[task]),
                towers[place],
                times,
                ids if wide else None,
            )
            for place, task in enumerate(TASKS)
        ]
        scorers = HiddenScorers(fitted, wide)
        check(scorers, fitted, ranked, hidden, ids, wide)
        engine = engine_of(ranked, {"method": "sir"})
        engine._scorers = scorers
        arms[name] = through(engine, scorers)
        arms[f"{name}, bare"] = bare(scorers)
    return arms


def check(scorers: HiddenScorers, heads, ranked: Ranked, hidden, ids, wide: bool) -> None:
    """The compiled loops must say what the heads say."""
    rows = slice(0, 300)
    scorers.hidden = np.ascontiguousarray(hidden[rows])
    found = scorers.logits(np.ascontiguousarray(ranked.logits[rows].T), np.ascontiguousarray(ids[rows]))
    for place, (head, tower) in enumerate(zip(heads, np.split(hidden[rows], len(heads), axis=1), strict=True)):
        if head.share_ > 0.0:
            wanted = head.logits(ranked.logits[rows, place], tower, ids[rows] if wide else None)
            np.testing.assert_allclose(found[place], wanted, atol=1e-4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=12_000)
    parser.add_argument("--blocks", type=int, default=100)
    parser.add_argument("--runs", type=int, default=2)
    wishes = parser.parse_args()
    torch.set_num_threads(1)
    ranked = prepare(wishes.rows, 200, world_of_requests())
    arms = arms_of(ranked)
    tables: list[str] = []
    for number in range(wishes.runs):
        before = os.getloadavg()[0]
        found = lines_of(take_turns(arms, ranked.requests, wishes.blocks))
        loads = f"Load average {before:.1f} before, {os.getloadavg()[0]:.1f} after."
        tables += [f"## Run {number + 1}", "", loads, "", *HEAD, *found, ""]
        print("\n".join(tables), flush=True)
    write(tables, wishes)


def write(lines: list[str], wishes: argparse.Namespace) -> None:
    """Writes the measured part; what it means is written by hand below the mark and kept."""
    mark = "<!-- reading -->"
    reading = RESULT.read_text(encoding="utf-8").split(mark)[1] if RESULT.exists() else "\n"
    text = f"""# What heads on the ranker's hidden layer add to a request

`python benchmarks/serving/hidden_overhead.py --rows {wishes.rows} --blocks {wishes.blocks} --runs {wishes.runs}`

Requests, multi-task DeepFM and turns are those of [serving_overhead.md](serving_overhead.md): 100 candidates, three
tasks, 21 fields with ids given, one thread, one process, {wishes.blocks * BLOCK_REQUESTS} requests per arm. Heads on
the hidden layer (128 numbers per task) are compiled loops with the steps of umc's own; they read the ranker's
array as it lies in memory, so nothing is paid for handing it over. They stand in an engine in the place of its own
scorers (checks and fusing are the engine's), or are called without the engine (*bare*), as one arm of umc is.
{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, numba {numba.__version__},
numpy {np.__version__}. On a busy machine wall columns (QPS, p50, p99) measure the neighbours.

"""
    with atomic_file(RESULT) as temporary:
        temporary.write_text(text + "\n".join(lines) + f"\n{mark}{reading}", encoding="utf-8")


if __name__ == "__main__":
    main()
