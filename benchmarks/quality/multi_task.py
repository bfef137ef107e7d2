"""One network for all tasks against one network per task: log-loss on later rows, paired.

    python benchmarks/quality/multi_task.py shared/data/kuairand_pure.parquet

KuaiRand-Pure: a multi-task DeepFM is trained on the oldest half of the rows, calibrators are fitted on the next three
tenths and judged on the newest fifth. Simulated world `multitask`: scores come with it, the newest third judges.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import monocal
from monocal.core.files import atomic_file
from monocal.core.log_loss import log_losses
from monocal.core.spaces import logit, sigmoid
from monocal.lab.rankers import MultiTaskDeepFM
from monocal.lab.simulator import simulate_log
from monocal.lab.sources.kuairand import derived_columns
from monocal.models.artefact import model_files

RESULT = Path(__file__).parents[1] / "results" / "multi_task.md"
TASKS = {"click": ("is_click", "pclick"), "long_view": ("long_view", "plong"), "effective_view": ("effective", "peff")}
FIELDS = ("user_id", "video_id", "author_id", "tag", "tab", "hour", "duration_bin")
WORLD_TASKS = {
    "click": ("click", "pctr"),
    "effective_view": ("effective_view", "pev"),
    "long_view": ("long_view", "plv"),
}
WORLD_FIELDS = ("video_id", "author_id", "tag", "position", "hour")
N_BLOCKS = 20


def short_videos(path: str) -> tuple[pa.Table, pa.Table]:
    """Returns calibration and test rows with the ranker's three scores."""
    raw = pq.read_table(path).sort_by("time_ms")
    raw = raw.filter(pc.invert(raw["is_dup"].cast(pa.bool_())))
    times, played, lengths = (
        raw[name].to_numpy().astype(np.int64) for name in ("time_ms", "play_time_ms", "duration_ms")
    )
    columns = {name: raw[name].cast(pa.string()) for name in FIELDS}
    columns |= {"is_click": raw["is_click"], "long_view": raw["long_view"], "time_ms": raw["time_ms"]}
    columns["effective"] = derived_columns(times, played, lengths)["effective_view"]
    table = pa.table(columns)
    n = table.num_rows
    log = encoded(table)
    ranker = MultiTaskDeepFM(hidden=(128, 64), n_threads=1, batch_rows=2048)
    ranker.fit(log.slice(0, n // 2), show_progress=False)
    scores = ranker.score_tasks(log.slice(n // 2, n), show_progress=False)
    rest = table.slice(n // 2)
    for name, (_, column) in TASKS.items():
        rest = rest.append_column(column, pa.array(sigmoid(np.asarray(scores[name], dtype=np.float64))))
    cut = int(0.6 * rest.num_rows)
    return rest.slice(0, cut), rest.slice(cut)


def encoded(table: pa.Table):
    """Returns the rows as a log that the ranker can be trained on."""
    from monocal.core.roles import Roles
    from monocal.logs.row_log import log_of_rows
    from monocal.tables.read import read

    roles = Roles({name: label for name, (label, _) in TASKS.items()}, FIELDS, time="time_ms")
    return log_of_rows(read(table, roles), min_count=2)


def compared(name: str, older: pa.Table, newer: pa.Table, tasks, fields, moment: str, seed: int) -> Iterator[str]:
    """Fits both and yields the table's rows."""
    found, facts = {}, {}
    for shared in (False, True):
        start = time.process_time()
        options = {"fields": list(fields), "time": moment, "seed": seed, "show_progress": False}
        model = monocal.fit(older, method="umc", tasks=tasks, shared_network=shared, **options)
        taken = time.process_time() - start
        shares = [float(task.calibrator.carry_["network"][0]) for task in model.tasks]
        n_bytes = sum(map(len, model_files(model).values()))
        found[shared], facts[shared] = model.predict(newer), (taken, shares, n_bytes)
    for place, (task, (label, score)) in enumerate(tasks.items()):
        y = newer[label].to_numpy().astype(np.float64)
        raw, alone, together = (
            log_losses(logit(np.asarray(p)), y)
            for p in (newer[score].to_numpy(), found[False][task], found[True][task])
        )
        blocks = [part.mean() for part in np.array_split(together - alone, N_BLOCKS)]
        difference, noise = np.mean(blocks), np.std(blocks, ddof=1) / np.sqrt(N_BLOCKS)
        yield (
            f"| {name} | {seed} | {task} | {raw.mean():.5f} | {alone.mean():.5f} | {together.mean():.5f} | "
            f"{1e5 * difference:+.1f} ± {1e5 * noise:.1f} | "
            f"{facts[False][1][place]:.2f} | {facts[True][1][place]:.2f} |"
        )
    yield (
        f"| {name} | {seed} | CPU s of the fit; bytes of the model |  | {facts[False][0]:.1f}; {facts[False][2]:,} | "
        f"{facts[True][0]:.1f}; {facts[True][2]:,} |  |  |  |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kuairand", nargs="?", help="kuairand_pure.parquet")
    parser.add_argument("--rows", type=int, default=90_000)
    parser.add_argument("--seeds", type=int, default=2)
    wishes = parser.parse_args()
    lines = []

    def put(rows: Iterator[str]) -> None:
        for row in rows:
            print(row, flush=True)
            lines.append(row)

    warm = simulate_log(3_000, seed=9, world="multitask").table()
    monocal.fit(warm, tasks=WORLD_TASKS, fields=["tag"], show_progress=False)  # compiles the loops
    for seed in range(wishes.seeds):
        world = simulate_log(wishes.rows, seed=seed, world="multitask").table()
        cut = 2 * wishes.rows // 3
        put(compared("multitask", world.slice(0, cut), world.slice(cut), WORLD_TASKS, WORLD_FIELDS, "timestamp", seed))
    n_rows = ""
    if wishes.kuairand:
        older, newer = short_videos(wishes.kuairand)
        n_rows = f" KuaiRand-Pure: fitted on {older.num_rows:,} rows, judged on {newer.num_rows:,}."
        for seed in range(wishes.seeds):
            put(compared("KuaiRand", older, newer, TASKS, FIELDS, "time_ms", seed))
    write(lines, wishes, n_rows)


def write(lines: list[str], wishes: argparse.Namespace, n_rows: str) -> None:
    """Writes the measured part; what it means is written by hand below the mark and kept."""
    mark = "<!-- reading -->"
    reading = RESULT.read_text(encoding="utf-8").split(mark)[1] if RESULT.exists() else "\n"
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    text = f"""# One network for all tasks, or one per task

`python benchmarks/quality/multi_task.py shared/data/kuairand_pure.parquet --rows {wishes.rows} --seeds {wishes.seeds}`

Log-loss of umc (default settings) on rows later than those it was fitted on. Simulated world `multitask`: fitted on
{2 * wishes.rows // 3:,} rows, judged on {wishes.rows - 2 * wishes.rows // 3:,}; the seed is that of the world and of
the fit.{n_rows} There the seed is that of the fit. The difference is paired, shared minus separate in units of 1e-5,
with a standard error from {N_BLOCKS} blocks of consecutive rows; negative is better. Load average {load}.

| log | seed | task | score | one per task | one for all | difference (1e-5) | share, separate | share, shared |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""
    with atomic_file(RESULT) as temporary:
        temporary.write_text(text + "\n".join(lines) + f"\n\n{mark}{reading}", encoding="utf-8")


if __name__ == "__main__":
    main()
