"""What numeric fields bring on two real logs, beside the same columns in classes and beside none of them.

KuaiRand: click, scored by LightGBM without durations and counts, trained on the oldest 40 %; fitted on the next 40 %.
Promotions: sold, scored by the product's rate in weeks 2 to 25; fitted on weeks 26 to 40; prices are those paid in
weeks 2 to 25, so that they are known before. All choices of all methods are made on the fitting rows.

    python benchmarks/quality/numeric_fields.py kuairand_pure.parquet --method wide_logistic --method umc
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import monocal
from monocal.lab.sources.complete_journey import installed_folder

Prepared = tuple[pd.DataFrame, pd.DataFrame, dict[str, Any], list[str]]
N_CLASSES = 10
CLASSES = f"{N_CLASSES} quantile classes"


def kuairand(path: Path) -> Prepared:
    """Returns rows to fit, rows to judge, roles, and the numeric columns."""
    import lightgbm

    log = pq.read_table(path).to_pandas()
    log = log[log["is_dup"] == 0].sort_values("time_ms", kind="stable").reset_index(drop=True)
    counts = {"follows": "follow_user_num", "fans": "fans_user_num", "days": "register_days"}
    for name, column in counts.items():
        log[name] = pd.to_numeric(log[column], errors="coerce")
    log["seconds"] = log["duration_ms"] / 1000.0
    seen = ["tab", "hour", "tag", "video_type", "upload_type", "music_type", "user_active_degree"]
    for name in seen:
        log[name] = log[name].astype("category")
    cuts = (np.array([0.4, 0.8]) * len(log)).astype(int)
    ranker = lightgbm.LGBMClassifier(n_estimators=100, num_leaves=31, n_jobs=1, verbose=-1, random_state=0)
    ranker.fit(log[seen].iloc[: cuts[0]], log["is_click"].iloc[: cuts[0]])
    log["score"] = ranker.predict_proba(log[seen])[:, 1]
    fields = ["tab", "hour", "video_type", "user_active_degree"]
    kept = ["score", "is_click", "time_ms", *fields, "seconds", *counts]
    rows = log[kept].astype(dict.fromkeys(fields, str))
    roles = {"score": "score", "label": "is_click", "time": "time_ms", "fields": fields}
    return rows.iloc[cuts[0] : cuts[1]], rows.iloc[cuts[1] :], roles, ["seconds", *counts]


def promotions(share: int) -> Prepared:
    """Returns the same of every `share`-th row of the promotions log."""
    folder = Path(installed_folder())
    whole = pq.read_table(folder / "promotions.parquet")
    chosen = np.random.default_rng(0).permutation(whole.num_rows)[: whole.num_rows // share]
    placed = whole.take(pa.array(np.sort(chosen))).to_pandas()
    placed = placed[(placed["week"] >= 2) & (placed["week"] <= 52)]
    bought = pq.read_table(folder / "transactions.parquet").to_pandas()
    sold = bought[["product_id", "store_id", "week"]].drop_duplicates().assign(sold=1)
    placed = placed.merge(sold, how="left", on=["product_id", "store_id", "week"]).fillna({"sold": 0})
    products = pq.read_table(folder / "products.parquet").to_pandas()
    old = bought[(bought["week"] <= 25) & (bought["quantity"] > 0)]
    paid = (old["sales_value"] + old["retail_disc"]).groupby(old["product_id"]).sum()
    price = (paid / old.groupby("product_id")["quantity"].sum()).rename("price").reset_index()
    products["size"] = [_first_number(text) for text in products["package_size"]]
    placed = placed.merge(products[["product_id", "department", "brand", "size"]], how="left", on="product_id")
    placed = placed.merge(price, how="left", on="product_id").sort_values("week", kind="stable")
    early = placed[placed["week"] <= 25]
    rate = early["sold"].mean()
    sums = early.groupby("product_id")["sold"].agg(["sum", "count"])
    own = ((sums["sum"] + 20.0 * rate) / (sums["count"] + 20.0)).rename("score").reset_index()
    placed = placed.merge(own, how="left", on="product_id").fillna({"score": rate})
    fields = ["department", "brand", "display_location", "mailer_location"]
    for name in fields:
        placed[name] = placed[name].astype(str)
    placed["sold"] = placed["sold"].astype(int)
    later = placed[placed["week"] > 25].drop(columns=["product_id", "store_id"])
    roles = {"score": "score", "label": "sold", "time": "week", "fields": fields}
    return later[later["week"] <= 40], later[later["week"] > 40], roles, ["price", "size"]


LOGS: dict[str, Callable[[Any], Prepared]] = {"KuaiRand": kuairand, "promotions": promotions}


def main() -> None:
    given = argparse.ArgumentParser()
    given.add_argument("kuairand", type=Path)
    given.add_argument("--method", action="append", default=[])
    given.add_argument("--share", type=int, default=40, help="every so manieth row of the promotions log")
    options = given.parse_args()
    warnings.simplefilter("ignore")
    print("| log | rows fitted, judged | method | columns | log-loss | PCOC | against classes |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, prepare in LOGS.items():
        rows, test, roles, numeric = prepare(options.kuairand if name == "KuaiRand" else options.share)
        labels = test[roles["label"]].to_numpy()
        size = f"{len(rows):,}, {len(test):,}"
        losses = {"": _print(name, size, "score alone", "", test["score"].to_numpy(), labels)}
        for method in options.method or ["wide_logistic"]:
            arguments = {"l2": "auto", "carry": "auto", "recent_share": 0.1} if method == "wide_logistic" else {}
            classes = [f"{column}_class" for column in numeric]
            for said, more in (
                ("no numbers", {}),
                (CLASSES, {"fields": [*roles["fields"], *classes]}),
                ("numeric fields", {"numeric": numeric}),
            ):
                edges = {name: np.nanquantile(rows[name], np.linspace(0, 1, N_CLASSES + 1)[1:-1]) for name in numeric}
                both = [_with_classes(part, edges) for part in (rows, test)]
                model = monocal.fit(both[0], method=monocal.calibrator(method, **arguments), **{**roles, **more})
                known = losses.get(CLASSES) if said == "numeric fields" else None
                losses[said] = _print(name, size, method, said, model.predict(both[1]), labels, known)


def _with_classes(rows: pd.DataFrame, edges: dict[str, Any]) -> pa.Table:
    classes = {
        f"{name}_class": np.where(rows[name].isna(), -1, np.searchsorted(e, rows[name])) for name, e in edges.items()
    }
    return pa.Table.from_pandas(rows.assign(**classes), preserve_index=False)


def _first_number(text: Any) -> float:
    found = re.search(r"\d+(\.\d+)?", str(text))
    return float(found.group()) if found else float("nan")


def _print(log: str, size: str, method: str, columns: str, p: Any, labels: Any, other: Any = None) -> Any:
    """Prints a line and returns the loss of every row; beside others, the mean difference and its standard error."""
    clipped = np.clip(p, 1e-9, 1.0 - 1e-9)
    losses = -(labels * np.log(clipped) + (1 - labels) * np.log1p(-clipped))
    beside = ""
    if other is not None:
        gap = losses - other
        beside = f"{gap.mean():+.5f} ± {gap.std() / np.sqrt(len(gap)):.5f}"
    pcoc = p.sum() / labels.sum()
    print(f"| {log} | {size} | {method} | {columns} | {losses.mean():.5f} | {pcoc:.3f} | {beside} |", flush=True)
    return losses


if __name__ == "__main__":
    main()
