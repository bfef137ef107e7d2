"""How fast rankers train and score, what limits them, and how much memory a large vocabulary needs.

python benchmarks/speed/ranker_speed.py                  # Avazu's field sizes, half a million rows, a few minutes
python benchmarks/speed/ranker_speed.py --rows 100000    # a quick look
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import time
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from monocal.core.files import atomic_file
from monocal.core.roles import Roles
from monocal.lab.rankers import DeepFM, HashedLogistic, MultiTaskDeepFM
from monocal.lab.rankers.fm.dense import DenseBuffers, DenseShape, DenseViews
from monocal.lab.rankers.fm.field_plan import FieldPlan
from monocal.lab.rankers.fm.model import CHUNK_ROWS
from monocal.lab.rankers.fm.trainer import FmTrainer
from monocal.lab.simulator.fields import draw_power_law
from monocal.logs.encoded_log import EncodedLog
from monocal.vocabulary.vocabulary import FieldVocabulary, Vocabulary

AVAZU = (7, 7, 4737, 7745, 26, 8552, 559, 36, 2686408, 6729486, 8251, 5, 4, 2626, 8, 9, 435, 4, 68, 172, 60)
_BATCH_ROWS = 16_384
_RESULTS = Path(__file__).resolve().parents[1] / "results" / "ranker_speed.md"


def main() -> None:
    arguments = _arguments()
    n_rows = arguments.rows // _BATCH_ROWS * _BATCH_ROWS
    log = draw_log(n_rows)
    print(f"{n_rows:,} rows, {sum(log.field_sizes):,} field values, load {os.getloadavg()[0]:.1f}")
    warm = log.slice(0, 2 * _BATCH_ROWS)
    lines = []
    steps = _StepClock()
    DeepFM(hidden=(512, 8), n_threads=1).fit(warm)  # compiles the loops, which is not what is measured
    for name, ranker in (
        ("DeepFM 512×256×128", DeepFM(n_threads=arguments.threads)),
        ("DeepFM, the authors' extra layer of 64", DeepFM(variant="authors", n_threads=arguments.threads)),
        ("multi-task DeepFM, three tasks", MultiTaskDeepFM(n_threads=arguments.threads)),
        ("hashed logistic", HashedLogistic(tasks=["click"])),
    ):
        with steps:
            wall, cpu = _timed(lambda ranker=ranker: ranker.fit(log))
        set_up = 0.0
        if steps.seconds["step"][0] > 0:
            set_up = cpu - steps.seconds["step"][1]
            wall, cpu = steps.seconds["step"]
        score_wall, score_cpu = _timed(lambda ranker=ranker: ranker.score_tasks(log))
        lines.append(
            f"| {name} | {n_rows / wall:,.0f} | {n_rows / cpu:,.0f} | {set_up:.1f} "
            f"| {n_rows / score_wall:,.0f} | {n_rows / score_cpu:,.0f} |"
        )
        print(lines[-1])
        if name == "DeepFM 512×256×128":
            parts = steps.table(n_rows)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    train_gemm, score_gemm = matrix_products()
    plan = FieldPlan.of(log.field_sizes, 16)
    n_small, n_values = len(plan.small), plan.n_values
    text = [
        "# Speed of the rankers",
        "",
        f"`python benchmarks/speed/ranker_speed.py --rows {arguments.rows} --threads {arguments.threads}`",
        "",
        f"21 fields with Avazu's sizes ({sum(log.field_sizes):,} values), 16 numbers each, batches of {_BATCH_ROWS:,}; "
        f"{n_rows:,} rows. {platform.machine()}, {os.cpu_count()} cores, {arguments.threads} threads, torch "
        f"{torch.__version__}; load average {os.getloadavg()[0]:.1f} at the end. On a shared machine wall time "
        "measures the neighbours; rows per CPU second times the number of cores is an estimate of what an idle machine "
        "does.",
        "",
        "| ranker | training rows/s (wall) | per CPU second | set-up CPU s | scoring rows/s (wall) | per CPU second |",
        "| --- | --- | --- | --- | --- | --- |",
        *lines,
        "",
        "Set-up is done once: drawing the starting point of the whole table, and copying the finished one.",
        "",
        "## What limits DeepFM",
        "",
        *parts,
        "",
        f"The network's matrix products over all 336 inputs, alone on one thread, would take {1e6 * train_gemm:.1f} µs "
        f"per row in training and {1e6 * score_gemm:.1f} µs in scoring, that is {1 / train_gemm:,.0f} and "
        f"{1 / score_gemm:,.0f} rows per CPU second. They are the limit of a plain implementation. Here the "
        f"{n_small} smallest of the 21 fields ({n_values:,} values) go through the first layer by look-up instead, "
        "which takes two thirds of that layer out of the products; what remains of the products is still most of the "
        "time.",
        "",
        f"Peak resident memory of the whole benchmark: {peak:.2f} GiB (the table with Adam's moments is "
        f"{sum(log.field_sizes) * 3 * 17 * 4 / 2**30:.2f} GiB with one task, "
        f"{sum(log.field_sizes) * 3 * 19 * 4 / 2**30:.2f} GiB with three).",
        "",
    ]
    print("\n".join(text))
    with atomic_file(arguments.out) as temporary:
        temporary.write_text("\n".join(text), encoding="utf-8")


def draw_log(n_rows: int) -> EncodedLog:
    """Rows with Avazu's field sizes; hashed vocabularies, so that no text has to be kept."""
    rng = np.random.default_rng(0)
    columns = [draw_power_law(rng.random(n_rows), size, 1.0 if size < 10**6 else 0.7) for size in AVAZU]
    names = [f"field_{place:02d}" for place in range(len(AVAZU))]
    vocabulary = Vocabulary(tuple(FieldVocabulary.hashed(name, size) for name, size in zip(names, AVAZU, strict=True)))
    labels = {task: (rng.random(n_rows) < rate).astype(np.int8) for task, rate in _TASKS.items()}
    return EncodedLog.of(np.stack(columns, axis=1), labels, vocabulary, Roles(labels=list(labels), fields=names))


