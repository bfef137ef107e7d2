"""The ranker's last hidden layer as context of the calibrator, against field ids: log-loss on later rows, paired.

    python benchmarks/quality/hidden_layer.py --kuairand shared/data/kuairand_pure.parquet \
        --retrosheet shared/data/retrosheet_pa.parquet

A multi-task DeepFM (512×256×128) is trained on the oldest half of a log, calibrators are fitted on the next three
tenths and judged on the newest fifth. A task's hidden layer is its own tower, 128 numbers after ReLU.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from hidden_head import HiddenHead

from monocal.calibrators import CALIBRATORS
from monocal.core.files import atomic_file
from monocal.core.log_loss import log_losses
from monocal.core.roles import Roles
from monocal.core.spaces import logit
from monocal.lab.rankers import MultiTaskDeepFM
from monocal.lab.simulator import simulate_log
from monocal.lab.sources.kuairand import derived_columns
from monocal.logs.row_log import log_of_rows
from monocal.tables.read import read

RESULT = Path(__file__).parents[1] / "results" / "hidden_layer.md"
HIDDEN = (512, 256, 128)
BATCH_ROWS = 512
WORLD_TASKS = ("click", "effective_view", "long_view")
VIDEO_FIELDS = ("user_id", "video_id", "author_id", "tag", "tab", "hour", "duration_bin")
PLATE_FIELDS = ("batter", "pitcher", "park", "inning_b", "half", "lineup_pos", "bats", "throws", "tto", "month")
PLATE_TASKS = {"strikeout": "label", "hit": "is_hit", "walk": "is_walk"}
N_PLATES, N_LATER = 200_000, 400_000

COARSE_IDS = 1_000
COARSE = f"the same, fields of fewer than {COARSE_IDS:,} values"
BY_FIELDS = {
    "isotonic": ("isotonic", {}),
    "wide logistic": ("wide_logistic", {}),
    "wide logistic, learned penalties and carry-over": ("wide_logistic", {"l2": "auto", "carry": "auto"}),
    COARSE: ("wide_logistic", {"l2": "auto", "carry": "auto"}),
    "umc small": ("umc", {"size": "small"}),
    "umc": ("umc", {}),
}
BY_HIDDEN = {
    "shift, linear": {"form": "shift"},
    "knots, linear": {},
    "knots, 16 units between": {"trunk": (16,)},
}
LARGER = {
    "shift, linear, of the last layer that tasks share (256)": {"form": "shift"},
    "knots, 64 units between, ten epochs": {"trunk": (64,), "n_epochs": 10},
}
YARDSTICK = "umc small"


@dataclass(frozen=True)
class Ranked:
    """Rows after those that the ranker was trained on, in time order.

    Attributes:
        ids: Field ids.
        times: When.
        groups: Whose rows they are; a difference is as sure as there are such groups.
        unseen: Whether one of the row's values was not among the rows that the ranker was trained on.
        tasks: Per task the ranker's logits, its hidden layer, the labels and the last layer that tasks share.
    """

    ids: np.ndarray
    times: np.ndarray
    groups: np.ndarray
    unseen: np.ndarray
    tasks: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]


def ranked(log, times: np.ndarray, group: int, seed: int) -> Ranked:
    """Trains the ranker on the older half and takes scores and hidden layers of the newer one."""
    n_rows = log.n_rows
    ranker = MultiTaskDeepFM(hidden=HIDDEN, n_threads=1, batch_rows=BATCH_ROWS, seed=seed)
    ranker.fit(log.slice(0, n_rows // 2), show_progress=False)
    newer = log.slice(n_rows // 2, n_rows)
    ids = np.ascontiguousarray(newer.features)
    logits, hidden, shared = scores_and_hidden(ranker.network_, ids)
    n_units = HIDDEN[-1]
    tasks = {
        task: (
            logits[:, place],
            hidden[:, n_units * place : n_units * (place + 1)],
            np.asarray(newer.labels[task]),
            shared,
        )
        for place, task in enumerate(ranker.tasks_)
    }
    known = np.asarray(log.features[: n_rows // 2])
    unseen = np.any([~np.isin(ids[:, place], known[:, place]) for place in range(ids.shape[1])], axis=0)
    return Ranked(ids, times[n_rows // 2 :], ids[:, group], unseen, tasks)


def scores_and_hidden(network, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns logits `(n, tasks)`, what the ranker's heads read `(n, tasks · 128)`, and the layer before `(n, 256)`."""
    towers: list[torch.Tensor] = []
    shared: list[torch.Tensor] = []
    hooks = [
        network.heads.register_forward_pre_hook(lambda _, inputs: towers.append(inputs[0])),
        network.linear_layers()[-1].register_forward_pre_hook(lambda _, inputs: shared.append(inputs[0])),
    ]
    with torch.inference_mode():
        parts = [network.score(torch.from_numpy(ids[first : first + 16_384])) for first in range(0, len(ids), 16_384)]
    for hook in hooks:
        hook.remove()
    return torch.cat(parts).double().numpy(), torch.cat(towers).numpy(), torch.cat(shared).numpy()


