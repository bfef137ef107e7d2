"""CPU seconds of single passes on Spark (JVM and Python workers) beside one process; wall time would say little here.

python benchmarks/scale/spark_passes.py --rows 1000000
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from local_cluster import cpu_seconds, session

import monocal
import monocal.spark as ms
from monocal.evaluation.table import evaluate_table
from monocal.lab.simulator import simulate_log
from monocal.tables.vocabulary import Vocabulary

FIELDS = ["site_id", "device", "hour"]
METHODS = ("platt", "wide_logistic", "umc")
PASSES = {"sums": ["log_loss", "pcoc", "ece"], "sketches": ["auc"], "fields": ["fece"], "groups": ["gauc"]}


def measure(what: str, n_rows: int, on_spark: Callable[[], Any], here: Callable[[], Any] | None) -> None:
    """Prints the CPU seconds of one pass, the second time it is run."""
    on_spark()
    java, python = cpu_seconds()
    on_spark()
    java_after, python_after = cpu_seconds()
    facts = {
        "what": what,
        "rows": n_rows,
        "jvm s": round(java_after - java, 1),
        "python s": round(python_after - python, 1),
    }
    if here is not None:
        started = time.process_time()
        here()
        facts["one process s"] = round(time.process_time() - started, 1)
    print(json.dumps(facts), flush=True)


def main(n_rows: int) -> None:
    """Applies three methods, evaluates by family of metrics, counts values, fits by passes."""
    table = simulate_log(n_rows, seed=0).table()
    given: dict[str, Any] = {"score": "pctr", "label": "click", "fields": FIELDS}
    few = table.slice(0, 50_000)
    small = {"umc": {"size": "small", "n_epochs": 1}}
    models = {
        name: monocal.fit(few, method=monocal.calibrator(name, **small.get(name, {})), **given) for name in METHODS
    }
    with tempfile.TemporaryDirectory() as folder, session() as spark:
        path = Path(folder) / "log.parquet"
        pq.write_table(table, path, row_group_size=100_000)
        df = spark.read.parquet(str(path))

        def written(frame: Any) -> Callable[[], None]:
            return lambda: frame.write.mode("overwrite").parquet(str(Path(folder) / "out"))

        measure("copy", n_rows, written(df), None)
        out = Path(folder) / "here.parquet"
        for name, model in models.items():
            measure(f"apply {name}", n_rows, written(ms.apply(df, model)), lambda m=model: monocal.apply(m, path, out))
        roles: dict[str, Any] = {"score": "pctr", "label": "click"}
        for name, metrics in PASSES.items():
            asked = roles | {"fields": FIELDS, "group": "user_id"} | {"metrics": metrics}
            measure(
                f"evaluate {name}",
                n_rows,
                lambda a=asked: ms.evaluate(df, **a),
                lambda a=asked: evaluate_table(path, **a, n_bootstrap=2),
            )
        measure("vocabulary", n_rows, lambda: ms.vocabulary(df, FIELDS), lambda: Vocabulary.of_table(table, FIELDS))
        for method in ("platt", "isotonic"):
            measure(
                f"fit {method}",
                n_rows,
                lambda m=method: ms.fit(df, method=m, **roles),
                lambda m=method: monocal.fit(path, method=m, **roles),
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    main(parser.parse_args().rows)
