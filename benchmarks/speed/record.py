"""The speed record: everything that is claimed to be fast, beside yardsticks of the same process, in one table.

python benchmarks/speed/record.py              # some minutes
python benchmarks/speed/record.py --quick      # a look, with few rows and one round
"""

from __future__ import annotations

import argparse
import os
import platform
import time

import numba
import numpy
import onnxruntime
import torch
from suite.answers import answers
from suite.fits import fits
from suite.instructions import instructions
from suite.starts import starts
from suite.timing import Row
from threadpoolctl import threadpool_limits

HEAD = "| what | {unit} | yardstick | {unit} | ratio |\n| --- | --- | --- | --- | --- |"


def main() -> None:
    """Measures everything and prints the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    n_rows, rounds, n_answers = (20_000, 1, 3) if arguments.quick else (200_000, 3, 20)
    before, started = os.getloadavg()[0], time.perf_counter()
    processes = starts(n_rows, rounds)
    with threadpool_limits(1):  # or ratios would compare numbers of threads
        fitted = fits(n_rows, rounds)
        answered, onnx = answers(min(n_rows, 60_000), n_answers)
    counted = instructions()
    text = "\n".join(
        [
            "# Speed record",
            "",
            f"`python benchmarks/speed/record.py{' --quick' if arguments.quick else ''}`",
            "",
            f"Smallest CPU time of {rounds} rounds (answers: {n_answers}), one thread, everything in turn with its "
            "yardstick in the same process: on a shared machine the ratios count. "
            f"{platform.machine()}, {os.cpu_count()} cores, load average {before:.1f} at the start and "
            f"{os.getloadavg()[0]:.1f} at the end, {time.perf_counter() - started:,.0f} s in all. "
            f"torch {torch.__version__}, numba {numba.__version__}, numpy {numpy.__version__}, "
            f"ONNX Runtime {onnxruntime.__version__}.",
            "",
            *_section(f"A new process, {n_rows:,} rows × 6 fields", "CPU s", processes, 1.0),
            *_section(f"Fits, reading, metrics: {n_rows:,} rows × 6 fields", "CPU ms", fitted, 1e-3),
            *_section("Answers of the engine, 21 fields, ids given", "CPU µs", answered, 1e-6),
            "## The engine beside ONNX Runtime",
            "",
            "CPU µs per call, 21 fields. *Ids*: the caller has looked them up. *Values*: raw text.",
            "",
            "| method | rows | engine, ids | ONNX, ids | engine, values | ONNX, values |",
            "| --- | --- | --- | --- | --- | --- |",
            *onnx,
            "",
            "## Instructions of the compiled loops",
            "",
            "Counted by callgrind on code for AVX2; no neighbour changes them.",
            "",
            "| loop | instructions per row |",
            "| --- | --- |",
            *counted,
            "",
        ]
    )
    print(text)


def _section(title: str, unit: str, rows: list[Row], scale: float) -> list[str]:
    return [f"## {title}", "", HEAD.format(unit=unit), *(row.cells(scale) for row in rows), ""]


if __name__ == "__main__":
    main()