def world(n_rows: int, seed: int) -> Ranked:
    log = simulate_log(n_rows, seed=seed, world="multitask")
    return ranked(log.encoded(), np.asarray(log.times), log.field_names.index("user_id"), seed)


def short_videos(path: str, seed: int) -> Ranked:
    raw = pq.read_table(path).sort_by("time_ms")
    raw = raw.filter(pc.invert(raw["is_dup"].cast(pa.bool_())))
    times, played, lengths = (
        raw[name].to_numpy().astype(np.int64) for name in ("time_ms", "play_time_ms", "duration_ms")
    )
    columns = {name: raw[name].cast(pa.string()) for name in VIDEO_FIELDS}
    columns |= {"click": raw["is_click"], "long": raw["long_view"], "time_ms": raw["time_ms"]}
    columns["effective"] = derived_columns(times, played, lengths)["effective_view"]
    roles = Roles({"click": "click", "long_view": "long", "effective_view": "effective"}, VIDEO_FIELDS, time="time_ms")
    return ranked(log_of_rows(read(pa.table(columns), roles), min_count=2), times, 0, seed)


def plates(path: str, seed: int) -> Ranked:
    names = [*PLATE_FIELDS, *PLATE_TASKS.values(), "timestamp"]
    raw = pq.read_table(path, columns=names)
    raw = raw.slice(raw.num_rows - N_LATER - N_PLATES, N_PLATES)
    columns = {name: raw[name].cast(pa.string()) for name in PLATE_FIELDS}
    columns |= {name: raw[name] for name in (*PLATE_TASKS.values(), "timestamp")}
    log = log_of_rows(read(pa.table(columns), Roles(PLATE_TASKS, PLATE_FIELDS, time="timestamp")), min_count=2)
    return ranked(log, raw["timestamp"].to_numpy().astype(np.int64), 0, seed)


def arms(seed: int, coarse: list[int]) -> Iterator[tuple[str, Callable]]:
    """Yields functions that fit on older rows and return logits of newer ones, and the share that is believed."""

    def by_fields(name: str) -> Callable:
        method, arguments = BY_FIELDS[name]

        def run(old, new, ids_old, ids_new, times):
            seeded = {"seed": seed, "show_progress": False} if method == "umc" else {}
            made = CALIBRATORS[method](**arguments, **seeded)
            chosen = coarse if name == COARSE else slice(None)
            features = [{} if method == "isotonic" else {"features": ids[:, chosen]} for ids in (ids_old, ids_new)]
            made.fit(old[0], old[2], scores_are="logit", times=times, **features[0])
            p = made.predict(new[0], **features[1])
            return logit(p), float(made.carry_["network"][0]) if method == "umc" else np.nan

        return run

    def by_hidden(arguments: dict, *, wide: bool = False, column: int = 1) -> Callable:
        def run(old, new, ids_old, ids_new, times):
            made = HiddenHead(**arguments, seed=seed)
            made.fit(old[0], old[2], old[column], times, ids_old if wide else None)
            return made.logits(new[0], new[column], ids_new if wide else None), made.share_

        return run

    for name in BY_FIELDS:
        yield name, by_fields(name)
    for name, arguments in BY_HIDDEN.items():
        yield f"hidden layer: {name}", by_hidden(arguments)
    for name, arguments in LARGER.items():
        yield f"hidden layer: {name}", by_hidden(arguments, column=3 if "share" in name else 1)
    for name, arguments in BY_HIDDEN.items():
        yield f"hidden layer: {name}; shifts by field", by_hidden(arguments, wide=True)


def interval(difference: np.ndarray, groups: np.ndarray) -> tuple[float, float]:
    """Returns the mean and the half width of its 95 % interval, rows of a group going together."""
    mean = difference.mean()
    sums = np.bincount(groups, weights=difference - mean)
    return float(mean), float(1.96 * np.sqrt((sums**2).sum()) / len(difference))


@dataclass
class Cells:
    """What was found for one log: arm to task and seed to a number and what is written of it."""

    n_fitted: int = 0
    n_judged: int = 0
    unseen: float = 0.0
    losses: dict[str, dict[str, str]] = field(default_factory=dict)
    shares: dict[str, list[str]] = field(default_factory=dict)

    def lines(self, name: str) -> list[str]:
        columns = list(self.losses[YARDSTICK])
        head = [
            f"## {name}",
            "",
            f"Fitted on {self.n_fitted:,} rows, judged on {self.n_judged:,}; in {self.unseen:.0%} of these a field has "
            "a value that the ranker's rows did not have.",
            "",
            f"| calibrator | {' | '.join(columns)} | share believed |",
            f"| --- |{' --- |' * len(columns)} --- |",
        ]
        return head + [
            f"| {arm} | {' | '.join(cells[column] for column in columns)} | {' '.join(self.shares[arm])} |"
            for arm, cells in self.losses.items()
        ]


