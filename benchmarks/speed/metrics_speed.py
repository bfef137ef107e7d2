"""How long all metrics take on a large log, and how much memory beyond its columns.

python benchmarks/speed/metrics_speed.py                  # 10 million rows × 20 fields, a few minutes
python benchmarks/speed/metrics_speed.py --rows 200000    # a quick look

Intervals and noise floors are timed on the first million rows.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import time

import numpy as np

from monocal.core.scores import sigmoid
from monocal.evaluation.evaluate import evaluate
from monocal.evaluation.result import Evaluation
from monocal.metrics import metric
from monocal.metrics.base import by_summary

_LARGE = (1_000_000, 200_000, 50_000, 10_000, 5_000, 2_000, 1_000, 500, 200, 100)
_SMALL = (60, 40, 30, 24, 20, 15, 10, 7, 5, 2)
_CARDINALITIES = _LARGE + _SMALL
_REPLICATE_ROWS = 1_000_000


def main() -> None:
    arguments = _arguments()
    columns = _columns(arguments.rows, arguments.fields)
    held = sum(column.nbytes for column in (*columns["fields"].values(), *(columns[k] for k in ("y", "p", "users"))))
    before = _peak_bytes()
    print(f"{arguments.rows:,} rows × {arguments.fields} fields, load average {os.getloadavg()[0]:.1f}")

    (report, wall, cpu) = _timed(
        lambda: evaluate(columns["y"], columns["p"], fields=columns["fields"], groups=columns["users"])
    )
    peak = _peak_bytes()
    lines = [
        "# Speed of the metrics",
        "",
        f"`python benchmarks/speed/metrics_speed.py --rows {arguments.rows} --fields {arguments.fields}`",
        "",
        f"{arguments.rows:,} rows × {arguments.fields} fields of {_CARDINALITIES[0]:,} down to 2 values (integer ids), "
        f"{columns['p'].mean():.1%} expected positives, {int(columns['users'].max()) + 1:,} groups. "
        f"{platform.machine()}, {os.cpu_count()} cores shared with other work (load average {os.getloadavg()[0]:.1f} "
        "at the end), one thread used: CPU seconds are the figure to trust.",
        "",
        "| what | CPU s | wall s |",
        "| --- | --- | --- |",
        f"| all {len(report.names)} values in one call | **{cpu:.1f}** | {wall:.1f} |",
        *_per_summary(report),
    ]
    part = _first_rows(report, _REPLICATE_ROWS)
    for what, compute in (
        (f"all intervals, {part.n_bootstrap} replicates over blocks of users", part.compute_intervals),
        (f"all noise floors, {part.n_floor} redraws", part.compute_floors),
    ):
        _, wall, cpu = _timed(compute)
        lines.append(f"| {what}, {part.n_rows:,} rows | {cpu:.1f} | {wall:.1f} |")
    lines += [
        "",
        f"Memory: the columns take {held / 1e6:,.0f} MB; the peak resident size was {before / 1e6:,.0f} MB before the "
        f"call and {peak / 1e6:,.0f} MB after it, so working memory was {(peak - before) / 1e6:,.0f} MB.",
        "",
    ]
    print("\n".join(lines))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--fields", type=int, default=20, choices=range(1, 21), metavar="1…20")
    return parser.parse_args()


def _columns(n_rows: int, n_fields: int) -> dict:
    rng = np.random.default_rng(0)
    p = sigmoid(rng.normal(-3.2, 1.2, n_rows))
    labels = (rng.random(n_rows) < p).astype(np.float64)
    fields = {
        f"field_{number:02d}": _zipf(rng, n_rows, values) for number, values in enumerate(_CARDINALITIES[:n_fields])
    }
    return {
        "y": labels,
        "p": p,
        "fields": fields,
        "users": rng.integers(0, max(n_rows // 20, 1), n_rows, dtype=np.int32),
    }


def _zipf(rng: np.random.Generator, n_rows: int, values: int) -> np.ndarray:
    """A power law by inversion: rank v is drawn with a chance of about 1/v."""
    return np.minimum(np.exp(rng.random(n_rows, dtype=np.float32) * np.log(values + 1.0)), values).astype(np.int32) - 1


def _per_summary(report: Evaluation) -> list[str]:
    lines = []
    for summary, names in by_summary({name: metric(name) for name in report.names}).items():
        _, wall, cpu = _timed(lambda summary=summary: summary.of_all(report.forecast))
        lines.append(f"| – one pass for {', '.join(names)} | {cpu:.1f} | {wall:.1f} |")
    return lines


def _first_rows(report: Evaluation, n_rows: int) -> Evaluation:
    rows = report.forecast.take(slice(0, n_rows))
    return evaluate(rows.labels, rows.probabilities, fields=rows.fields, groups=rows.groups)


def _timed(work) -> tuple:
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
