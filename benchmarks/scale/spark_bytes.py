"""Bytes that an evaluation on Spark moves, per family of metrics: to the driver and through shuffles, as Spark logs it.

python benchmarks/scale/spark_bytes.py --rows 1000000 --tasks 16
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from local_cluster import session

import monocal.spark as ms
from monocal.lab.simulator import simulate_log

FAMILIES: dict[str, dict[str, Any]] = {
    "totals": {"metrics": ["log_loss", "ne", "brier", "pcoc"]},
    "bins": {"metrics": ["ece", "mce", "rce"]},
    "sketch": {"metrics": ["auc", "adaptive_ece"]},
    "exact auc": {"metrics": ["auc"], "exact": True},
    "fields": {"metrics": ["fece", "mfece", "frce", "mfrce"], "fields": ["site_id", "ad_id", "device", "hour"]},
    "groups": {"metrics": ["gauc", "ndcg"], "group": "user_id"},
    "totals, intervals": {"metrics": ["log_loss", "ne", "pcoc"], "intervals": True},
    "bins, intervals": {"metrics": ["ece", "mce", "rce"], "intervals": True},
    "groups, intervals": {"metrics": ["gauc", "ndcg"], "group": "user_id", "intervals": True},
}


def moved(events: Path) -> dict[str, dict[str, float]]:
    """Adds up what Spark logged of every task, by the description of its job."""
    what: dict[int, str] = {}
    found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for file in sorted(path for path in events.rglob("*") if path.is_file() and "status" not in path.name):
        for line in file.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerJobStart":
                name = event.get("Properties", {}).get("spark.job.description", "")
                what |= dict.fromkeys(event["Stage IDs"], name)
            elif event["Event"] == "SparkListenerTaskEnd" and what.get(event["Stage ID"]):
                facts, sums = event["Task Metrics"], found[what[event["Stage ID"]]]
                sums["tasks"] += 1
                sums["to the driver, KB"] += facts["Result Size"] / 1e3
                sums["shuffled, KB"] += facts["Shuffle Write Metrics"]["Shuffle Bytes Written"] / 1e3
    return found


def main(n_rows: int, n_tasks: int) -> None:
    """Evaluates once per family and prints a line for each."""
    with tempfile.TemporaryDirectory() as place:
        events, path = Path(place) / "events", Path(place) / "log.parquet"
        events.mkdir()
        table = simulate_log(n_rows, seed=0).table()
        pq.write_table(table, path, row_group_size=-(-n_rows // n_tasks))
        logged = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri()}
        logged |= {"spark.eventLog.compress": "false", "spark.sql.shuffle.partitions": str(n_tasks)}
        logged |= {"spark.sql.files.maxPartitionBytes": str(path.stat().st_size // n_tasks)}
        logged |= {"spark.sql.files.openCostInBytes": "1"}
        with session(2, **logged) as spark:
            df = spark.read.parquet(str(path))
            df.count()
            for name, given in FAMILIES.items():
                spark.sparkContext.setJobDescription(name)
                ms.evaluate(df, score="pctr", label="click", **given)
        n_values = {name: table[name].combine_chunks().unique() for name in ("site_id", "ad_id", "device", "hour")}
        print(json.dumps({"values of the fields": sum(len(values) for values in n_values.values())}))
        for name, sums in moved(events).items():
            print(json.dumps({"family": name, **{key: round(value, 1) for key, value in sums.items()}}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--tasks", type=int, default=16)
    given = parser.parse_args()
    main(given.rows, given.tasks)
