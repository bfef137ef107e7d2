"""What calibrating three heads adds to a multi-task DeepFM, and to QIN, that score requests of 100 candidates.

    python benchmarks/serving/overhead.py                        # a few minutes
    python benchmarks/serving/overhead.py --rows 6000 --blocks 5   # a quick look

All arms run in one process on one thread, taking turns, so that a busy neighbour hits them
alike. CPU time is the thread's own; ratios of it are what the tables are about.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np
import torch
from request_scorer import RequestScorer

from monocal.calibrators import CALIBRATORS
from monocal.core.scores import sigmoid
from monocal.lab.prepare.histories import with_histories
from monocal.lab.rankers import QIN, MultiTaskDeepFM
from monocal.lab.simulator import SimulatedLog, World, find_world, simulate_log
from monocal.lab.simulator.search import SearchWorld, page_features, simulate_pages
from monocal.models.model import Fusion, Model, TaskModel
from monocal.serving import Engine, Request

N_CANDIDATES = 100
TASKS = ("click", "effective_view", "long_view")
FUSION = Fusion(weights={"click": 0.2, "effective_view": 0.5, "long_view": 1.0}, powers={"long_view": 0.8})
SIZES = {"user_id": 20_000, "address": 10_000, "ad_id": 20_000}
OF_THE_CANDIDATE = ("position", "app_id", "app_domain", "app_category", "ad_id", "ad_width", "ad_height")
OF_THE_CANDIDATE += ("campaign", "category", "flags")
ARMS: dict[str, dict[str, Any]] = {
    "SIR, of the score alone": {"method": "sir"},
    "paper's nets (concat 50×50, rescaling 200×200)": {"method": "umc_concat", "size": "paper"},
    'size="paper" (12 knots, trunk 256×128×128)': {"size": "paper"},
    "default (12 knots, trunk 128×128)": {},
    'size="small"': {"size": "small"},
}
RAW = "raw"
BLOCK_REQUESTS = 10


def world_of_requests() -> World:
    """The simulator's 21 fields with 50,000 instead of 1,400,000 values in the three largest of them.

    Those of the request come first, as the guide to several tasks advises.
    """
    large = find_world("large")
    fields = tuple(
        replace(field, size=SIZES.get(field.name, field.size))
        for field in sorted(large.fields, key=lambda field: field.name in OF_THE_CANDIDATE)
    )
    return replace(large, fields=fields, n_users=SIZES["user_id"], tasks=TASKS)


@dataclass(frozen=True)
class Ranked:
    """A trained ranker, the rows that calibrators are fitted on, and requests."""

    scorer: Callable[[np.ndarray], np.ndarray]
    log: SimulatedLog
    logits: np.ndarray
    requests: list[np.ndarray]


def prepare(n_rows: int, n_requests: int, world: World, hidden: tuple[int, ...] = (512, 256, 128)) -> Ranked:
    """Trains the ranker on half of the rows, scores the other half, and makes requests from the last rows.

    In a request all candidates have the first one's user, device and page.
    """
    log = simulate_log(n_rows, world=world, tasks=TASKS)
    encoded = log.encoded()
    ranker = MultiTaskDeepFM(hidden=hidden, n_threads=1, batch_rows=4096)
    ranker.fit(encoded.slice(0, n_rows // 2), show_progress=False)
    later = log.take(slice(n_rows // 2, n_rows))
    scores = ranker.score_tasks(encoded.slice(n_rows // 2, n_rows), show_progress=False)
    shared = tuple(place for place, name in enumerate(log.field_names) if name not in OF_THE_CANDIDATE)
    requests = []
    rng = np.random.default_rng(0)
    for _ in range(n_requests):
        ids = np.ascontiguousarray(later.features[rng.integers(0, later.n_rows, N_CANDIDATES)])
        ids[:, list(shared)] = ids[0, list(shared)]
        requests.append(ids)
    return Ranked(RequestScorer(ranker.network_), later, np.stack([scores[task] for task in TASKS], 1), requests)


def prepare_qin(n_rows: int, n_requests: int, **arguments: Any) -> Ranked:
    """Does the same with QIN in the simulated search: a request is a user with a past, a query and its candidates."""
    log, truth, _ = simulate_pages(n_rows, 0, SearchWorld())
    encoded = with_histories(log.encoded(), "user_id")
    ranker = QIN(n_threads=1, **arguments).fit(encoded.slice(0, n_rows // 2), show_progress=False)
    scores = ranker.score_tasks(encoded.slice(n_rows // 2, n_rows), show_progress=False)
    past, users = encoded.histories, np.asarray(encoded.features[:, 0])
    assert past is not None
    rng = np.random.default_rng(0)
    asking = rng.choice(np.unique(users), n_requests)
    events = {}
    for user in asking:
        rows = np.flatnonzero(users == user)[::-1][: ranker.n_recent]
        events[user] = np.pad(rows, (0, ranker.n_recent - len(rows)), constant_values=-1)[None]
    queries = truth.queries(rng, asking.astype(np.int64))
    items = truth.candidates(rng, queries, N_CANDIDATES)
    hours = np.full(n_requests, 12)
    features = page_features(truth, asking.astype(np.int64), queries, items, np.zeros_like(items), hours)

    def scorer(ids: np.ndarray) -> np.ndarray:
        found = np.broadcast_to(events[ids[0, 0]], (len(ids), ranker.n_recent))
        with torch.inference_mode():
            return ranker.network_.score(torch.from_numpy(ranker.inputs(ids, found, past))).numpy().astype(np.float64)

    later = log.take(slice(n_rows // 2, n_rows))
    requests = list(features.reshape(n_requests, N_CANDIDATES, -1))
    return Ranked(scorer, later, np.stack([scores[task] for task in TASKS], 1), requests)


def engine_of(ranked: Ranked, arguments: dict[str, Any]) -> Engine:
    """Fits one calibrator per head on the ranker's logits and puts them behind an engine."""
    arguments = dict(arguments)
    method = arguments.pop("method", "umc")
    # a network that later rows reject would cost nothing, and one that stops at its start would not be a fitted one
    common = {"n_threads": 1, "show_progress": False, "n_epochs": 1, "carry": "none", "held_out_share": 0.0}
    common = common | arguments if method.startswith("umc") else arguments
    made = [CALIBRATORS[method](**common) for _ in TASKS]
    labels = [ranked.log.task_labels[task] for task in TASKS]
    for place, calibrator in enumerate(made):
        calibrator.fit(ranked.logits[:, place], labels[place], features=ranked.log.features, scores_are="logit")
    tasks = tuple(TaskModel(task, task, task, calibrator) for task, calibrator in zip(TASKS, made, strict=True))
    engine = Engine(Model(tasks, ranked.log.encoded().vocabulary, scores_are="logit", fusion=FUSION))
    engine.warm_up()
    return engine


