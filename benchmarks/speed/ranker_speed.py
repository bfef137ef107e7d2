"""How fast rankers train and score, what limits them, and how much memory a large vocabulary needs.

python benchmarks/speed/ranker_speed.py                  # Avazu's field sizes, half a million rows, a few minutes
python benchmarks/speed/ranker_speed.py --rows 100000    # a quick look
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import resource
import time
from typing import ClassVar

import numpy as np
import torch

from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.lab.prepare.histories import with_histories
from monocal.lab.rankers import QIN, DeepFM, HashedLogistic, MultiTaskDeepFM
from monocal.lab.rankers.lazy_table import LazyAdam
from monocal.lab.rankers.objective import CHUNK_ROWS, RankerObjective
from monocal.lab.simulator.draws import draw_power_law
from monocal.tables.roles import Roles
from monocal.tables.vocabulary import FieldVocabulary, Vocabulary

AVAZU = (7, 7, 4737, 7745, 26, 8552, 559, 36, 2686408, 6729486, 8251, 5, 4, 2626, 8, 9, 435, 4, 68, 172, 60)
_BATCH_ROWS = 16_384
_USER = "field_05"
_ROLES_OF_QIN = {
    "query": "field_06",
    "item": "field_13",
    "attributes": ("field_16", "field_19"),
    "batch_rows": _BATCH_ROWS,
}


def main() -> None:
    arguments = _arguments()
    n_rows = arguments.rows // _BATCH_ROWS * _BATCH_ROWS
    log = with_histories(draw_log(n_rows), _USER)
    print(f"{n_rows:,} rows, {sum(log.field_sizes):,} field values, load {os.getloadavg()[0]:.1f}")
    warm = log.slice(0, 2 * _BATCH_ROWS)
    lines = []
    steps = _StepClock()
    DeepFM(hidden=(512, 8), n_threads=1).fit(warm)  # the first products of a process are slower
    for name, ranker in (
        ("DeepFM 512×256×128", DeepFM(n_threads=arguments.threads)),
        ("DeepFM, the authors' extra layer of 64", DeepFM(hidden=(512, 256, 128, 64), n_threads=arguments.threads)),
        ("multi-task DeepFM, three tasks", MultiTaskDeepFM(n_threads=arguments.threads)),
        ("QIN 256×128, three tasks, 20 of the last 100 events", QIN(**_ROLES_OF_QIN, n_threads=arguments.threads)),
        ("hashed logistic", HashedLogistic(tasks=["click"])),
    ):
        with steps:
            wall, cpu = _timed(lambda ranker=ranker: ranker.fit(log))
        set_up = 0.0
        whole = steps.whole()
        if whole[0] > 0:
            set_up = cpu - whole[1]
            wall, cpu = whole
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
        "Set-up is done once: drawing the starting point of the whole table, and for QIN the vectors by which it "
        f"searches. Users of its histories are the {AVAZU[5]:,} values of one field; steps and scoring include the "
        "search.",
        "",
        "## What limits DeepFM",
        "",
        *parts,
        "",
        f"The network's matrix products over all 336 inputs, alone on one thread, take {1e6 * train_gemm:.1f} µs "
        f"per row in training and {1e6 * score_gemm:.1f} µs in scoring, that is {1 / train_gemm:,.0f} and "
        f"{1 / score_gemm:,.0f} rows per CPU second: the limit of a plain implementation.",
        "",
        f"Peak resident memory of the whole benchmark: {peak:.2f} GiB (the table with Adam's moments is "
        f"{sum(log.field_sizes) * 3 * 17 * 4 / 2**30:.2f} GiB with one task, "
        f"{sum(log.field_sizes) * 3 * 19 * 4 / 2**30:.2f} GiB with three).",
        "",
    ]
    print("\n".join(text))


def draw_log(n_rows: int) -> EncodedLog:
    """Rows with Avazu's field sizes; hashed vocabularies, so that no text has to be kept."""
    rng = np.random.default_rng(0)
    columns = [draw_power_law(rng.random(n_rows), size, 1.0 if size < 10**6 else 0.7) for size in AVAZU]
    names = [f"field_{place:02d}" for place in range(len(AVAZU))]
    vocabulary = Vocabulary(tuple(FieldVocabulary.hashed(name, size) for name, size in zip(names, AVAZU, strict=True)))
    labels = {task: (rng.random(n_rows) < rate).astype(np.int8) for task, rate in _TASKS.items()}
    return EncodedLog.of(
        np.stack(columns, axis=1), labels, vocabulary, Roles(tasks={name: name for name in labels}, fields=names)
    )


_TASKS = {"click": 0.17, "effective_view": 0.1, "long_view": 0.05}


class _StepClock:
    """Measures the parts of training steps by wrapping them."""

    _PARTS: ClassVar = {
        "gather embeddings, network forward and backward": (RankerObjective, "gradients"),
        "Adam on the network": (torch.optim.Adam, "step"),
        "lazy Adam on touched rows": (LazyAdam, "step"),
    }

    def __enter__(self):
        self._plain = {part: getattr(*place) for part, place in self._PARTS.items()}
        self.seconds = dict.fromkeys(self._PARTS, (0.0, 0.0))
        for part, (owner, name) in self._PARTS.items():
            setattr(owner, name, self._wrapped(part))

    def __exit__(self, *_):
        for part, (owner, name) in self._PARTS.items():
            setattr(owner, name, self._plain[part])

    def whole(self):
        """Wall and CPU seconds of all steps."""
        return tuple(sum(seconds[place] for seconds in self.seconds.values()) for place in (0, 1))

    def table(self, n_rows):
        return [
            "| part of a training step | CPU µs per row | wall µs per row |",
            "| --- | --- | --- |",
            *(
                f"| {name} | {1e6 * cpu / n_rows:.1f} | {1e6 * wall / n_rows:.1f} |"
                for name, (wall, cpu) in {**self.seconds, "whole step": self.whole()}.items()
            ),
        ]

    def _wrapped(self, part):
        def timed(owner, *arguments):
            result = None

            def work():
                nonlocal result
                result = self._plain[part](owner, *arguments)

            wall, cpu = _timed(work)
            before = self.seconds[part]
            self.seconds[part] = (before[0] + wall, before[1] + cpu)
            return result

        return timed


def matrix_products() -> tuple[float, float]:
    """CPU seconds per row of the products alone: training, scoring."""
    torch.set_num_threads(1)
    widths = (len(AVAZU) * 16, 512, 256, 128)
    weights = [torch.randn(right, left) for left, right in itertools.pairwise(widths)]
    values = [torch.randn(CHUNK_ROWS, width) for width in widths]

    def forward() -> None:
        for place, weight in enumerate(weights):
            torch.mm(values[place], weight.t())

    def both() -> None:
        forward()
        for place, weight in enumerate(weights):
            torch.mm(values[place + 1].t(), values[place])
            torch.mm(values[place + 1], weight)

    results = [min(_timed(work)[1] for _ in range(10)) / CHUNK_ROWS for work in (both, forward)]
    return results[0], results[1]


def _timed(work) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    main()
