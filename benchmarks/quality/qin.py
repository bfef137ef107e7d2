"""QIN against the multi-task DeepFM: a simulated search whose users have a past, and KuaiRand's real histories.

python benchmarks/quality/qin.py search --rows 600000 --choosing-rows 150000
python benchmarks/quality/qin.py kuairand --log kuairand_pure.parquet

Both rankers choose their passes, and DeepFM its widths, by log-loss over tasks: in the search on another draw of the
world, on KuaiRand on the newest quarter of the rows before the judged ones; the choice then learns from all of these.
Judged rows are the newest fifth.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from monocal.core.scores import log_loss, sigmoid
from monocal.lab.prepare.encoder import encode_log
from monocal.lab.prepare.histories import with_histories
from monocal.lab.rankers import QIN, MultiTaskDeepFM
from monocal.lab.simulator.search import SearchWorld, simulate_search
from monocal.lab.sources import SOURCES
from monocal.metrics import Forecast, metric

_WIDTHS = {"QIN": ((256, 128),), "multi-task DeepFM": ((256, 128), (512, 256, 128))}
_CHOOSING_DRAW = 9
_N_REPLICATES = 200


def main() -> None:
    arguments = _arguments()
    find = {"search": search, "kuairand": kuairand}[arguments.log_kind]
    for line in find(arguments):
        print(line, flush=True)


def search(arguments):
    """Chooses on one draw of the world and judges on others."""
    chosen = choose(_search_log(arguments.choosing_rows, _CHOOSING_DRAW), arguments, query="query")
    yield from _told(chosen)
    for draw in arguments.draws:
        log = _search_log(arguments.rows, draw)
        train = log.n_rows * 4 // 5
        yield from judge(f"draw {draw}", log, train, chosen, {"query": "query"}, seed=0)


def kuairand(arguments):
    """Chooses on the rows before the judged ones, then learns from these as well."""
    with tempfile.TemporaryDirectory() as folder:
        stream = SOURCES["kuairand_pure"]().open(arguments.log)
        log = with_histories(encode_log(stream, None, Path(folder) / "log"), "user_id")
        train = log.n_rows * 4 // 5
        chosen = choose(log.slice(0, train), arguments, query=None)
        yield from _told(chosen)
        for seed in arguments.seeds:
            yield from judge(f"seed {seed}", log, train, chosen, {"query": None}, seed=seed)


def choose(log, arguments, query):
    """Returns for each ranker the widths and passes whose log-loss on the newest quarter is smallest."""
    cut = log.n_rows * 3 // 4
    train, valid = log.slice(0, cut), log.slice(cut, log.n_rows)
    chosen = {}
    for name, widths in _WIDTHS.items():
        found = []
        for hidden, n_epochs in itertools.product(widths, arguments.epochs):
            ranker = _ranker(name, {"query": query}, hidden=hidden, n_epochs=n_epochs, batch_rows=arguments.batch_rows)
            logits = ranker.fit(train, show_progress=False).score_tasks(valid, show_progress=False)
            loss = np.mean([log_loss(logits[task], np.asarray(valid.labels[task])) for task in log.tasks])
            found.append((float(loss), hidden, n_epochs))
            print(f"- {name}, {hidden}, {n_epochs} passes: {loss:.5f}", flush=True)
        chosen[name] = {"hidden": min(found)[1], "n_epochs": min(found)[2], "batch_rows": arguments.batch_rows}
    return chosen


def judge(title, log, train, chosen, of_qin, seed):
    """Yields a table of AUC per task with paired intervals over the users of the judged rows."""
    test = log.slice(train, log.n_rows)
    logits, seconds = {}, {}
    for name, settings in chosen.items():
        cpu = time.process_time()
        ranker = _ranker(name, of_qin, seed=seed, **settings).fit(log.slice(0, train), show_progress=False)
        logits[name] = ranker.score_tasks(test, show_progress=False)
        seconds[name] = time.process_time() - cpu
    users, blocks = np.unique(np.asarray(test.groups), return_inverse=True)
    counts = np.random.default_rng(0).poisson(1.0, (_N_REPLICATES, len(users))).astype(float)
    yield (
        f"\n**{title}**: {train:,} rows train, {test.n_rows:,} judge, {len(users):,} users; CPU s "
        + ", ".join(f"{name} {spent:.0f}" for name, spent in seconds.items())
        + f"; load average {os.getloadavg()[0]:.1f}\n"
    )
    yield "| task | rate | AUC DeepFM | AUC QIN | difference (95 %) | log-loss DeepFM | log-loss QIN |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for task in log.tasks:
        labels = np.asarray(test.labels[task])
        drawn, values, losses = {}, {}, {}
        for name, of_tasks in logits.items():
            replay = metric("auc").summary.replay(Forecast.of(labels, sigmoid(of_tasks[task])))
            drawn[name] = [metric("auc").value(state).number for state in replay.reweighted(blocks, counts)]
            (whole,) = replay.reweighted(blocks, np.ones((1, len(users))))
            values[name], losses[name] = metric("auc").value(whole).number, log_loss(of_tasks[task], labels)
        gain = values["QIN"] - values["multi-task DeepFM"]
        low, high = np.quantile(np.subtract(drawn["QIN"], drawn["multi-task DeepFM"]), (0.025, 0.975))
        yield (
            f"| {task} | {labels.mean():.3f} | {values['multi-task DeepFM']:.4f} | {values['QIN']:.4f} "
            f"| {gain:+.4f} ({low:+.4f} … {high:+.4f}) | {losses['multi-task DeepFM']:.5f} | {losses['QIN']:.5f} |"
        )


def _ranker(name, of_qin, **settings):
    if name == "QIN":
        return QIN(**of_qin, **settings, n_threads=1)
    return MultiTaskDeepFM(**settings, n_threads=1)


def _search_log(n_rows, draw):
    return with_histories(simulate_search(n_rows, seed=draw, world=SearchWorld(seed=draw)).encoded(), "user_id")


def _told(chosen):
    for name, settings in chosen.items():
        yield f"- chosen for {name}: {json.dumps(settings)}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log_kind", choices=("search", "kuairand"))
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--choosing-rows", type=int, default=150_000)
    parser.add_argument("--batch-rows", type=int, default=1024)
    parser.add_argument("--epochs", type=int, nargs="+", default=(1, 2))
    parser.add_argument("--draws", type=int, nargs="+", default=(0, 1))
    parser.add_argument("--seeds", type=int, nargs="+", default=(0, 1))
    parser.add_argument("--log", type=Path, default=Path("kuairand_pure.parquet"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