def answer_raw(ranked: Ranked, ids: np.ndarray) -> np.ndarray:
    """Ranks a request by the ranker's own probabilities."""
    logits = ranked.scorer(ids)
    return FUSION.fuse({task: sigmoid(logits[:, place]) for place, task in enumerate(TASKS)})


def answer_calibrated(ranked: Ranked, engine: Engine, ids: np.ndarray) -> np.ndarray:
    """Ranks the same request by calibrated probabilities."""
    logits = ranked.scorer(ids)
    request = Request({task: logits[:, place] for place, task in enumerate(TASKS)}, ids=ids)
    return engine.calibrate(request).fused


def measure(ranked: Ranked, engines: dict[str, Engine], n_blocks: int) -> dict[str, np.ndarray]:
    """Returns per arm, the raw one and one per engine, CPU and wall seconds of each request `(requests, 2)`."""
    arms: dict[str, Callable[[np.ndarray], np.ndarray]] = {RAW: lambda ids: answer_raw(ranked, ids)}
    arms |= {
        name: lambda ids, engine=engine: answer_calibrated(ranked, engine, ids) for name, engine in engines.items()
    }
    return take_turns(arms, ranked.requests, n_blocks)


def take_turns(
    arms: dict[str, Callable[[np.ndarray], np.ndarray]], requests: list[np.ndarray], n_blocks: int
) -> dict[str, np.ndarray]:
    """Returns per arm CPU and wall seconds of each request `(requests, 2)`.

    Arms take turns block by block, in random order: an arm finds its own tables in the cache, as one that serves
    alone does, and a busy neighbour still hits all arms alike.
    """
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in arms}
    rng = np.random.default_rng(0)
    for _ in range(n_blocks):
        block = rng.integers(0, len(requests), BLOCK_REQUESTS)
        for name in rng.permutation(list(arms)):
            for number in block:
                ids = requests[number]
                cpu, wall = time.thread_time(), time.perf_counter()
                arms[name](ids)
                taken[name].append((time.thread_time() - cpu, time.perf_counter() - wall))
    return {name: np.asarray(found) for name, found in taken.items()}