_TASKS = {"click": 0.17, "effective_view": 0.1, "long_view": 0.05}


class _StepClock:
    """Measures the parts of training steps by wrapping them."""

    _PARTS: ClassVar = {
        "_add_up": "add up the chunks' gradients",
        "_step_dense": "Adam on the network",
        "_step_table": "sum gradients of the table, lazy Adam on touched rows",
        "step": "whole step",
    }

    def __enter__(self):
        self._plain = {name: getattr(FmTrainer, name) for name in self._PARTS}
        self.seconds = dict.fromkeys(self._PARTS, (0.0, 0.0))
        for name, plain in self._plain.items():
            setattr(FmTrainer, name, self._wrapped(name, plain))

    def __exit__(self, *_):
        for name, plain in self._plain.items():
            setattr(FmTrainer, name, plain)

    def table(self, n_rows):
        whole = self.seconds["step"]
        others = [name for name in self._PARTS if name != "step"]
        rest = [whole[i] - sum(self.seconds[name][i] for name in others) for i in (0, 1)]
        named = {
            "gather embeddings, network forward and backward": rest,
            **{self._PARTS[name]: self.seconds[name] for name in others},
            "whole step": whole,
        }
        return [
            "| part of a training step | CPU µs per row | wall µs per row |",
            "| --- | --- | --- |",
            *(
                f"| {name} | {1e6 * cpu / n_rows:.1f} | {1e6 * wall / n_rows:.1f} |"
                for name, (wall, cpu) in named.items()
            ),
        ]

    def _wrapped(self, name, plain):
        def timed(trainer, *arguments):
            result = None

            def work():
                nonlocal result
                result = plain(trainer, *arguments)

            wall, cpu = _timed(work)
            before = self.seconds[name]
            self.seconds[name] = (before[0] + wall, before[1] + cpu)
            return result

        return timed


def matrix_products() -> tuple[float, float]:
    """CPU seconds per row of the products alone: training, scoring."""
    torch.set_num_threads(1)
    shape = DenseShape(len(AVAZU) * 16, (512, 256, 128))
    flat = shape.start(0)
    views, gradients = shape.split(flat), shape.split(torch.empty_like(flat))
    buffers, inputs = DenseBuffers(shape, CHUNK_ROWS, backward=True), torch.randn(CHUNK_ROWS, shape.n_inputs)

    def forward() -> None:
        below = inputs
        for weight, hidden in zip(views.weights, buffers.hidden, strict=True):
            below = torch.mm(below, weight.t(), out=hidden)

    def both() -> None:
        forward()
        _backward(views, gradients, inputs, buffers)

    results = []
    for work in (both, forward):
        seconds = min(_timed(work)[1] for _ in range(10))
        results.append(seconds / CHUNK_ROWS)
    return results[0], results[1]


def _backward(views: DenseViews, gradients: DenseViews, inputs: torch.Tensor, buffers: DenseBuffers) -> None:
    for layer in reversed(range(len(views.weights))):
        below = buffers.hidden[layer - 1] if layer else inputs
        torch.mm(buffers.gradients[layer].t(), below, out=gradients.weights[layer])
        torch.mm(buffers.gradients[layer], views.weights[layer], out=buffers.gradients[layer - 1] if layer else inputs)


def _timed(work) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=_RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