def compare(rows: Ranked, seed: int, cells: Cells) -> None:
    """Fits all arms on all tasks and writes into the table's cells."""
    n_rows = len(rows.times)
    cut = int(0.6 * n_rows)
    old, new = slice(0, cut), slice(cut, n_rows)
    coarse = [place for place in range(rows.ids.shape[1]) if rows.ids[:, place].max() < COARSE_IDS]
    cells.n_fitted, cells.n_judged, cells.unseen = cut, n_rows - cut, float(rows.unseen[new].mean())
    for task, columns in rows.tasks.items():
        older, newer = tuple(c[old] for c in columns), tuple(c[new] for c in columns)
        losses, shares, column = {"score": log_losses(newer[0], newer[2])}, {"score": np.nan}, f"{task}, seed {seed}"
        for arm, run in arms(seed, coarse):
            start = time.process_time()
            found, shares[arm] = run(older, newer, rows.ids[old], rows.ids[new], rows.times[old])
            losses[arm] = log_losses(found, newer[2])
            print(f"{column}: {arm} {losses[arm].mean():.5f}, {time.process_time() - start:.1f} CPU s", flush=True)
        for arm, found in losses.items():
            mean, half = interval(found - losses[YARDSTICK], rows.groups[new])
            told = f"{found.mean():.5f}" if arm == YARDSTICK else f"{1e5 * mean:+.0f} ± {1e5 * half:.0f}"
            cells.losses.setdefault(arm, {})[column] = told
            cells.shares.setdefault(arm, []).extend([] if np.isnan(shares[arm]) else [f"{shares[arm]:.2f}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kuairand", help="kuairand_pure.parquet")
    parser.add_argument("--retrosheet", help="retrosheet_pa.parquet")
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the simulated world; 0 leaves it out")
    parser.add_argument("--seeds", type=int, nargs="+", default=[2, 3])
    wishes = parser.parse_args()
    torch.set_num_threads(1)
    logs: dict[str, Callable[[int], Ranked]] = {}
    if wishes.kuairand:
        logs["KuaiRand"] = lambda seed: short_videos(wishes.kuairand, seed)
    if wishes.rows:
        logs["Simulated world `multitask`"] = lambda seed: world(wishes.rows, seed)
    if wishes.retrosheet:
        logs["Retrosheet"] = lambda seed: plates(wishes.retrosheet, seed)
    lines: list[str] = []
    for name, make in logs.items():
        cells = Cells()
        for seed in wishes.seeds:
            compare(make(seed), seed, cells)
            write([*lines, *cells.lines(name)], wishes)
        lines += [*cells.lines(name), ""]


def write(lines: list[str], wishes: argparse.Namespace) -> None:
    """Writes the measured part; what it means is written by hand below the mark and kept."""
    mark = "<!-- reading -->"
    reading = RESULT.read_text(encoding="utf-8").split(mark)[1] if RESULT.exists() else "\n"
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    given = "".join(
        f" --{name} shared/data/{Path(path).name}"
        for name, path in (("kuairand", wishes.kuairand), ("retrosheet", wishes.retrosheet))
        if path
    )
    text = f"""# The ranker's hidden layer as context

`python benchmarks/quality/hidden_layer.py{given} --rows {wishes.rows} --seeds {" ".join(map(str, wishes.seeds))}`

A multi-task DeepFM ({"×".join(map(str, HIDDEN))}, one epoch, batches of {BATCH_ROWS}) is trained on the oldest half of
a log, calibrators are fitted on the next three tenths and judged on the newest fifth. The seed is that of ranker and
calibrator, and of the simulated world.

*Hidden layer*: the task's own tower of the ranker, {HIDDEN[-1]} numbers after ReLU, is all that the calibrator sees
beside the score, as its principal directions scaled to variance 1. *Shift, linear*: a score line plus a ridge
regression on them, its penalty chosen on the newest fifth of the fitting rows. *Knots*: umc's curve (12 knots, w, b)
from them, by one layer or with units between. Level, shares and, where it says so, shifts by field are fitted by umc's
own steps.

Log-loss on the judged rows: of {YARDSTICK} as it is, of all others the paired difference to it in units of 1e-5 with a
95 % interval over users (Retrosheet: batters). Negative is better. *Share believed*: of umc's network or of the head,
in the order of the columns. Load average at the end {load}.

"""
    with atomic_file(RESULT) as temporary:
        temporary.write_text(text + "\n".join(lines) + f"\n\n{mark}{reading}", encoding="utf-8")


if __name__ == "__main__":
    main()