def lines_of(taken: dict[str, np.ndarray]) -> list[str]:
    """Returns the table's rows. What is added is the median over requests of the CPU, against the raw arm's."""
    raw = taken[RAW][:, 0]
    rows = []
    for name, times in taken.items():
        cpu, wall = times[:, 0], times[:, 1]
        lower, middle = np.percentile(cpu, [10, 50])
        by_lower, by_middle = lower / np.percentile(raw, 10) - 1, middle / np.median(raw) - 1
        added = "" if name == RAW else f"{by_lower:+.0%} / {by_middle:+.0%}"
        p50, p99 = np.percentile(wall, [50, 99])
        rows.append(
            f"| {name} | {1e6 * lower:,.0f} | {1e6 * middle:,.0f} | {added} | {1 / np.mean(cpu):,.0f} | "
            f"{1 / np.mean(wall):,.0f} | {1e3 * p50:.2f} | {1e3 * p99:.2f} |"
        )
    return rows


HEAD = [
    "| arm | CPU µs, lowest tenth | CPU µs, median | added CPU, by lowest tenth / by median | requests per CPU second "
    "| QPS (wall) | p50 ms | p99 ms |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=12_000)
    parser.add_argument("--qin-rows", type=int, default=120_000)
    parser.add_argument("--blocks", type=int, default=40)
    parser.add_argument("--only-deepfm", action="store_true", help="the first table alone")
    wishes = parser.parse_args()
    torch.set_num_threads(1)
    tables = []
    for name in ("multi-task DeepFM",) if wishes.only_deepfm else ("multi-task DeepFM", "QIN"):
        is_deepfm = name != "QIN"
        ranked = prepare(wishes.rows, 200, world_of_requests()) if is_deepfm else prepare_qin(wishes.qin_rows, 200)
        engines = {arm: engine_of(ranked, arguments) for arm, arguments in ARMS.items()}
        lines = [f"## Behind the {name}" if "Deep" in name else f"## Behind {name}", "", *HEAD]
        lines += lines_of(measure(ranked, engines, wishes.blocks))
        tables += [*lines, ""]
    print(how(wishes), *tables, sep="\n")


def how(wishes: argparse.Namespace) -> str:
    """Returns what stands above the tables."""
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    return f"""# What calibration adds to a ranker

`python benchmarks/serving/overhead.py --rows {wishes.rows} --qin-rows {wishes.qin_rows} --blocks {wishes.blocks}`

Requests of {N_CANDIDATES} candidates. Every arm scores them with the same ranker of three heads and fuses the three
probabilities; the calibrated arms pass the heads through `Engine.calibrate` (field ids given, the request's before the
candidate's; umc fitted for one epoch per head, the whole network believed) before fusing.

- Multi-task DeepFM: 512×256×128, 21 fields × 16, {21 - len(OF_THE_CANDIDATE)} of the fields shared by the request;
  calibrators fitted on {wishes.rows // 2:,} rows. Its request path is `RequestScorer`: tables and all fields folded
  into the first layer, BLAS for the other layers.
- QIN: 7 fields × 16, the last 100 events of the user searched by query (50) and by item (20), 256×128; calibrators
  fitted on {wishes.qin_rows // 2:,} rows. Its request path is that of training, with nothing folded.

One thread, one process, blocks of {BLOCK_REQUESTS} requests per arm in random order, {wishes.blocks * BLOCK_REQUESTS}
requests per arm. {platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, numba {numba.__version__},
numpy {np.__version__}; load average {load}: above the number of cores, wall columns
(QPS, p50, p99) measure the neighbours.
"""


if __name__ == "__main__":
    main()
